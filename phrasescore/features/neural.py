"""Score phrase pairs under a trained network.

Pairs are byte offsets into a text, whose words are numbered in compiled code. No Python code runs
per pair, because it would block all threads and leave a GPU idle.
"""

import threading
from contextlib import AbstractContextManager
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.errors import ModelError
from phrasescore.features.feature import BlockScores, Feature, ScoreRow
from phrasescore.io.hashing import find, hash_word, number_words
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import PhraseBlock, Tally
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import PairWork, TreeScorer, split_words
from phrasescore.vocabulary import Vocabulary

_KERNEL = kept_njit()

Table = NDArray[np.uint64]  # see `phrasescore.io.hashing.number_words`
_FREE = -1  # a word that is in no table
_SPACE = 32


class NeuralFeature(Feature):
    """A feature of networks, which are prepared for scoring before the first block."""

    _no_work: ClassVar[Tally]  # the tally of an empty block

    def __init__(self, device: torch.device, precision: PrecisionName) -> None:
        self._device, self._precision = device, Precision(precision, device)
        self._lock, self._is_laid_out = threading.Lock(), False

    def prepare(self) -> None:
        """Prepare the networks for scoring; several threads may call it at once."""
        with self._lock:
            if not self._is_laid_out:
                self._lay_out()
                self._is_laid_out = True

    def computing(self) -> AbstractContextManager[None]:
        return self._precision.active()

    def score(self, block: PhraseBlock) -> BlockScores:
        if len(block.places) == 0:  # a network on a GPU rejects it
            return BlockScores(np.empty((len(self.rows), 0)), self._no_work)
        torch.set_num_threads(1)  # of this thread: each has its own number
        with self._precision.active():
            self.prepare()
            return self._score(block)

    def _lay_out(self) -> None:
        raise NotImplementedError

    def _score(self, block: PhraseBlock) -> BlockScores:
        raise NotImplementedError


class NeuralScore(NeuralFeature):
    """log p(target ``</s>`` | source) of phrase pairs, or log p(source ``</s>`` | target).

    Values are natural logarithms, summed over the words of the predicted side and its ``</s>``, and
    not divided by length. A model trained with ``--reverse`` predicts the source, and a model
    trained with ``--right-to-left`` predicts the last word first. A word outside the shortlist is
    scored as ``<unk>``.
    """

    _no_work = PairWork()

    def __init__(
        self, checkpoint: Checkpoint, device: torch.device, *, precision: PrecisionName = "float32"
    ) -> None:
        super().__init__(device, precision)
        kind = checkpoint.config.network
        if not kind.scores_phrases:
            problem = f"a model of the kind {kind.name} does not score phrase pairs;"
            raise ModelError(f"{problem} use it with rescore for n-best lists")
        self._checkpoint, self.rows = checkpoint, (ScoreRow(checkpoint.fingerprint),)

    def _lay_out(self) -> None:
        checkpoint, device = self._checkpoint, self._device
        products = Products(self._precision, device)
        self._scorer = TreeScorer(
            checkpoint.config.kind, checkpoint.model, products, checkpoint.folder
        )
        # Compiles the kernels, and lets the math libraries choose theirs, before several threads
        # do so at once: a thread that starts too early would compute different last bits.
        one_word = RaggedArray.from_lengths(np.array([Vocabulary.UNKNOWN]), np.array([1]))
        self._scorer.score_pairs(one_word, one_word)
        # The numbering of the words on the side that is read, and on the side that is predicted.
        vocabularies = (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
        self._numbers = [
            (PieceNumbers if vocabulary.is_subwords else WordNumbers)(vocabulary)
            for vocabulary in vocabularies
        ]

    def _score(self, block: PhraseBlock) -> BlockScores:
        spans = [block.places[:, :2], block.places[:, 2:]]
        if self._checkpoint.reverse:
            spans.reverse()
        read, predicted = (
            words.number(block.text, each) for words, each in zip(self._numbers, spans, strict=True)
        )
        if self._checkpoint.right_to_left:
            predicted = predicted.reversed()
        values, work = self._scorer.score_pairs(read, predicted)
        return BlockScores(values[None], work)


class WordNumbers:
    """Maps words, as bytes of a text, to the ids from :meth:`Vocabulary.ids`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        first = len(Vocabulary.SYMBOLS)
        self._table: Table = number_words(
            {vocabulary.word(number): number for number in range(first, len(vocabulary))}
        )

    def number(self, text: bytes, spans: NDArray[np.int64]) -> RaggedArray:
        """Return the word ids of each phrase; 1 (``<unk>``) for a word outside the shortlist.

        :param spans: ``(phrases, 2)``: where each phrase begins and ends in ``text``. Its words are
            separated by one or several spaces.
        """
        return _find(self._table, text, spans, Vocabulary.UNKNOWN)


class PieceNumbers:
    """Maps words, as bytes of a text, to the ids of their subwords.

    A word is split when it occurs for the first time.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        # The known words as a dictionary and as a table, and the pieces of each word.
        self._known: tuple[dict[str, int], Table, RaggedArray] = (
            {},
            number_words({}),
            split_words(vocabulary, []),
        )

    def number(self, text: bytes, spans: NDArray[np.int64]) -> RaggedArray:
        """Return the piece ids of each phrase; see :meth:`WordNumbers.number`."""
        _, table, pieces = self._known
        words = _find(table, text, spans, _FREE)
        if len(words.values) and words.values.min() == _FREE:
            new = spans[np.unique(words.owners()[words.values == _FREE])].tolist()
            self._learn(b" ".join(text[begin:end] for begin, end in new).decode())
            _, table, pieces = self._known
            words = _find(table, text, spans, _FREE)
        return words.expand(pieces)

    def _learn(self, text: str) -> None:
        """Add the new words of a text to a copy of the table; other threads use the old one."""
        with self._lock:
            words, _, _ = self._known
            words = dict(words)
            for word in filter(None, text.split(" ")):
                words.setdefault(word, len(words))
            pieces = split_words(self._vocabulary, list(words))
            self._known = (words, number_words(words), pieces)


def _find(table: Table, text: bytes, spans: NDArray[np.int64], unknown: int) -> RaggedArray:
    return RaggedArray.from_lengths(*_number(np.frombuffer(text, np.uint8), spans, table, unknown))


@_KERNEL
def _number(text, spans, table, unknown):  # type: ignore[no-untyped-def]
    size = 0
    for phrase in range(len(spans)):
        size += (spans[phrase, 1] - spans[phrase, 0] + 1) // 2  # a word and a space have two bytes
    ids, lengths = np.empty(size, np.int64), np.empty(len(spans), np.int64)
    count = 0
    for phrase in range(len(spans)):
        before, begin, end = count, spans[phrase, 0], spans[phrase, 1]
        for position in range(begin, end + 1):
            if position == end or text[position] == _SPACE:
                if position > begin:
                    slot = find(table, hash_word(text, begin, position))
                    ids[count] = unknown if slot < 0 else np.int64(table[slot, 1])
                    count += 1
                begin = position + 1
        lengths[phrase] = count - before
    return ids[:count].copy(), lengths
