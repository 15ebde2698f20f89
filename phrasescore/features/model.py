"""Columns of trained networks."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError, ModelError
from phrasescore.features.columns import Column
from phrasescore.settings.kinds import KINDS

if TYPE_CHECKING:
    from phrasescore.features.feature import Feature
    from phrasescore.features.request import ScoringRequest
    from phrasescore.settings.config import Config

_logger = logging.getLogger(__name__)

ENSEMBLE_NAME = "Ensemble"
NORMALIZED = "Norm"  # the suffix for a score that is divided by length


@dataclass(frozen=True)
class Network(Column):
    """A trained network: log p(target ``</s>`` | source), or log p(source ``</s>`` | target)."""

    paths: ClassVar[tuple[str, ...]] = ("model", "backoff_lm")
    is_on_device: ClassVar[bool] = True

    model: str  # the folder
    _: KW_ONLY
    # Whether a cslm or joint model, trained with self_normalization, omits log Z.
    unnormalized: bool = False
    # An n-gram model, an ARPA file or a KenLM binary, for the words outside a cslm's shortlist,
    # which are otherwise <unk>.
    backoff_lm: str | None = None
    # Whether a column NAMENorm follows: the score divided by the number of predicted words,
    # including the end symbol.
    normalize: bool = False

    def check(self, columns: Sequence[Column], *, of_phrases: bool) -> None:
        super().check(columns, of_phrases=of_phrases)
        if of_phrases and self.normalize:
            raise self.error("normalize: only for n-best lists")

    def check_config(self, config: "Config") -> None:
        """Check that the options fit the kind of the network."""
        check_feed_forward([config], self.backoff_lm, unnormalized=self.unnormalized, named=str)

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


def check_feed_forward(
    configs: "Sequence[Config]",
    backoff_lm: str | None,
    *,
    unnormalized: bool,
    named: Callable[[str], str] = flag,
) -> None:
    """Check the options for models of the kinds cslm and joint, before the models are loaded.

    :param named: returns the name of an option in messages.
    """
    backoff, without_log_z = named("backoff_lm"), named("unnormalized")
    if backoff_lm is not None and unnormalized:
        raise ArgumentError(f"{backoff} cannot be used with {without_log_z}")
    models = [config for config in configs if config.network.is_feed_forward]
    if backoff_lm is not None and all(config.network.reads_source for config in models):
        raise ArgumentError(f"{backoff} requires a model of the kind cslm")
    if unnormalized and not models:
        raise ArgumentError(f"{without_log_z} requires a model of the kind cslm or joint")
    for config in models if unnormalized else ():
        if not config.model.self_normalization:
            _logger.warning(
                "unnormalized scores: a %s was trained without self_normalization: its scores "
                "without log Z mean little",
                config.kind,
            )
