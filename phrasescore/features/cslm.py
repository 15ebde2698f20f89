"""A feed-forward language model as a feature inside a search."""

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.features.search_network import SearchNetwork, add_up
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import USUAL, CslmOptions, WordScorer
from phrasescore.models.checkpoint import Checkpoint


class SearchCslm(SearchNetwork[WordScorer]):
    """A language model for partial translations, whatever their source."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        precision: Precision | None = None,
        options: CslmOptions = USUAL,
        name: str = "CSLM0",
    ) -> None:
        scorer = WordScorer(
            *(checkpoint, device, precision or Precision("float32", device)),
            normalized=options.normalized,
            backoff=options.backoff,
        )
        super().__init__(scorer, name)

    def scores(
        self,
        histories: NDArray[np.int32],
        phrases: NDArray[np.int32],
        offsets: NDArray[np.int64],
        ends: NDArray[np.bool_],
        _aligned: object = None,
        /,
    ) -> NDArray[np.float64]:
        """Return log p of each phrase after its history, ``(n,)``, a natural logarithm.

        A value depends only on its row, to the last bit. Contexts of earlier calls are not
        computed again. The parameters are as in :meth:`SearchNetwork.list_ngrams`.
        """
        histories, phrases, offsets = self.in_pieces(histories, phrases, offsets)
        contexts, words = self.list_ngrams(histories, phrases, offsets, ends)
        values = self._scorer.log_probs(self._numbering, contexts, words, self._memo)
        return add_up(values, offsets, ends)
