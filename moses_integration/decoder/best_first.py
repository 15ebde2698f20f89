"""A heap in four arrays of equal length: the least loss first, of equal losses the earlier one.

An item is a loss, two numbers that say what it is, and when it was pushed.
"""

from typing import Any

from moses_integration.decoder.ngram_table import KERNEL


@KERNEL
def push(losses: Any, first: Any, second: Any, order: Any, size: int) -> None:
    """Let the last item of a heap rise; of equal losses the earlier one comes first."""
    place = size - 1
    while place > 0:
        above = (place - 1) // 2
        if losses[above] < losses[place] or (
            losses[above] == losses[place] and order[above] < order[place]
        ):
            break
        _swap(losses, first, second, order, place, above)
        place = above


@KERNEL
def _swap(losses: Any, first: Any, second: Any, order: Any, one: int, other: int) -> None:
    losses[one], losses[other] = losses[other], losses[one]
    first[one], first[other] = first[other], first[one]
    second[one], second[other] = second[other], second[one]
    order[one], order[other] = order[other], order[one]


@KERNEL
def pop(losses: Any, first: Any, second: Any, order: Any, size: int) -> None:
    """Move the first item of a heap behind the others."""
    _swap(losses, first, second, order, 0, size - 1)
    place = 0
    while True:
        best = place
        for child in range(2 * place + 1, min(2 * place + 3, size - 1)):
            if losses[child] < losses[best] or (
                losses[child] == losses[best] and order[child] < order[best]
            ):
                best = child
        if best == place:
            return
        _swap(losses, first, second, order, place, best)
        place = best
