"""The scores of generated phrase pairs in the columns of a phrase table.

Moses' four columns are p(source | target), lex(source | target), p(target | source) and lex(target
| source). A network's probability for the whole phrase and its end fills both columns for its
direction, unless there is a lexical table for the second. A column without a model has `FLOOR` in
every new pair; the indicator's weight can compensate for that.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from moses_integration.phrase_table import read_lexicon
from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features.lexicon import LexicalScore, Lexicon
from phrasescore.generation.generator import check_kinds
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import HypothesisList, PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.load_model import ScoringModel

_logger = logging.getLogger(__name__)

FLOOR = 1e-7  # the lowest probability in Moses' lexical translation tables, which have 7 decimals
MOSES_COLUMNS = 4

FORWARD, REVERSE = "forward", "reverse"
LEXICON, REVERSE_LEXICON = "lexicon", "reverse-lexicon"
_NAMES = (FORWARD, REVERSE, LEXICON, REVERSE_LEXICON)

# The name of the scores that fill a column, or a natural logarithm that all pairs get.
ColumnContent = str | float


class NewTargets(NamedTuple):
    """New targets for a source, with log p(target | source) of each."""

    source: tuple[str, ...]
    targets: list[tuple[str, ...]]
    log_probs: list[float]


def plan_columns(
    scores: str | None, given: Mapping[str, str | None], num_scores: int
) -> list[ColumnContent]:
    """Return the content of each column for new pairs, by default Moses' four scores."""
    if scores is not None:
        columns = [_parse(text.strip(), given) for text in scores.split(",")]
    elif num_scores != MOSES_COLUMNS:
        problem = f"the table has {num_scores} scores, not Moses' {MOSES_COLUMNS}:"
        raise ArgumentError(f"{problem} --scores must name the content of each column")
    else:
        floor = math.log(FLOOR)
        reverse: ColumnContent = floor if given[REVERSE] is None else REVERSE
        columns = [
            reverse,
            reverse if given[REVERSE_LEXICON] is None else REVERSE_LEXICON,
            FORWARD,
            FORWARD if given[LEXICON] is None else LEXICON,
        ]
        if floor in columns:
            _logger.warning(
                "no --reverse-model: new pairs have %g in the columns of p(source | target)", FLOOR
            )
    if len(columns) != num_scores:
        problem = f"--scores: expected {num_scores} columns, as in the table, got {len(columns)}"
        raise ArgumentError(problem)
    return columns


def _parse(text: str, given: Mapping[str, str | None]) -> ColumnContent:
    if text in _NAMES:
        if text != FORWARD and given[text] is None:
            parameter = "reverse_model" if text == REVERSE else text.replace("-", "_")
            raise ArgumentError(f"--scores: {text} requires {flag(parameter)}")
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        problem = f"expected {', '.join(_NAMES)} or a probability above 0, got {text!r}"
        raise ArgumentError(f"--scores: {problem}")
    return math.log(value)


class PairScores:
    """Computes the scores of new pairs; ``fingerprints`` has all that they depend on."""

    def __init__(
        self, columns: Sequence[ColumnContent], given: Mapping[str, str | None], compute: Compute
    ) -> None:
        self._columns = columns
        self.fingerprints: dict[str, str] = {}
        self._reverse = None
        path = given[REVERSE]
        if REVERSE in columns and path is not None:
            checkpoint = load_checkpoint(path)
            check_kinds([checkpoint])
            if not checkpoint.reverse:
                problem = f"--reverse-model {path}: expected a model trained with --reverse,"
                raise ModelError(f"{problem} found one that predicts the target")
            self.fingerprints[REVERSE] = checkpoint.fingerprint
            self._reverse = ScoringModel(checkpoint, path, compute, warns=False)
        self._lexical = {}
        for name in (LEXICON, REVERSE_LEXICON):
            path = given[name]
            if name in columns and path is not None:
                lexicon = Lexicon.from_entries(path, read_lexicon(path))
                self._lexical[name] = LexicalScore(lexicon, reverse=name == REVERSE_LEXICON)
                self.fingerprints[name] = self._lexical[name].fingerprints[0]

    def rows(self, found: Sequence[NewTargets]) -> Iterator[list[tuple[float, ...]]]:
        """Yield, for each source, one row per target with the natural logarithm for each column."""
        pairs = [PhrasePair(item.source, target) for item in found for target in item.targets]
        by_name = {FORWARD: [value for item in found for value in item.log_probs]}
        if self._reverse is not None:
            lists = [HypothesisList(item.source, item.targets) for item in found if item.targets]
            scored = self._reverse.score_lists(lists)
            by_name[REVERSE] = [value for values in scored for value in values]
        for name, score in self._lexical.items():
            by_name[name] = score.score(PhraseBlock.of(pairs)).values[0].tolist()
        columns = [
            by_name[content] if isinstance(content, str) else [content] * len(pairs)
            for content in self._columns
        ]
        rows = zip(*columns, strict=True)
        for item in found:
            yield list(islice(rows, len(item.targets)))
