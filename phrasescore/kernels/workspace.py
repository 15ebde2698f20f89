"""Memory that scoring uses again and again."""

import threading

import torch
from torch import Tensor


class Workspace(threading.local):
    """Buffers by name, reused from step to step; each thread has its own.

    Fresh memory has to be mapped page by page, which costs as much as filling it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[str, Tensor] = {}

    def take(
        self, name: str, rows: int, columns: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return a ``(rows, columns)`` buffer, not cleared, valid until ``name`` is taken again."""
        size = rows * columns
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != dtype:
            buffer = torch.empty(size, dtype=dtype, device=self._device)
            self._buffers[name] = buffer
        return buffer[:size].view(rows, columns)
