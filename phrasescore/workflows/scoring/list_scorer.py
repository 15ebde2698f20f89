"""Score tables, n-best lists and texts: the columns are loaded once, for any number of files."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

from moses_integration.nbest_lines import check_feature_names, format_value
from phrasescore.arguments import StrPath, flag
from phrasescore.errors import ArgumentError
from phrasescore.features import ColumnSpec, check_columns, check_feed_forward, column_specs
from phrasescore.io.output import optional_path
from phrasescore.records import PhraseBlock
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.version import __version__
from phrasescore.workflows.scoring.columns import FeatureLoader, GivenScores, added_columns
from phrasescore.workflows.scoring.scorer import AnyLines, Floats, InputPairs, LineScores, Scorer
from phrasescore.workflows.text_checks import (
    KnownWords,
    UnknownWordCheck,
    unknown_words_of,
    warn_of_shortlists,
)

if TYPE_CHECKING:
    from phrasescore.features.networks import SentenceWork

_logger = logging.getLogger(__name__)


@dataclass
class ListScorer:
    """Scores the pairs of phrase tables, n-best lists or text, and counts unknown words.

    A context manager, which closes the cache. Columns of given scores are for one input file.

    :param of_phrases: whether the pairs are from a phrase table, whose columns have no names.
    :param words: whether the scores of single words are needed, which disables the cache.
    :param sets_threads: see `Scorer`.
    :ivar added: the columns that are added, in order.
    :ivar checkpoints: the trained models among the columns.
    """

    columns: Sequence[ColumnSpec | StrPath]
    settings: Rescoring = Rescoring()
    compute: Compute = Compute()
    _: KW_ONLY
    of_phrases: bool = False
    words: bool = False
    sets_threads: bool = True

    def __post_init__(self) -> None:
        """Check the arguments, and load models and files."""
        compute = self.compute.on_workers()
        specs = column_specs(self.columns)
        check_columns(specs, of_phrases=self.of_phrases)
        if self.settings.ensemble and sum(column.kind == "model" for column in specs) < 2:
            raise ArgumentError("--ensemble requires at least two models")
        backoff = optional_path(self.settings.backoff_lm)
        self._loader = FeatureLoader.of(
            specs,
            compute,
            of_phrases=self.of_phrases,
            ensemble=self.settings.ensemble,
            words=self.words,
            unnormalized=self.settings.unnormalized,
            backoff_lm=backoff,
            answer_timeout=self.settings.answer_timeout,
        )
        self.checkpoints = checkpoints = self._loader.checkpoints
        configs = [checkpoint.config for checkpoint in checkpoints]
        check_feed_forward(configs, backoff, unnormalized=self.settings.unnormalized)
        self.aligned = any(config.network.is_aligned for config in configs)
        if self.aligned and self.settings.ensemble:
            problem = "--ensemble cannot be used with a joint model, which reads alignments"
            raise ArgumentError(problem)
        self.added = added_columns(
            specs, self._loader, self.settings.names, normalize=self.settings.normalize
        )
        self.names = tuple(added.name for added in self.added)
        if not self.of_phrases:
            check_feature_names(self.names)
        features = self._loader.load()
        self._known_words = self._loader.known_words()
        others = [column for column in self._loader.columns if column.kind != "model"]
        for column, feature in zip(others, features[len(features) - len(others) :], strict=True):
            # `annotate` checks a lexicon by the share of words without a translation.
            if not self.of_phrases and feature.known_words != (None, None):
                self._known_words.append(KnownWords(column.value, *feature.known_words))
        self._unknown_words: tuple[UnknownWordCheck, UnknownWordCheck] | None = None
        self._stack = ExitStack()
        if self.words and self.settings.cache is not None:
            _logger.warning("word scores are always computed: the cache is not used")
        if self.settings.ensemble:
            warn_of_shortlists(checkpoints)
        self._engine, self._features = compute, features

    def __enter__(self) -> Self:
        cache = None
        is_cached = any(feature.highest is not None for feature in self._features)
        if self.settings.cache is not None and is_cached and not self.words:
            from phrasescore.features.score_cache import ScoreCache

            opened = ScoreCache(os.fspath(self.settings.cache), limit=self.settings.cache_size)
            cache = self._stack.enter_context(opened)
        scorer = Scorer(
            self._loader,
            self._engine,
            features=self._features,
            cache=cache,
            sets_threads=self.sets_threads,
        )
        self._scorer = self._stack.enter_context(scorer)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def score(
        self, lines: Iterable[AnyLines], source: str, target: str
    ) -> Iterator[tuple[AnyLines, LineScores]]:
        """Yield lines with their pairs' values, in order, and count unknown words.

        The values have a row for each of `added`, except given scores.

        :param source: the name of the sentences in messages; ``target`` names the translations.
        """
        self._scorer.start_counting()
        if self._unknown_words is None:  # counted over all files, to warn only once
            self._unknown_words = unknown_words_of(source, target, self._known_words)
        sources, targets = self._unknown_words
        for each, scores in self._scorer.score(lines):
            sources.count_side(each.block, 0)
            targets.count_side(each.block, 1)
            yield each, LineScores(self._added_values(each.block, scores), scores.words)
        sources.warn()
        targets.warn()

    def score_list(self, lines: InputPairs) -> Floats:
        """Return the values of one list's pairs, with a row for each of `added`."""
        ((_, scores),) = self._scorer.score([lines])
        return self._added_values(lines.block, scores)

    def _added_values(self, block: PhraseBlock, scores: LineScores) -> Floats:
        computed = [added for added in self.added if added.given is None]
        values = scores.values[[added.row for added in computed if added.row is not None]]
        for row, added in enumerate(computed):
            if added.normalized:
                values[row] /= block.lengths(0 if added.reverse else 1) + 1
        return values

    @property
    def given(self) -> list[GivenScores]:
        """The given scores among the columns."""
        return [added.given for added in self.added if added.given is not None]

    @property
    def tallies(self) -> list[Any]:
        """The given scores or the tally of each column in this file so far, for a phrase table."""
        tallies = self._scorer.tallies
        return [
            tallies[added.row] if added.row is not None else added.given for added in self.added
        ]

    @property
    def networks(self) -> "SentenceWork | None":
        """The networks' counts in this file so far; None without networks."""
        return self._scorer.tallies[0] if self._loader.models else None

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """The name of each column that is not a network's, and a summary of its values."""
        tallies = iter(self._scorer.tallies[bool(self._loader.models) :])
        return tuple(
            (added.name, str(next(tallies) if added.given is None else added.given))
            for added in self.added
            if not added.is_network
        )

    def depends_on(self) -> dict[str, str]:
        """Return everything that the values depend on besides the input."""
        settings = {"version": f"phrasescore {__version__}"}
        if self._loader.models:
            import torch

            settings["version"] += f", torch {torch.__version__}"
            device = self._loader.device.partition(":")[0]
            settings |= {"precision": self._loader.precision, "device": device}
        depends_on = [each for feature in self._features for each in feature.fingerprints]
        for position, added in enumerate(self.added, start=1):
            if added.given is not None:
                text = f"scores {added.given.fingerprint}"
            else:
                assert added.row is not None
                text = depends_on[added.row] + " normalized" * added.normalized
            settings[f"feature {position}"] = f"{added.name} {text}".strip()  # a column has no name
        return settings

    def word_lines(
        self, block: PhraseBlock, scores: LineScores, numbers: Iterable[int]
    ) -> list[bytes]:
        """Return a line per pair: its sentence's number, and ``word=log p ...`` per network."""
        assert scores.words is not None
        networks = [added for added in self.added if added.is_network and not added.normalized]
        lines = []
        for index, (number, pair) in enumerate(zip(numbers, block.pairs(), strict=False)):
            fields = [b"%d" % number]
            for added in networks:
                assert added.row is not None
                predicted = pair.source if added.reverse else pair.target
                values = map(format_value, scores.words[added.row][index].tolist())
                words = zip((*predicted, "</s>"), values, strict=True)
                fields.append(b" ".join(b"%s=%s" % (word.encode(), value) for word, value in words))
            lines.append(b" ||| ".join(fields) + b"\n")
        return lines


def check_of_networks(
    columns: Sequence[ColumnSpec],
    *,
    word_scores: str | None,
    cache: str | None,
    normalize: bool = False,
) -> None:
    """Reject options that need a network if there is none, and a cache named ``-``."""
    kinds = {column.kind for column in columns}
    wanted = {"normalize": normalize, "word_scores": word_scores, "cache": cache}
    for name, value in wanted.items():
        cached = {"ctranslate2", "command"} if name == "cache" else set()
        if value and not kinds & {"model", *cached}:
            raise ArgumentError(f"{flag(name)} requires a network: add a --model")
    if cache == "-":
        raise ArgumentError("--cache requires a file: a stream cannot be a cache")
