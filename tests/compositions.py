"""All segmentations of a sentence, for tests that look at every one."""

from collections.abc import Iterator


def compositions(length: int, longest: int) -> Iterator[list[int]]:
    """Yield every way to cut so many words, as sizes of at most ``longest``.

    >>> list(compositions(3, 2))
    [[1, 1, 1], [1, 2], [2, 1]]
    """
    if not length:
        yield []
    for size in range(1, min(length, longest) + 1):
        for rest in compositions(length - size, longest):
            yield [size, *rest]
