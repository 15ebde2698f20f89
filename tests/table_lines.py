"""Lines of phrase tables as they were before scores were added to them."""

from moses_integration.table_line import score_span
from phrasescore.io.text import shorten


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
