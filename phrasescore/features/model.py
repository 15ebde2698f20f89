"""Columns of trained networks."""

import logging
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features.columns import Column
from phrasescore.settings.kinds import KINDS

if TYPE_CHECKING:
    from phrasescore.features.feature import Feature
    from phrasescore.features.request import ScoringRequest
    from phrasescore.settings.config import Config

_logger = logging.getLogger(__name__)

ENSEMBLE_NAME = "Ensemble"


@dataclass(frozen=True)
class Network(Column):
    """A trained network: log p(target ``</s>`` | source), or log p(source ``</s>`` | target)."""

    paths: ClassVar[tuple[str, ...]] = ("model", "backoff_lm")
    is_on_device: ClassVar[bool] = True

    model: str  # the folder
    _: KW_ONLY
    # Whether a cslm or joint model, trained with self_normalization, omits log Z.
    unnormalized: bool = False
    # An n-gram model, an ARPA file, for the words outside a cslm's shortlist, which are otherwise
    # <unk>.
    backoff_lm: str | None = None

    def check_config(self, config: "Config") -> None:
        """Check that the options fit the kind of the network."""
        kind = config.network
        if self.backoff_lm is not None:
            if self.unnormalized:
                raise ArgumentError("backoff_lm cannot be used with unnormalized")
            if kind.reads_source or not kind.is_feed_forward:
                raise ArgumentError("backoff_lm requires a model of the kind cslm")
        if self.unnormalized and not kind.is_feed_forward:
            raise ArgumentError("unnormalized requires a model of the kind cslm or joint")
        if self.unnormalized and not config.model.self_normalization:
            _logger.warning(
                "unnormalized scores: a %s was trained without self_normalization: its scores "
                "without log Z mean little",
                config.kind,
            )

    def load(self, request: "ScoringRequest") -> "Feature":
        """Return the feature for one network; see `ScoringRequest` for networks of lists."""
        import torch

        from phrasescore.features.neural import NeuralScore

        (checkpoint,) = request.checkpoints_of(self.model)
        try:
            return NeuralScore(
                checkpoint, torch.device(request.device), precision=request.precision
            )
        except ModelError as error:
            raise ModelError(f"{checkpoint.folder}: {error}") from error


def network_name(kind: str, *, reverse: bool, right_to_left: bool) -> str:
    """Return the name of a network's feature, without its number.

    >>> network_name("lstm", reverse=False, right_to_left=True)
    'RightToLeftLSTM'
    """
    return "Reverse" * reverse + "RightToLeft" * right_to_left + KINDS[kind].feature
