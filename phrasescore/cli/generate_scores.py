"""The scores of generated phrase pairs: what stands in each column of the table.

Moses' four columns are p(source | target), lex(source | target), p(target | source) and lex(target
| source). A network's probability is of the whole phrase and its end, made word by word: it stands
for both of its direction, unless a lexical table is given for the second. What nobody gives is
:data:`FLOOR` in every new pair alike; the indicator's weight can make up for that.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from moses_integration.lexicon import read_lexicon
from phrasescore.devices import choose_device, usable_threads
from phrasescore.errors import ModelError
from phrasescore.features.lexicon import LexicalScore, Lexicon
from phrasescore.features.sentences import SentenceScores
from phrasescore.generation.generator import check_kinds
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import HypothesisList, PhrasePair

if TYPE_CHECKING:
    from phrasescore.cli.generate_options import AugmentOptions, GenerateOptions

_logger = logging.getLogger(__name__)

# The least probability in Moses' lexical translation tables, which have 7 decimals.
FLOOR = 1e-7
MOSES_COLUMNS = 4

FORWARD, REVERSE = "forward", "reverse"
LEXICON, REVERSE_LEXICON = "lexicon", "reverse-lexicon"
_NAMES = (FORWARD, REVERSE, LEXICON, REVERSE_LEXICON)

# The name of what gives the scores of a column, or the natural logarithm that all pairs have.
Column = str | float


class ForwardPairs(NamedTuple):
    """New targets of a source, and log p(target | source) of each."""

    source: tuple[str, ...]
    targets: list[tuple[str, ...]]
    log_probs: list[float]


def plan_columns(augment: "AugmentOptions", num_scores: int) -> list[Column]:
    """Return what each column of a new pair has.

    :param num_scores: of the table.
    :raises click.UsageError: if ``--scores`` does not fit the table or the other options, or is
        needed and not given.
    """
    given = {
        FORWARD: True,
        REVERSE: augment.reverse_model is not None,
        LEXICON: augment.lexicon is not None,
        REVERSE_LEXICON: augment.reverse_lexicon is not None,
    }
    if augment.scores is not None:
        columns = [_parse(text.strip(), given) for text in augment.scores.split(",")]
    elif num_scores != MOSES_COLUMNS:
        raise click.UsageError(
            f"the table has {num_scores} scores, and not Moses' {MOSES_COLUMNS}: say with --scores "
            "what a new pair has in each column"
        )
    else:
        floor = math.log(FLOOR)
        reverse: Column = REVERSE if given[REVERSE] else floor
        columns = [
            reverse,
            REVERSE_LEXICON if given[REVERSE_LEXICON] else reverse,
            FORWARD,
            LEXICON if given[LEXICON] else FORWARD,
        ]
        if floor in columns:
            _logger.warning(
                "no --reverse-model: new pairs have %g in the columns of p(source | target), "
                "whatever they are",
                FLOOR,
            )
    if len(columns) != num_scores:
        problem = f"expected {num_scores}, as many as the table has scores, got {len(columns)}"
        raise click.UsageError(f"--scores: {problem}")
    return columns


def _parse(text: str, given: dict[str, bool]) -> Column:
    if text in _NAMES:
        if not given[text]:
            option = "--reverse-model" if text == REVERSE else f"--{text}"
            raise click.UsageError(f"--scores: {text} needs {option}")
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        problem = f"expected {', '.join(_NAMES)} or a probability above 0, got {text!r}"
        raise click.UsageError(f"--scores: {problem}")
    return math.log(value)


class PairScores:
    """Fills the columns of new pairs.

    :raises PhrasescoreError: if a model or a lexical table is not what it should be.
    """

    def __init__(
        self, columns: Sequence[Column], wanted: "GenerateOptions", augment: "AugmentOptions"
    ) -> None:
        self._columns = columns
        self.fingerprints: dict[str, str] = {}
        self._reverse = None
        if REVERSE in columns and augment.reverse_model is not None:
            self._reverse = self._load_reverse(augment.reverse_model, wanted)
        self._lexical = {}
        for name, path in ((LEXICON, augment.lexicon), (REVERSE_LEXICON, augment.reverse_lexicon)):
            if name in columns and path is not None:
                lexicon = Lexicon.from_entries(path, read_lexicon(path))
                score = LexicalScore(lexicon, reverse=name == REVERSE_LEXICON)
                self._lexical[name] = score
                self.fingerprints[name] = score.fingerprint

    def _load_reverse(self, path: str, wanted: "GenerateOptions") -> SentenceScores:
        checkpoint = load_checkpoint(path)
        check_kinds([checkpoint])
        if not checkpoint.reverse:
            raise ModelError(
                f"--reverse-model {path}: expected a model trained with --reverse, found one that "
                "predicts the target"
            )
        self.fingerprints[REVERSE] = checkpoint.fingerprint
        return SentenceScores(
            [checkpoint],
            choose_device(wanted.device),
            precision=wanted.precision,  # type: ignore[arg-type]
            threads=usable_threads(wanted.threads),
        )

    def rows(self, found: Sequence[ForwardPairs]) -> Iterator[list[tuple[float, ...]]]:
        """Yield for each source the natural logarithms of each of its targets, column by column."""
        by_name: dict[str, Iterator[float]] = {
            FORWARD: (value for item in found for value in item.log_probs)
        }
        if self._reverse is not None:
            lists = [HypothesisList(item.source, item.targets) for item in found if item.targets]
            scored = self._reverse.values(lists)
            by_name[REVERSE] = (value for scores in scored for value in scores.columns[0].tolist())
        for name, score in self._lexical.items():
            by_name[name] = score.values(_pairs(found))
        for item in found:
            values = [
                {name: next(column) for name, column in by_name.items()} for _ in item.targets
            ]
            yield [
                tuple(
                    row[column] if isinstance(column, str) else column for column in self._columns
                )
                for row in values
            ]


def _pairs(found: Iterable[ForwardPairs]) -> Iterator[PhrasePair]:
    return (PhrasePair(item.source, target) for item in found for target in item.targets)
