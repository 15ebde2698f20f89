"""Feed-forward networks as features inside a search."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.features.model import Network
from phrasescore.features.networks import load_feed_forward
from phrasescore.io.kernel_cache import kept_njit
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.context_scorer import ContextScorer, Floats, Numbering, WordIds
from phrasescore.language_models.word_scorer import BOUNDARY, JointScorer, WordScorer
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.records import AlignedWords

Scorer = TypeVar("Scorer", bound=ContextScorer)

START = 1  # the number of <s> in a search's words; BOUNDARY stands in the places before <s>


class SearchNetwork(ABC, Generic[Scorer]):
    """Scores partial translations with a network, for a search.

    :ivar context: number of preceding words on which the score of a phrase depends.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.context = scorer.order - 1
        self._words: Sequence[str] = ()
        self._forget_words()
        # The same contexts recur in many stacks.
        self._memo = scorer.new_memo()

    def _forget_words(self) -> None:
        # The numbering of words, or of subwords' pieces, which begin with the number 2.
        self._numbering = self._scorer.number(())
        self._pieces: dict[str, int] | None = None
        if self._scorer.vocabulary.is_subwords:
            self._pieces = {"<unk>": 0, "<s>": START}
        # The pieces of each of the search's words.
        self._split = RaggedArray(np.empty(0, np.int64), np.zeros(1, np.int64))

    def begin(self, words: Sequence[str]) -> None:
        """Set the search's words, ``<unk>``, ``<s>`` and ``</s>`` first.

        A list may only grow between two calls; another list begins another numbering.
        """
        if words is not self._words:
            self._words = words
            self._forget_words()
        if self._pieces is not None:
            words = self._take_pieces(words, self._pieces)
        known = self._numbering.ids[:-1]
        new = self._scorer.number(words[len(known) :])
        self._numbering = Numbering(words, np.concatenate([known, new.ids]))

    def _take_pieces(self, words: Sequence[str], numbers: dict[str, int]) -> list[str]:
        """Split the new words into pieces; return all pieces by number."""
        known = self._split
        split = self._scorer.vocabulary.split(words[len(known) :])
        pieces = RaggedArray.from_rows(
            [[numbers.setdefault(piece, len(numbers)) for piece in word] for word in split]
        )
        self._split = RaggedArray.from_lengths(
            np.concatenate([known.values, pieces.values]),
            np.concatenate([known.lengths, pieces.lengths]),
        )
        return list(numbers)

    def scores(
        self,
        histories: WordIds,
        phrases: WordIds,
        offsets: NDArray[np.int64],
        ends: NDArray[np.bool_],
        aligned: AlignedWords | None = None,
        /,
    ) -> Floats:
        """Return log p of each phrase after its history, ``(n,)``, a natural logarithm.

        To the last bit, a value depends only on its row, and for a joint model also on the
        sentence. Contexts from earlier calls are not computed again.

        :param histories: ``(n, context)`` numbers of the last words, oldest first; 1 is ``<s>``,
            and -1 fills the positions before it.
        :param phrases: numbers of the phrases' words, one phrase after another.
        :param offsets: ``(n + 1,)``: where each phrase begins, and the end of the last.
        :param ends: ``(n,)``: whether the phrase ends the sentence; ``</s>`` is then scored, too.
        :param aligned: holds the affiliations of the words in ``phrases``, for a joint model.
        """
        histories = np.where(histories == START, BOUNDARY, histories)
        if self._pieces is not None:
            histories, phrases, offsets = self._in_pieces(histories, phrases, offsets)
        num_ngrams = int(offsets[-1] - offsets[0]) + np.count_nonzero(ends)
        contexts = np.empty((num_ngrams, histories.shape[1]), np.int32)
        words = np.empty(num_ngrams, np.int32)
        _list_ngrams(histories, phrases, offsets, ends, contexts, words)
        values = self._log_probs(contexts, words, aligned)
        totals: Floats = np.zeros(len(ends))
        # Add one after another, so that a sum has the same bits whatever the other rows are.
        np.add.at(totals, np.repeat(np.arange(len(ends)), np.diff(offsets) + ends), values)
        return totals

    def _in_pieces(
        self, histories: WordIds, phrases: WordIds, offsets: NDArray[np.int64]
    ) -> tuple[WordIds, WordIds, NDArray[np.int64]]:
        last = np.empty_like(histories)
        _last_pieces(histories, self._split.starts, self._split.values, last)
        words = phrases[offsets[0] : offsets[-1]].astype(np.int64)
        pieces = RaggedArray(words, offsets - offsets[0]).expand(self._split)
        return last, pieces.values.astype(np.int32), pieces.starts

    @abstractmethod
    def _log_probs(self, contexts: WordIds, words: WordIds, aligned: AlignedWords | None) -> Floats:
        """Return log p of each word after its context; BOUNDARY is ``</s>``, or ``<s>`` earlier."""


class SearchCslm(SearchNetwork[WordScorer]):
    """A language model for partial translations; it ignores the source."""

    def _log_probs(
        self, contexts: WordIds, words: WordIds, _aligned: AlignedWords | None
    ) -> Floats:
        return self._scorer.log_probs(self._numbering, contexts, words, self._memo)


class SearchJoint(SearchNetwork[JointScorer]):
    """A joint model for partial translations; it has no backoff."""

    _source: Sequence[str] | None = None
    _windows: WordIds  # of the source

    def _log_probs(self, contexts: WordIds, words: WordIds, aligned: AlignedWords | None) -> Floats:
        assert aligned is not None
        if aligned.source is not self._source:
            self._source, self._windows = aligned.source, self._scorer.windows([aligned.source])
        places = np.full(len(words), len(aligned.source))  # </s> has the sentence's end
        places[words != BOUNDARY] = aligned.affiliations
        ids = self._numbering.ids
        contexts = np.concatenate([self._windows[places], ids[contexts]], axis=1)
        return self._scorer.log_probs_of_ids(contexts, ids[words], self._memo)


def load_search_network(
    checkpoint: Checkpoint, device: torch.device, column: Network
) -> SearchCslm | SearchJoint:
    """Prepare a network for a search."""
    scorer = load_feed_forward(checkpoint, device, Precision("float32", device), column)
    return SearchJoint(scorer) if isinstance(scorer, JointScorer) else SearchCslm(scorer)


@kept_njit()
def _last_pieces(histories, starts, pieces, out):  # type: ignore[no-untyped-def]
    """Write the last pieces of each history, as many as the history has words."""
    for row in range(len(histories)):
        place = column = histories.shape[1] - 1
        while place >= 0:
            word = histories[row, column]
            column -= 1
            if word < 0:
                out[row, place] = word
                place -= 1
                continue
            piece = starts[word + 1]
            while place >= 0 and piece > starts[word]:
                piece -= 1
                out[row, place] = pieces[piece]
                place -= 1


@kept_njit()
def _list_ngrams(  # type: ignore[no-untyped-def]
    histories, phrases, offsets, ends, contexts, words
):
    """Write the context and the word of each n-gram in the phrases, row by row."""
    width, at = histories.shape[1], 0
    for row in range(len(ends)):
        begin, size = offsets[row], offsets[row + 1] - offsets[row]
        for position in range(size + ends[row]):
            for place in range(width):
                word = position + place - width
                if word < 0:
                    contexts[at, place] = histories[row, width + word]
                else:
                    contexts[at, place] = phrases[begin + word]
            words[at] = phrases[begin + position] if position < size else BOUNDARY
            at += 1
