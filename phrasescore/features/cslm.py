"""A feed-forward language model as a feature: of whole translations, and inside a search."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.config.config import Config
from phrasescore.errors import ArgumentError
from phrasescore.features.network_scores import ModelScores, count_unknown
from phrasescore.io.state import digest_content
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import (
    BOUNDARY,
    Numbering,
    WordScorer,
    score_tree,
)
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.scoring.hypothesis_texts import HypothesisTexts

_logger = logging.getLogger(__name__)

_KERNEL = numba.njit(nogil=True, cache=True, error_model="numpy")


class CslmOptions(NamedTuple):
    """Options of a feed-forward language model's scores; see :class:`WordScorer`."""

    # Whether log Z is computed.
    normalized: bool = True
    # An n-gram model for the words outside the shortlist; None for <unk>.
    backoff: str | None = None


# Scores that are probabilities, with <unk>.
USUAL = CslmOptions()


def check_cslm(configs: Sequence[Config], backoff_lm: str | None, *, unnormalized: bool) -> None:
    """Check the arguments for models of the kind cslm, before the models are loaded.

    :param configs: of all models, whatever their kind.
    :raises ArgumentError: if there is no cslm, or the two arguments exclude one another.
    """
    if backoff_lm is not None and unnormalized:
        raise ArgumentError("`backoff_lm` divides probabilities: not with `unnormalized`")
    models = [config for config in configs if config.kind == "cslm"]
    for name, is_given in (("backoff_lm", backoff_lm is not None), ("unnormalized", unnormalized)):
        if is_given and not models:
            raise ArgumentError(f"`{name}` is for a model of the kind cslm, and there is none")
    for config in models if unnormalized else ():
        if not config.model.self_normalization:  # type: ignore[union-attr]
            _logger.warning(
                "unnormalized scores: a cslm was trained without self_normalization: its scores "
                "without log Z mean little"
            )


class CslmScores:
    """Scores of lists of hypotheses, for :class:`phrasescore.features.sentences.SentenceScores`.

    A distinct context is computed once for all lists that are scored together.
    """

    reverse = False

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision,
        options: CslmOptions,
    ) -> None:
        self._checkpoint = checkpoint
        self._place = (device, precision)
        self._options = options

    def fingerprint(self) -> str:
        """Return a fingerprint of everything that scores depend on but precision and device."""
        parts = [self._checkpoint.fingerprint]
        if not self._options.normalized:
            parts.append("without log Z")
        if self._options.backoff is not None:
            parts.append(f"backoff {digest_content(self._options.backoff)}")
        return " ".join(parts)

    def lay_out(self) -> None:
        """Make the scorer."""
        normalized, backoff = self._options
        self._scorer = WordScorer(
            self._checkpoint, *self._place, normalized=normalized, backoff=backoff
        )

    def score(self, texts: HypothesisTexts) -> ModelScores:
        """Return the log-probability of every word of the hypotheses."""
        tree, _ = texts.plan(reverse=False)
        ids = np.array(self._checkpoint.target_vocabulary.ids(texts.words), dtype=np.int64)
        log_probs = score_tree(self._scorer, tree, texts.words)
        return ModelScores(log_probs, tree, 0, count_unknown(tree.renumber(ids)))


class SearchCslm:
    """A language model for partial translations, as a search asks for them.

    :ivar name: of the feature in n-best lists.
    :ivar context: words before a phrase that its score depends on.
    """

    # The number of <s> in the word list. A history has BOUNDARY in the places before <s>.
    START = 1

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        precision: Precision | None = None,
        options: CslmOptions = USUAL,
        name: str = "CSLM0",
    ) -> None:
        self.name = name
        self._scorer = WordScorer(
            checkpoint,
            device,
            precision or Precision("float32", device),
            normalized=options.normalized,
            backoff=options.backoff,
        )
        self.context = self._scorer.order - 1
        self._numbering = self._scorer.number(())
        # The same contexts come in stack after stack.
        self._memo = self._scorer.new_memo()

    @property
    def contexts_scored(self) -> int:
        """Softmaxes so far."""
        return self._scorer.contexts_scored

    def begin(self, words: Sequence[str]) -> None:
        """Take the search's list of words, which begins with the list of the call before.

        :param words: ``<unk>``, ``<s>``, ``</s>`` first.
        """
        known = self._numbering.ids[:-1]
        new = self._scorer.number(words[len(known) :])
        self._numbering = Numbering(words, np.concatenate([known, new.ids]))

    def scores(
        self,
        histories: NDArray[np.int32],
        phrases: NDArray[np.int32],
        offsets: NDArray[np.int64],
        ends: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return log p of each phrase after its history, ``(n,)``, a natural logarithm.

        A value depends on its row alone, to the last bit. Contexts of earlier calls are not
        computed again.

        :param histories: ``(n, context)`` numbers of the last words, the oldest first; 1 is ``<s>``
            and -1 stands in the places before it.
        :param phrases: numbers of the phrases' words, one phrase after another.
        :param offsets: ``(n + 1,)``: where each phrase begins, and the end of the last.
        :param ends: ``(n,)``: whether the phrase ends the sentence; ``</s>`` is then scored, too.
        """
        before = np.where(histories == self.START, BOUNDARY, histories)
        ngrams = int(offsets[-1] - offsets[0]) + np.count_nonzero(ends)
        contexts = np.empty((ngrams, histories.shape[1]), np.int32)
        words = np.empty(ngrams, np.int32)
        _list_ngrams(before, phrases, offsets, ends, contexts, words)
        values = self._scorer.log_probs(self._numbering, contexts, words, self._memo)
        totals: NDArray[np.float64] = np.zeros(len(ends))
        _add_up(values, offsets, ends, totals)
        return totals


@_KERNEL
def _list_ngrams(  # type: ignore[no-untyped-def]
    histories, phrases, offsets, ends, contexts, words
):
    """Write the context and the word of each n-gram of some phrases, row by row.

    :param histories: ``(n, context)``; the others as of :meth:`SearchCslm.scores`.
    """
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


@_KERNEL
def _add_up(values, offsets, ends, totals):  # type: ignore[no-untyped-def]
    """Add up the values of each row's n-grams, in their order."""
    at = 0
    for row in range(len(totals)):
        for _ in range(offsets[row + 1] - offsets[row] + ends[row]):
            totals[row] += values[at]
            at += 1
