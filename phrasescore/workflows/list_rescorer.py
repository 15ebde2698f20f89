"""Add features to one file of n-best lists after another."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice, tee
from typing import Self, TypeVar

import torch

from moses_integration.nbest_lines import check_feature_names
from phrasescore.arguments import StrPath
from phrasescore.devices import choose_device, torch_threads
from phrasescore.errors import ArgumentError, shown_path
from phrasescore.features import (
    ColumnSpec,
    check_columns,
    check_feed_forward,
    column_specs,
    list_scoring,
)
from phrasescore.features.list_scoring import ListScores, SentenceWork
from phrasescore.features.score_cache import ScoreCache
from phrasescore.features.sentences import SentenceScores
from phrasescore.io.output import StreamOutput, open_output, optional_path
from phrasescore.io.resumable import ResumableOutput, open_resumable
from phrasescore.language_models.word_scorer import CslmOptions
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import HypothesisList, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.version import __version__
from phrasescore.workflows.columns import added_features, fingerprint
from phrasescore.workflows.foreign_features import foreign_scores, read_ahead
from phrasescore.workflows.given_scores import check_counts
from phrasescore.workflows.list_texts import feature_texts, word_line, word_lines
from phrasescore.workflows.sourced_lists import SourcedList, read_sourced_lists
from phrasescore.workflows.text_checks import (
    KnownWords,
    UnknownWordCheck,
    known_words,
    unknown_words_of,
    warn_of_shortlists,
)

_logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")

# Lists of a chunk: what is lost at most when a run is killed, and a member of a .gz file.
CHUNK_LISTS = 64


@dataclass(frozen=True, slots=True)
class RescoreSummary:
    """What was added to one file of n-best lists."""

    # Names of the new features, in the order of the columns.
    features: tuple[str, ...]
    # Lines and lists in this run; an earlier run that was resumed had written the others.
    hypotheses: int
    lists: int
    # How much the networks computed; None without networks.
    networks: SentenceWork | None
    # For each feature that is not a network's: its name, and a few words about its values.
    notes: tuple[tuple[str, str], ...]

    def summary(self) -> list[str]:
        """Return the lines for a user: of the networks together, then of each other feature."""
        others = dict(self.notes)
        networks = []
        if self.networks is not None:
            added = ", ".join(name for name in self.features if name not in others)
            networks = [f"{self.networks.summary()}; added {added}"]
        return networks + [f"{name}: {note}" for name, note in self.notes]


@dataclass
class ListRescorer:
    """Adds features to one file of n-best lists after another; models are loaded once.

    A context manager, which closes the cache. The lists are those of :func:`rescore`, byte for
    byte; the parameters are that function's. Given scores among the columns are of one file.

    :ivar names: of the features that are added.
    :param words: whether the scores of single words can be asked for; the cache then has no use.
    :raises ArgumentError: if arguments do not go together.
    :raises ModelError: if a model cannot be loaded.
    """

    columns: Sequence[ColumnSpec | StrPath]
    settings: Rescoring = Rescoring()
    compute: Compute = Compute()
    _: KW_ONLY
    words: bool = False

    def __post_init__(self) -> None:
        """Check the arguments and load the models."""
        self.compute = self.compute.on_workers()
        specs = column_specs(self.columns)
        check_columns(specs, of_phrases=False)
        paths = [column.value for column in specs if column.kind == "model"]
        if self.settings.ensemble and len(paths) < 2:
            raise ArgumentError("--ensemble averages at least two models")
        networks = any(column.kind in ("model", "ctranslate2") for column in specs)
        self._place = self._choose_place() if networks else torch.device("cpu")
        self._checkpoints = [load_checkpoint(path) for path in paths]
        backoff = optional_path(self.settings.backoff_lm)
        configs = [checkpoint.config for checkpoint in self._checkpoints]
        check_feed_forward(configs, backoff, unnormalized=self.settings.unnormalized)
        self._specs = specs
        self._cslm = CslmOptions(normalized=not self.settings.unnormalized, backoff=backoff)
        self._added = added_features(
            specs,
            self._checkpoints,
            self.settings.names,
            ensemble=self.settings.ensemble,
            normalize=self.settings.normalize,
        )
        self.names = tuple(added.name for added in self._added)
        check_feature_names(self.names)
        self._known_words = [
            known_words(path, checkpoint)
            for path, checkpoint in zip(paths, self._checkpoints, strict=True)
        ]
        others = zip(
            (column for column in specs if column.kind not in ("model", "scores")),
            (added.feature for added in self._added if added.feature is not None),
            strict=True,
        )
        for column, feature in others:
            if (sides := getattr(feature, "known_words", None)) is not None:
                self._known_words.append(KnownWords(column.value, *sides))
        self._unknown_words: tuple[UnknownWordCheck, UnknownWordCheck] | None = None
        self._aligned = any(config.network.is_aligned for config in configs)
        if self._aligned and self.settings.ensemble:
            raise ArgumentError("--ensemble: a joint model reads alignments, and is in none")
        self._scores: SentenceScores | None = None
        self._opened_cache: ScoreCache | None = None
        self._idle = foreign_scores(self._added)
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
        resume: bool | None = None,
        progress: ProgressCallback | None = None,
    ) -> RescoreSummary:
        """Write the lists of a file with the new features at the end of field 3.

        :param resume: whether to go on with the unfinished output of another run; None keeps no
            unfinished output at all.
        :raises DataError: if the lists are not as they should be, or have such features already.
        """
        assert word_scores is None or self.words
        path, known = os.fspath(nbest), () if self.settings.replace else self.names
        lists = check_counts(
            read_sourced_lists(
                *(path, os.fspath(source), known),
                allow_missing=self.settings.allow_missing,
                aligned=self._aligned,
            ),
            path,
            [added.given for added in self._added if added.given is not None],
        )
        # Mistakes in the files often show here, before the networks are laid out.
        head = list(islice(lists, 1))
        self._open_foreign()
        scores = self._open_scores()
        if scores is not None:
            scores.start_counting()
        sources, hypotheses = self._open_unknown_words(
            os.fspath(source), f"{shown_path(path)} (hypotheses)"
        )
        written = 0
        with (
            self._open_output(os.fspath(output), resume) as target,
            nullcontext() if word_scores is None else open_output(os.fspath(word_scores)) as words,
            Meter("rescore", "hypotheses", progress, lines_of=path) as meter,
        ):
            remaining, added = read_ahead(target.remaining(chain(head, lists), path), self._added)
            for each, result in _scored(remaining, _list_of, scores):
                kept = (
                    each.nbest.without_features(self.names) if self.settings.replace else each.nbest
                )
                written += 1
                if not meter.done:
                    meter.skipped = each.before
                if self._known_words:
                    sources.count(each.source)
                    for hypothesis in each.distinct.hypotheses:
                        hypotheses.count(hypothesis)
                target.write(
                    *(
                        kept.with_features(list(feature_texts(added, each, result))),
                        each.raw,
                        each.num_lines,
                    ),
                    ends_chunk=each.place % CHUNK_LISTS == CHUNK_LISTS - 1,
                )
                if words is not None and result is not None:
                    words.writelines(word_lines(self._added, each, result))
                meter.update(each.num_lines)
            sources.warn()
            hypotheses.warn()
            target.flush()
        return RescoreSummary(
            tuple(self.names),
            meter.done,
            written,
            None if scores is None else scores.work,
            self.notes,
        )

    def score(
        self, pairs: Iterable[PhrasePair], source: str, target: str
    ) -> Iterator[tuple[list[float], bytes]]:
        """Yield the values of each sentence with its translation, in order, lazily.

        Beside them stands the line of :func:`rescore`'s ``word_scores``, with the number of the
        sentence from 0; it is empty where the scores of words were not asked for.

        :param source: the name of the sentences, for messages; ``target`` of their translations.
        """
        sources, targets = self._open_unknown_words(source, target)
        self._open_foreign()
        # A feature may read ahead: those of lexicons score many pairs at once.
        copies = iter(tee(pairs, 1 + sum(added.feature is not None for added in self._added)))
        scored = _scored(next(copies), _list_of_one, self._open_scores())
        columns = [
            None if added.feature is None else added.feature.values(next(copies))
            for added in self._added
        ]
        for number, (pair, result) in enumerate(scored):
            sources.count(pair.source)
            targets.count(pair.target)
            values = [
                added.values(pair.source, [pair.target], result)[0]
                if column is None
                else next(column)
                for added, column in zip(self._added, columns, strict=True)
            ]
            if result is None or result.words is None:
                yield values, b""
            else:
                yield values, word_line(self._added, number, *pair, result)
        sources.warn()
        targets.warn()
        for column in columns:
            if column is not None:
                next(column, None)  # one of another package is checked to have no more values

    @property
    def work(self) -> SentenceWork | None:
        """What the networks have computed since the last count began; None without networks."""
        return None if self._scores is None else self._scores.work

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """For each feature that is not a network's: its name, and a few words about its values."""
        return tuple(
            (added.name, str(added.given if added.feature is None else added.feature.tally))
            for added in self._added
            if added.network is None
        )

    def _open_unknown_words(
        self, source: str, target: str
    ) -> tuple[UnknownWordCheck, UnknownWordCheck]:
        """Return what counts unknown words, over all files: a model is warned of once."""
        if self._unknown_words is None:
            self._unknown_words = unknown_words_of(source, target, self._known_words)
        return self._unknown_words

    def _choose_place(self) -> torch.device:
        """Return the device that computes."""
        name = self.compute.device
        # Ray's machines may have a GPU that this one lacks.
        return torch.device(name) if self.compute.engine == "ray" else choose_device(name)

    def _open_output(self, path: str, resume: bool | None) -> ResumableOutput | StreamOutput:
        """Return the output; see :meth:`rescore`."""
        if resume is None:
            return StreamOutput(path)
        return open_resumable(path, self._settings(), resume=resume)

    def _settings(self) -> dict[str, str]:
        """Return everything that the output depends on, but for the input."""
        settings = {"version": f"phrasescore {__version__}", "lists of a chunk": str(CHUNK_LISTS)}
        if self._checkpoints:
            settings["version"] += f", torch {torch.__version__}"
            settings |= {"precision": self.compute.precision, "device": self._place.type}
        if self.settings.replace:
            settings["replace"] = "yes"
        networks = [
            list_scoring.fingerprint(checkpoint, self._cslm) for checkpoint in self._checkpoints
        ]
        networks.append(" + ".join(networks))  # of the ensemble
        others = (spec for spec in self._specs if spec.kind not in ("model", "scores"))
        for position, added in enumerate(self._added, start=1):
            if added.given is not None:
                depends_on = f"scores {added.given.fingerprint}"
            elif added.feature is not None:
                depends_on = fingerprint(next(others), added.feature, self._checkpoints)
            else:
                assert added.network is not None
                depends_on = networks[added.network] + (" normalized" if added.normalized else "")
            settings[f"feature {position}"] = f"{added.name} {depends_on}"
        return settings

    def _open_scores(self) -> SentenceScores | None:
        """Return the networks' scores of lists; None without networks."""
        if not self._checkpoints or self._scores is not None:
            return self._scores
        if self.words and self.settings.cache is not None:
            _logger.warning("word scores are always computed: the cache is not used")
        self._stack.enter_context(torch_threads(1))  # scoring has workers of its own
        self._scores = self._stack.enter_context(
            SentenceScores(
                *(self._checkpoints, self._place),
                precision=self.compute.precision,
                engine=self.compute,
                ensemble=self.settings.ensemble,
                words=self.words,
                cache=None if self.words else self._open_cache(),
                cslm=self._cslm,
            )
        )
        if self.settings.ensemble:
            warn_of_shortlists(self._checkpoints)
        return self._scores

    def _open_cache(self) -> ScoreCache | None:
        if self.settings.cache is not None and self._opened_cache is None:
            cache = ScoreCache(os.fspath(self.settings.cache), limit=self.settings.cache_size)
            self._opened_cache = self._stack.enter_context(cache)
        return self._opened_cache

    def _open_foreign(self) -> None:
        """Let foreign models compute where the others do."""
        while self._idle:
            feature, cache = self._idle.pop(), self._open_cache()
            self._stack.enter_context(feature.working(self.compute, str(self._place), cache))


def _list_of(found: SourcedList) -> HypothesisList:
    return found.distinct


def _list_of_one(pair: PhrasePair) -> HypothesisList:
    return HypothesisList(pair.source, [pair.target])


def _scored(
    items: Iterable[_Item],
    hypothesis_list: Callable[[_Item], HypothesisList],
    scores: SentenceScores | None,
) -> Iterator[tuple[_Item, ListScores | None]]:
    """Yield each item with the scores of its list; each is read once, and held until then."""
    if scores is None:
        for item in items:
            yield item, None
        return
    items, ahead = tee(items)
    yield from zip(items, scores.values(map(hypothesis_list, ahead)), strict=True)
