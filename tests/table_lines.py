"""Add scores to lines of phrase tables, and remove them."""

from collections.abc import Iterable

import numpy as np

from moses_integration import phrase_table
from moses_integration.table_line import parse_line, score_span
from phrasescore.io.text import shorten


def add_scores(raw: bytes, log_values: Iterable[float]) -> bytes:
    """Return a line with more scores, as `TableBlock.with_scores` writes them.

    >>> add_scores(b"la maison ||| the house ||| 0.5 1 ||| 0-0 1-1", [np.log(0.25)])
    b'la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1'
    """
    block, problem = phrase_table._check("t", 0, parse_line("t", 1, raw, None)[1], raw + b"\n")
    assert problem is None
    return block.with_scores([np.array([value]) for value in log_values]).removesuffix(b"\n")


def remove_scores(raw: bytes, how_many: int) -> bytes:
    """Return a line without its last scores: what it was before `add_scores`, byte for byte.

    :raises ValueError: if there would be no score left.

    >>> remove_scores(b"la maison ||| the house ||| 0.5 1 0.25 ||| 0-0 1-1", 1)
    b'la maison ||| the house ||| 0.5 1 ||| 0-0 1-1'
    """
    start, end = score_span(raw)
    scores = raw[start:end]
    for _ in range(how_many):
        scores = scores.rstrip(b" \t")
        # One separator goes with each score, as add_scores puts one.
        scores = scores[: max(scores.rfind(b" "), scores.rfind(b"\t"), 0)]
    if not scores.strip(b" \t"):
        raise ValueError(f"cannot remove {how_many} scores and leave one in {shorten(raw)}")
    return raw[:start] + scores + raw[end:]
