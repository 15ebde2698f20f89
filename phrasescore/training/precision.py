"""The precision of matrix products in training."""

import dataclasses
import os
from contextlib import AbstractContextManager
from typing import Any

import torch

from phrasescore.kernels.precision import has_matrix_units, products_in
from phrasescore.settings.config import Config, TrainingPrecision
from phrasescore.training.ranks import Ranks


def choose_precision(
    config: Config, stored: Config | None, device: torch.device, ranks: Ranks
) -> Config:
    """Return the settings with ``precision = "auto"`` replaced by the faster precision.

    It is bfloat16 for the kinds that train faster in it with AMX, if the processor of the first
    rank has AMX. A measurement would depend on what else the machine does, and then the same
    command would train different models.

    :param stored: settings of the run to resume, which keeps its precision.
    """
    if config.training.precision != "auto":
        return config
    chosen: TrainingPrecision = "float32"
    if stored is not None:
        chosen = stored.training.precision
    elif (
        device.type == "cpu"
        and config.network.gains_by_bfloat16
        and ranks.sum([ranks.is_first and has_matrix_units()])[0]
    ):
        chosen = "bfloat16"
    training = dataclasses.replace(config.training, precision=chosen)
    return dataclasses.replace(config, training=training)


def product_precision(
    precision: TrainingPrecision, device: torch.device
) -> AbstractContextManager[None]:
    """Set the precision of float32 products within a block; ``auto`` is float32 here."""
    backends: Any = torch.backends  # torch's types lack mkldnn.matmul
    backend = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
    if precision in ("float32", "auto"):
        return products_in(backend, "ieee")
    # oneDNN compiles a rounded product for each number of rows, and packed steps have many numbers:
    # the 1,024 products that it keeps by default are gigabytes. It is read at its first use.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return products_in(backend, "tf32" if device.type == "cuda" else "bf16")
