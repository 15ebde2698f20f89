"""Add features to the hypotheses of n-best lists."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from itertools import chain, tee
from typing import BinaryIO, NamedTuple, Self

import torch

from moses_integration.nbest import (
    NbestList,
    format_features,
    format_value,
    read_nbest,
    with_sources,
)
from moses_integration.nbest_lines import check_feature_names
from phrasescore.arguments import (
    PrecisionName,
    StrPath,
    check_at_least,
    check_compute,
    check_sequences,
)
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.devices import choose_device, torch_threads, usable_threads
from phrasescore.errors import ArgumentError
from phrasescore.features import ColumnSpec, check_columns, check_cslm, column_specs
from phrasescore.features.score_cache import DEFAULT_LIMIT, ScoreCache
from phrasescore.features.sentences import ListScores, SentenceScores, SentenceWork
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.language_models.word_scorer import CslmOptions
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import HypothesisList
from phrasescore.workflows.columns import added_features
from phrasescore.workflows.text_checks import UnknownWordCounter, warn_of_shortlists
from phrasescore.workflows.warnings import returns_warnings

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RescoreSummary:
    """What was added to one file of n-best lists."""

    # Names of the new features, in the order of the columns.
    features: tuple[str, ...]
    # Lines of the file, and lists in it.
    hypotheses: int
    lists: int
    # How much the networks computed; None without networks.
    networks: SentenceWork | None
    # For each feature that is not a network's: its name, and a sentence about its values.
    notes: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()

    def summary(self) -> list[str]:
        """Return the lines for a user: of the networks together, then of each other feature."""
        networks = [] if self.networks is None else [self.networks.summary()]
        return networks + [f"{name}: {note}" for name, note in self.notes]


@returns_warnings
def rescore(
    nbest: StrPath,
    source: StrPath,
    columns: Sequence[ColumnSpec | str],
    output: StrPath,
    *,
    names: Sequence[str] = (),
    ensemble: bool = False,
    normalize: bool = False,
    word_scores: StrPath | None = None,
    replace: bool = False,
    allow_missing: bool = False,
    cache: StrPath | None = None,
    cache_size: int = DEFAULT_LIMIT,
    backoff_lm: StrPath | None = None,
    unnormalized: bool = False,
    precision: PrecisionName = "float32",
    device: str = "auto",
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> RescoreSummary:
    """Add features to the hypotheses of an n-best list as Moses writes it.

    A model's value is log p(hypothesis ``</s>`` | source), or of the reverse, a natural logarithm
    that is not divided by length. Features go to the end of field 3, in the order of the columns;
    every other byte of a line stays, and so does the order of the lines.

    :param source: the sentences that were translated, tokenised, one per line.
    :param columns: one feature per column; a string is a model's folder.
    :param names: of the new features: one per column, and the ensemble's last. Where there are
        none, features are named ``LSTM0``, ``RNN0``, ``KenLM0`` and so on.
    :param ensemble: add a column in which the models' probabilities are averaged at each word.
    :param normalize: add a column ``<name>Norm`` for each network: its score divided by the number
        of predicted words and ``</s>``.
    :param word_scores: where the log-probability of each predicted word goes.
    :param replace: remove features that have the name of a new one.
    :param allow_missing: let source sentences have no list.
    :param cache: a file that keeps the networks' scores from run to run.
    :param cache_size: scores that the cache keeps; beyond, the oldest go.
    :param backoff_lm: an n-gram model for the words outside the shortlist of a model of the kind
        cslm; without it they are ``<unk>``.
    :param unnormalized: leave log Z out of the scores of a model of the kind cslm.
    """
    nbest, source, output = os.fspath(nbest), os.fspath(source), os.fspath(output)
    words, cache = optional_path(word_scores), optional_path(cache)
    specs = column_specs(columns)
    if not any(column.kind == "model" for column in specs) and (
        normalize or words is not None or cache is not None
    ):
        raise ArgumentError("`normalize`, `word_scores` and `cache` are for the scores of a model")
    if cache == "-":
        raise ArgumentError("`cache` needs a file: a stream cannot be a cache")
    files = (each.value for each in specs if each.kind not in ("model", "feature"))
    check_files((nbest, source, *files, optional_path(backoff_lm)), (output, words, cache))
    with ListRescorer(
        specs,
        names=names,
        ensemble=ensemble,
        normalize=normalize,
        words=words is not None,
        cache=cache,
        cache_size=cache_size,
        backoff_lm=backoff_lm,
        unnormalized=unnormalized,
        precision=precision,
        device=device,
        threads=threads,
    ) as rescorer:
        return rescorer.rescore(
            nbest,
            source,
            output,
            word_scores=words,
            replace=replace,
            allow_missing=allow_missing,
            unknown_words=UnknownWordCounter(source, rescorer.source_vocabularies),
            progress=progress,
        )


class _SourcedList(NamedTuple):
    """An n-best list with the words of its sentence."""

    nbest: NbestList
    source: tuple[str, ...]
    # The words of each distinct hypothesis, by its field.
    distinct: dict[bytes, tuple[str, ...]]


@dataclass
class ListRescorer:
    """Adds features to one file of n-best lists after another; models are loaded once.

    A context manager, which closes the cache. The lists are those of :func:`rescore`, byte for
    byte; the parameters are that function's.

    :ivar names: of the features that are added.
    :ivar source_vocabularies: the source words that each translation model knows, by its path.
    :param words: whether the scores of single words can be asked for; the cache then has no use.
    :raises ArgumentError: if arguments do not go together.
    :raises ModelError: if a model cannot be loaded.
    """

    columns: Sequence[ColumnSpec | str]
    _: KW_ONLY
    names: Sequence[str] = ()
    ensemble: bool = False
    normalize: bool = False
    words: bool = False
    cache: StrPath | None = None
    cache_size: int = DEFAULT_LIMIT
    backoff_lm: StrPath | None = None
    unnormalized: bool = False
    precision: PrecisionName = "float32"
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check the arguments and load the models."""
        check_sequences(names=self.names)
        check_at_least(1, cache_size=self.cache_size)
        check_compute(self.device, self.precision, self.threads)
        specs = column_specs(self.columns)
        check_columns(specs, of_phrases=False)
        paths = [column.value for column in specs if column.kind == "model"]
        if self.ensemble and len(paths) < 2:
            raise ArgumentError("`ensemble` averages at least two models")
        self._place = choose_device(self.device) if paths else torch.device("cpu")
        self._checkpoints = [load_checkpoint(path) for path in paths]
        backoff = optional_path(self.backoff_lm)
        configs = [checkpoint.config for checkpoint in self._checkpoints]
        check_cslm(configs, backoff, unnormalized=self.unnormalized)
        self._cslm = CslmOptions(normalized=not self.unnormalized, backoff=backoff)
        self._added = added_features(
            specs,
            self._checkpoints,
            self.names,
            ensemble=self.ensemble,
            normalize=self.normalize,
        )
        self.names = tuple(added.name for added in self._added)
        check_feature_names(self.names)
        self.source_vocabularies = {
            path: checkpoint.table_source_vocabulary
            for path, checkpoint in zip(paths, self._checkpoints, strict=True)
            if checkpoint.config.kind not in LANGUAGE_MODELS
        }
        self._scores: SentenceScores | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def rescore(
        self,
        nbest: StrPath,
        source: StrPath,
        output: StrPath,
        *,
        word_scores: StrPath | None = None,
        replace: bool = False,
        allow_missing: bool = False,
        unknown_words: UnknownWordCounter | None = None,
        progress: ProgressCallback | None = None,
    ) -> RescoreSummary:
        """Write the lists of a file with the new features at the end of field 3.

        :param unknown_words: counts the words of the source, and warns.
        :raises DataError: if the lists are not as they should be, or have such features already.
        """
        assert word_scores is None or self.words
        found = read_nbest(os.fspath(nbest), () if replace else self.names)
        lists = _read(
            with_sources(found, os.fspath(source), allow_missing=allow_missing), unknown_words
        )
        # Mistakes in the files often show here, before the networks are laid out.
        first = next(lists)
        scores = self._open_scores()
        if scores is not None:
            scores.start_counting()
        with ExitStack() as stack:
            target = stack.enter_context(open_output(os.fspath(output)))
            words = None
            if word_scores is not None:
                words = stack.enter_context(open_output(os.fspath(word_scores)))
            meter = stack.enter_context(Meter("rescore", "hypotheses", progress))
            written = 0
            for each, result in _scored(chain([first], lists), scores):
                kept = each.nbest.without_features(self.names) if replace else each.nbest
                target.write(kept.with_features(self._texts(each, result)))
                if words is not None and result is not None:
                    self._write_words(words, each, result)
                written += 1
                meter.update(len(kept.raws))
        return RescoreSummary(
            tuple(self.names),
            meter.done,
            written,
            None if scores is None else scores.work,
            tuple(
                (added.name, str(added.feature.tally))
                for added in self._added
                if added.feature is not None
            ),
        )

    def _open_scores(self) -> SentenceScores | None:
        """Return the networks' scores of lists; None without networks."""
        if not self._checkpoints or self._scores is not None:
            return self._scores
        cache = None
        if self.words and self.cache is not None:
            _logger.warning("word scores are always computed: the cache is not used")
        elif self.cache is not None:
            path = os.fspath(self.cache)
            cache = self._stack.enter_context(ScoreCache(path, limit=self.cache_size))
        self._stack.enter_context(torch_threads(1))  # scoring has threads of its own
        self._scores = SentenceScores(
            self._checkpoints,
            self._place,
            precision=self.precision,
            threads=usable_threads(self.threads),
            ensemble=self.ensemble,
            words=self.words,
            cache=cache,
            cslm=self._cslm,
        )
        if self.ensemble:
            warn_of_shortlists(self._checkpoints)
        return self._scores

    def _texts(self, found: _SourcedList, scores: ListScores | None) -> dict[bytes, bytes]:
        """Return what is added to the lines of each distinct hypothesis."""
        hypotheses = list(found.distinct.values())
        values = [added.values(found.source, hypotheses, scores) for added in self._added]
        return {
            field: format_features(zip(self.names, row, strict=True))
            for field, *row in zip(found.distinct, *values, strict=True)
        }

    def _write_words(self, target: BinaryIO, found: _SourcedList, scores: ListScores) -> None:
        """Write a line per hypothesis: its id, and for each network a field of ``word=log p``."""
        assert scores.words is not None
        lines = {}
        for place, (field, hypothesis) in enumerate(found.distinct.items()):
            parts = [str(found.nbest.id).encode()]
            for added in self._added:
                if added.network is None or added.normalized:
                    continue
                predicted = found.source if added.reverse else hypothesis
                log_probs = scores.words[added.network][place].tolist()
                parts.append(
                    b" ".join(
                        b"%s=%s" % (word.encode(), format_value(log_prob))
                        for word, log_prob in zip((*predicted, "</s>"), log_probs, strict=True)
                    )
                )
            lines[field] = b" ||| ".join(parts) + b"\n"
        target.writelines(lines[field] for field in found.nbest.hypotheses)


def _read(
    lists: Iterable[tuple[NbestList, tuple[str, ...]]], unknown_words: UnknownWordCounter | None
) -> Iterator[_SourcedList]:
    """Yield each list with its source and its distinct hypotheses; count the source's words."""
    for nbest, source in lists:
        if unknown_words is not None:
            unknown_words.count(source)
        yield _SourcedList(nbest, source, nbest.distinct())
    if unknown_words is not None:
        unknown_words.warn()


def _scored(
    lists: Iterable[_SourcedList], scores: SentenceScores | None
) -> Iterator[tuple[_SourcedList, ListScores | None]]:
    """Yield each list with its scores; each is read once, and held until its scores are there."""
    if scores is None:
        for found in lists:
            yield found, None
        return
    lists, ahead = tee(lists)
    wanted = (HypothesisList(each.source, list(each.distinct.values())) for each in ahead)
    yield from zip(lists, scores.values(wanted), strict=True)
