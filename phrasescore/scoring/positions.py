"""Positions and word ids that a plan has, on the device that computes."""

import numpy as np
import torch
from torch import Tensor

from phrasescore.models.batches import move
from phrasescore.scoring.prefix_tree import Ids


def on_device(positions: Ids, device: torch.device) -> Tensor:
    """Return positions as a tensor on ``device``, on the way there while the CPU goes on."""
    return move(device, torch.from_numpy(np.ascontiguousarray(positions)))[0]
