"""Words of a source that nobody knows: so many of them that it cannot be the right text."""

# Of fewer words, names and numbers may be the half.
_MIN_WORDS = 20


def is_foreign(unknown: int, words: int) -> bool:
    """Return whether so many words of a text are unknown that it may be one of another language.

    >>> is_foreign(3, 3), is_foreign(3, 4), is_foreign(11, 20), is_foreign(10, 20)
    (True, False, True, False)
    """
    return unknown > 0 and (unknown == words or (words >= _MIN_WORDS and 2 * unknown > words))
