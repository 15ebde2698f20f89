"""A joint model as a feature inside a search."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.features.search_network import SearchNetwork, add_up
from phrasescore.kernels.precision import Precision
from phrasescore.language_models.word_scorer import BOUNDARY, USUAL, CslmOptions, JointScorer
from phrasescore.models.checkpoint import Checkpoint


class Aligned(Protocol):
    """A sentence, and the affiliations of the words of some phrases with it."""

    @property
    def source(self) -> Sequence[str]:
        """The words of the sentence."""

    @property
    def affiliations(self) -> NDArray[np.int32]:
        """The index of the source word that each phrase word is affiliated with."""


class SearchJoint(SearchNetwork[JointScorer]):
    """A joint model for partial translations.

    :param options: whether to omit log Z; a joint model has no backoff.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        options: CslmOptions = USUAL,
        name: str = "Joint0",
    ) -> None:
        precision = Precision("float32", device)
        scorer = JointScorer(checkpoint, device, precision, normalized=options.normalized)
        super().__init__(scorer, name)
        self._source: Sequence[str] | None = None
        self._windows = scorer.windows([()])

    def scores(
        self,
        histories: NDArray[np.int32],
        phrases: NDArray[np.int32],
        offsets: NDArray[np.int64],
        ends: NDArray[np.bool_],
        aligned: Aligned | None = None,
        /,
    ) -> NDArray[np.float64]:
        """Return log p of each phrase after its history, ``(n,)``, a natural logarithm.

        A value depends only on its row and the sentence, to the last bit. Contexts of earlier
        calls are not computed again. The other parameters are as in
        :meth:`SearchNetwork.list_ngrams`.

        :param aligned: holds the affiliations of the words in ``phrases``.
        """
        assert aligned is not None
        if aligned.source is not self._source:
            self._source, self._windows = aligned.source, self._scorer.windows([aligned.source])
        contexts, words = self.list_ngrams(histories, phrases, offsets, ends)
        # </s> is affiliated with the end of the sentence.
        places = np.full(len(words), len(aligned.source))
        places[words != BOUNDARY] = aligned.affiliations
        ids = self._numbering.ids
        contexts = np.concatenate([self._windows[places], ids[contexts]], axis=1)
        values = self._scorer.log_probs_of_ids(contexts, ids[words], self._memo)
        return add_up(values, offsets, ends)
