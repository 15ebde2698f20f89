"""Word translation probabilities: the score of IBM Model 1."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError
from phrasescore.features.columns import Column
from phrasescore.features.feature import BlockScores, Feature, ScoreRow
from phrasescore.io.journal import new_digest
from phrasescore.io.ragged import RaggedArray
from phrasescore.io.text import decode, parse_number, read_lines, shorten
from phrasescore.records import PhraseBlock, PhrasePair, Tally

if TYPE_CHECKING:
    from phrasescore.features.request import ScoringRequest

FLOOR = 1e-7  # the smallest probability of a word: the last digit in Moses' lexical tables
BLOCK_ENTRIES = 1 << 18  # (word, word) probabilities in memory at the same time
_NULL = "NULL"  # the source of target words that translate no source word

_Ids = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lexicon(Column):
    """log p(target | source) under IBM Model 1, from Moses' lex.f2e."""

    feature: ClassVar[str] = "Lexicon"
    paths: ClassVar[tuple[str, ...]] = ("lexicon",)

    lexicon: str

    def load(self, _request: "ScoringRequest") -> Feature:
        return LexicalScore(_load(self.lexicon))


@dataclass(frozen=True)
class ReverseLexicon(Column):
    """log p(source | target) under IBM Model 1, from Moses' lex.e2f."""

    feature: ClassVar[str] = "ReverseLexicon"
    paths: ClassVar[tuple[str, ...]] = ("reverse_lexicon",)

    reverse_lexicon: str

    def load(self, _request: "ScoringRequest") -> Feature:
        return LexicalScore(_load(self.reverse_lexicon), reverse=True)


def _load(path: str) -> "LexiconTable":
    return LexiconTable.from_entries(path, read_lexicon(path))


def read_lexicon(path: str) -> Iterator[tuple[str, str, float]]:
    """Yield (predicted word, given word, probability) for each line of a lexical table, lazily.

    Moses' train-model.perl writes ``lex.f2e`` and ``lex.e2f`` with a line ``word word probability``
    for each pair of words that were aligned in training. The probability is p(first word | second
    word), with 7 decimals, and ``NULL`` stands for no word. Moses calls the source f and the target
    e, so a line in ``lex.f2e`` is ``target source p(target | source)``
    (scripts/training/LexicalTranslationModel.pm).
    """
    for number, raw in enumerate(read_lines(path), start=1):
        fields = raw.removesuffix(b"\r").split(b" ")
        if len(fields) != 3 or not (fields[0] and fields[1]):
            raise DataError(path, number, f"expected 'word word probability', found {shorten(raw)}")
        probability = parse_number(fields[2], path, number)
        if not 0 <= probability <= 1:
            problem = f"expected a probability from 0 to 1, found {shorten(fields[2])}"
            raise DataError(path, number, problem)
        predicted, given, _ = decode(path, number, raw).split(" ")
        yield predicted, given, probability


class LexiconTable(NamedTuple):
    """p(predicted word | given word) for the word pairs of a table, 16 bytes each."""

    ids: dict[str, int]  # the ids of the words of both sides, from 1; 0 stands for unknown words
    # The sorted keys, predicted * (len(ids) + 1) + given, and their probabilities. The last key
    # is a sentinel, larger than all others, with the probability 0.
    keys: _Ids
    probabilities: _Floats

    @classmethod
    def from_entries(cls, path: str, entries: Iterable[tuple[str, str, float]]) -> "LexiconTable":
        """Build the lexicon from entries: (predicted word, given word, probability)."""
        ids: dict[str, int] = {}
        predicted, given, probabilities = [], [], []
        for word, condition, probability in entries:
            predicted.append(ids.setdefault(word, len(ids) + 1))
            given.append(ids.setdefault(condition, len(ids) + 1))
            probabilities.append(probability)
        if not ids:
            raise DataError(path, None, "expected a lexical translation table, found no lines")
        keys = np.array(predicted, np.int64) * (len(ids) + 1) + np.array(given, np.int64)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        (repeated,) = np.nonzero(keys[1:] == keys[:-1])
        if len(repeated):
            line = int(order[repeated + 1].min())
            raise DataError(path, line + 1, "this pair of words already has a probability")
        keys = np.append(keys, np.iinfo(np.int64).max)
        return cls(ids, keys, np.append(np.array(probabilities)[order], 0.0))

    def lookup(self, predicted: _Ids, given: _Ids) -> _Floats:
        """Return p(predicted | given) for id arrays of the same shape; 0 for unseen pairs."""
        keys = predicted * (len(self.ids) + 1) + given
        places = np.searchsorted(self.keys, keys)
        return np.where(self.keys[places] == keys, self.probabilities[places], 0.0)

    def fingerprint(self) -> str:
        """Return a hash of the words, the pairs and their probabilities, as text."""
        digest = new_digest()
        digest.update("\n".join(self.ids).encode())
        digest.update(self.keys.tobytes())
        digest.update(self.probabilities.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class LexicalTally(Tally):
    """Counts of predicted words, and of words with a probability below :data:`FLOOR`."""

    side: str
    words: int
    floored: int

    def __str__(self) -> str:
        share = self.floored / self.words if self.words else math.nan
        return f"{self.words:,} {self.side} words; no translation for {share:.1%} of them"


class LexicalScore(Feature):
    """log p(target | source), or log p(source | target), under IBM Model 1.

    Values are natural logarithms, summed over the predicted side. The probability of a word is

        (p(word | NULL) + sum of p(word | given) over the given side's words) / (their number + 1)

    (Brown et al., 1993, without the probability of the length), but at least :data:`FLOOR`, which
    is the probability of a word that the lexicon lacks. There is no ``</s>``: a side without words
    has the score 0. A value depends only on its pair, to the last bit.
    """

    def __init__(self, lexicon: LexiconTable, *, reverse: bool = False) -> None:
        self._lexicon = lexicon
        self._reverse = reverse
        direction = "reverse" if reverse else "forward"
        self.rows = (ScoreRow(f"{lexicon.fingerprint()} {direction}"),)

    def score(self, block: PhraseBlock) -> BlockScores:
        tally = LexicalTally("source" if self._reverse else "target", 0, 0)
        parts: list[_Floats] = [np.zeros(0)]
        part: list[PhrasePair] = []
        size = 0
        for pair in block.pairs():
            part.append(pair)
            size += (len(pair.source) + 1) * (len(pair.target) + 1)
            if size >= BLOCK_ENTRIES:
                values, tally = self._score(part, tally)
                parts.append(values)
                part, size = [], 0
        values, tally = self._score(part, tally)
        return BlockScores(np.concatenate([*parts, values])[None], tally)

    def _score(
        self, block: Sequence[PhrasePair], tally: LexicalTally
    ) -> tuple[_Floats, LexicalTally]:
        predicted, given = [pair.target for pair in block], [pair.source for pair in block]
        if self._reverse:
            predicted, given = given, predicted
        words = self._number(predicted)
        conditions = self._number([(_NULL, *side) for side in given])
        # Each predicted word meets each given word of its pair, NULL first.
        places = conditions.positions(words.owners())
        lengths, repeats = words.lengths, places.lengths
        probabilities = self._lookup(words.values, repeats, conditions.values, places.values)
        sums = np.add.reduceat(probabilities, places.starts[:-1]) if len(places) else np.zeros(0)
        means = sums / repeats
        tally += LexicalTally(tally.side, len(means), int((means < FLOOR).sum()))
        logs = np.log(np.maximum(means, FLOOR))
        # A sum that begins with 0 exists for pairs without words, too.
        padded = np.insert(logs, np.cumsum(lengths) - lengths, 0.0)
        starts = np.cumsum(lengths + 1) - lengths - 1
        return np.add.reduceat(padded, starts) if len(starts) else np.zeros(0), tally

    def _number(self, sides: list[tuple[str, ...]]) -> RaggedArray:
        get = self._lexicon.ids.get
        return RaggedArray.from_rows([[get(word, 0) for word in words] for words in sides])

    def _lookup(self, words: _Ids, repeats: _Ids, conditions: _Ids, places: _Ids) -> _Floats:
        """Return p(word | condition) for each word, repeated ``repeats`` times, and its conditions.

        The hypotheses in a list share their words, so each pair of words is looked up only once.
        """
        rows, row_places = np.unique(words, return_inverse=True)
        columns, column_places = np.unique(conditions, return_inverse=True)
        if len(rows) * len(columns) >= len(places):
            return self._lexicon.lookup(np.repeat(words, repeats), conditions[places])
        table = self._lexicon.lookup(rows[:, None], columns[None, :]).ravel()
        cells = np.repeat(row_places * len(columns), repeats) + column_places[places]
        probabilities: _Floats = table[cells]
        return probabilities
