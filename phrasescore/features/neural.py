"""The score of a phrase pair under a trained network."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.arguments import PrecisionName
from phrasescore.devices import GPU_THREADS
from phrasescore.engines.worker_threads import worker_threads
from phrasescore.errors import ModelError
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import PhraseBlock, PhrasePair
from phrasescore.scoring.prefix_tree import Sequences
from phrasescore.scoring.products import LevelProducts
from phrasescore.scoring.tree_scorer import PairWork, TreeScorer
from phrasescore.scoring.word_numbers import WordNumbers
from phrasescore.vocabulary import Vocabulary

_Block = TypeVar("_Block")
_Sides = tuple[Sequences, Sequences]  # the words that a network reads, and those that it predicts

# Pairs of a block, which is planned as a whole, by one thread. Fixed, because the last digits of a
# value may depend on it, and a resumed run has to give the same ones.
BLOCK_SIZE = {"cpu": 16384, "cuda": 65536}
# Pairs of a piece of a block: rows of its matrix products.
PIECE_SIZE = {"cpu": 2048, "cuda": 16384}


class NeuralScore:
    """log p(target ``</s>`` | source) of phrase pairs, or log p(source ``</s>`` | target).

    Natural logarithms, summed over the words of the predicted side and its ``</s>``, not divided
    by length. Which side is predicted is the model's own: one trained with ``--reverse`` predicts
    the source. A word outside the shortlist is scored as ``<unk>``.

    :param checkpoint: a trained model.
    :param device: where it runs.
    :param precision: of the matrix products.
    :param threads: CPU threads, each with a block of its own. A GPU has `GPU_THREADS`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
        threads: int = 1,
    ) -> None:
        self._checkpoint = checkpoint
        self._reverse = checkpoint.reverse
        self._threads = threads if device.type == "cpu" else GPU_THREADS
        self._precision = Precision(precision, device)
        if not isinstance(checkpoint.model, EncoderDecoder):
            raise ModelError(
                f"a model of the kind {checkpoint.config.kind} does not score phrase pairs; "
                "rescore takes it for n-best lists"
            )
        self._device = device
        products = LevelProducts(self._precision, device, PIECE_SIZE[device.type])
        self._scorer = TreeScorer(checkpoint.config.kind, checkpoint.model, products)
        # Compiles the kernels, and lets the math libraries choose theirs, before several threads
        # do so at once: one that comes too early computes with other kernels, and other last bits.
        one_word = Sequences(np.array([Vocabulary.UNKNOWN]), np.array([1]))
        self._scorer.score_pairs(one_word, one_word)
        self._block_size = BLOCK_SIZE[device.type]
        vocabularies = (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
        self._numbers = [WordNumbers(vocabulary) for vocabulary in vocabularies]
        self.work = PairWork()
        self.unknown_words = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield each pair's log-probability, in order.

        Blocks of pairs are read ahead while others are scored: one more than there are threads.

        :raises ModelError: on reaching a pair whose score is not a finite log-probability.
        """
        for values in self._scores(_blocks(pairs, self._block_size), self._ids):
            yield from values.tolist()

    def values_of_blocks(self, blocks: Iterable[PhraseBlock]) -> Iterator[NDArray[np.float64]]:
        """Yield the same values as :meth:`values` for pairs that lie in a text.

        No Python code runs per pair: it would hold up all threads and a GPU.

        :raises ModelError: on reaching a pair whose score is not a finite log-probability.
        """
        return self._scores(_regrouped(blocks, self._block_size), self._ids_of_parts)

    def _scores(
        self, blocks: Iterable[_Block], make_ids: Callable[[_Block], _Sides]
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the values of each block; ids are made in the threads that score."""

        def score(block: _Block) -> tuple[NDArray[np.float64], PairWork, int]:
            sides = make_ids(block)
            unknown = sum(int(np.sum(side.ids == Vocabulary.UNKNOWN)) for side in sides)
            return *self._scorer.score_pairs(*sides), unknown

        waiting: deque[Future[tuple[NDArray[np.float64], PairWork, int]]] = deque()
        position = 0
        with ExitStack() as stack:
            stack.enter_context(self._precision.active())
            # Each thread computes a block of its own with one thread of torch's: blocks never wait
            # for one another, and what torch does alone (planning, small rows) overlaps.
            pool = stack.enter_context(worker_threads(self._threads, self._start_thread))
            for block in blocks:
                waiting.append(pool.submit(score, block))
                if len(waiting) > self._threads + 1:
                    values = self._finish(waiting.popleft(), position)
                    position += len(values)
                    yield values
            while waiting:
                values = self._finish(waiting.popleft(), position)
                position += len(values)
                yield values

    def _start_thread(self) -> None:
        if self._device.type == "cpu":
            torch.set_num_threads(1)

    def _ids(self, block: list[PhrasePair]) -> _Sides:
        vocabularies = (self._checkpoint.source_vocabulary, self._checkpoint.target_vocabulary)
        sides = [[pair.source for pair in block], [pair.target for pair in block]]
        if self._reverse:
            sides.reverse()
        return _both(_number(side, words) for side, words in zip(sides, vocabularies, strict=True))

    def _ids_of_parts(self, parts: Sequence[PhraseBlock]) -> _Sides:
        sides = [(2, 3), (0, 1)] if self._reverse else [(0, 1), (2, 3)]
        return _both(
            _joined(
                [numbers.number(text, places[:, begin], places[:, end]) for text, places in parts]
            )
            for numbers, (begin, end) in zip(self._numbers, sides, strict=True)
        )

    def _finish(
        self, future: "Future[tuple[NDArray[np.float64], PairWork, int]]", start: int
    ) -> NDArray[np.float64]:
        try:
            values, work, unknown = future.result()
        except ModelError as error:
            raise ModelError(f"in the block that begins with pair {start}: {error}") from error
        self.work += work
        self.unknown_words += unknown
        return values

    def summary(self) -> str:
        """Return how much was computed, and how many words the network did not know."""
        work = self.work
        return (
            f"{work.pairs:,} pairs scored in {work.source_nodes:,} encoder and "
            f"{work.target_nodes:,} decoder steps; {self.unknown_words:,} unknown words on both "
            "sides"
        )


def _blocks(pairs: Iterable[PhrasePair], size: int) -> Iterator[list[PhrasePair]]:
    iterator = iter(pairs)
    while block := list(islice(iterator, size)):
        yield block


def _regrouped(blocks: Iterable[PhraseBlock], size: int) -> Iterator[list[PhraseBlock]]:
    """Yield the same pairs as lists of parts of blocks, ``size`` pairs per list."""
    parts: list[PhraseBlock] = []
    count = 0
    for text, places in blocks:
        begin = 0
        while begin < len(places):
            part = places[begin : begin + size - count]
            parts.append(PhraseBlock(text, part))
            begin += len(part)
            count += len(part)
            if count == size:
                yield parts
                parts, count = [], 0
    if parts:
        yield parts


def _joined(parts: Sequence[Sequences]) -> Sequences:
    return Sequences(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )


def _both(sides: Iterator[Sequences]) -> _Sides:
    reads, predicts = sides
    return reads, predicts


def _number(phrases: list[tuple[str, ...]], vocabulary: Vocabulary) -> Sequences:
    ids = vocabulary.ids(list(chain.from_iterable(phrases)))
    lengths = np.fromiter(map(len, phrases), dtype=np.int64, count=len(phrases))
    return Sequences(np.array(ids, dtype=np.int64), lengths)
