"""Write n-best lists, as Moses writes them and `moses_integration.nbest` reads them."""

from collections.abc import Iterable, Sequence

from moses_integration.nbest import format_value


def format_hypothesis(
    sent_id: int,
    words: Sequence[str],
    features: Iterable[tuple[str, Sequence[float]]],
    total: float,
    alignment: str | None = None,
) -> bytes:
    """Return a line of a list, newline included.

    :param features: names, without ``=``, and values: natural logarithms and counts, unweighted.
    :param total: the model score.
    :param alignment: as Moses has it, ``0-0 1-2``; None leaves the field out.
    :raises ModelError: if a value is not finite.

    >>> format_hypothesis(0, ["la", "maison"], [("LM0", [-2.5]), ("TM0", [-1, 0])], -1.25)
    b'0 ||| la maison  ||| LM0= -2.5 TM0= -1 0 ||| -1.25\\n'
    """
    shown = b" ".join(
        b" ".join([f"{name}=".encode(), *map(format_value, values)]) for name, values in features
    )
    fields = [b"%d" % sent_id, f"{' '.join(words)} ".encode(), shown, format_value(total)]
    if alignment is not None:
        fields.append(alignment.encode())
    return b" ||| ".join(fields) + b"\n"
