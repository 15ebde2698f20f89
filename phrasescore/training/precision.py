"""The precision of matrix products in training."""

import dataclasses
import logging
import os
import time
from contextlib import AbstractContextManager
from typing import Any

import torch

from phrasescore.kernels.precision import lacks_units, products_in
from phrasescore.settings.config import Config, TrainingPrecision
from phrasescore.training.ranks import Ranks

_logger = logging.getLogger(__name__)

# The sizes of a product in a small network: rows, inputs and outputs.
_ROWS, _INPUTS, _OUTPUTS = 640, 256, 1024
_TURNS = 20
# A smaller gain is not worth the rounding.
_WORTHWHILE = 0.8


def choose_precision(
    config: Config, stored: Config | None, device: torch.device, ranks: Ranks
) -> Config:
    """Return the settings with ``precision = "auto"`` replaced by the faster precision.

    On a CPU with instructions for bfloat16, the first rank times a product in each precision.

    :param stored: settings of the run to resume, which keeps its precision.
    """
    if config.training.precision != "auto":
        return config
    chosen: TrainingPrecision = "float32"
    if stored is not None:
        chosen = stored.training.precision
    elif device.type == "cpu" and not lacks_units("bfloat16"):
        share = _seconds("bfloat16", device) / _seconds("float32", device) if ranks.is_first else 0
        share = ranks.sum([share])[0]
        chosen = "bfloat16" if share < _WORTHWHILE else "float32"
        _logger.info("bfloat16 products take %.2f of the time of float32 products", share)
    training = dataclasses.replace(config.training, precision=chosen)
    return dataclasses.replace(config, training=training)


def _seconds(precision: TrainingPrecision, device: torch.device) -> float:
    """Return the shortest time of a product."""
    rows, weight = torch.ones(_ROWS, _INPUTS), torch.ones(_OUTPUTS, _INPUTS)
    times = []
    with product_precision(precision, device):
        for _ in range(_TURNS):
            start = time.perf_counter()
            torch.mm(rows, weight.t())
            times.append(time.perf_counter() - start)
    return min(times)


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
