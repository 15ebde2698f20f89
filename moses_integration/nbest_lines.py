"""Write n-best lists, and features into their lines, as `moses_integration.nbest` reads them."""

import math
import re
from collections.abc import Iterable, Sequence

from phrasescore.errors import ArgumentError, ModelError

# A name that Moses takes for a dense feature: mert and kbmira file one with "_" under sparse ones.
FEATURE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def check_feature_names(names: Sequence[str]) -> None:
    """Check the names of new features.

    :raises ArgumentError: if Moses would not take one for a dense feature, or one comes twice.
    """
    for name in names:
        if FEATURE_NAME.fullmatch(name) is None:
            raise ArgumentError(
                f"feature name {name}: expected a letter, then letters and digits (Moses takes a "
                "name with '_' for a sparse feature)"
            )
        if names.count(name) > 1:
            raise ArgumentError(f"feature name {name}: two new features have this name")


def format_value(value: float) -> bytes:
    """Return a natural logarithm, or a count, as an n-best list holds it: with 7 digits.

    :raises ModelError: if it is not finite.

    >>> format_value(-12.3456789), format_value(-0.0)
    (b'-12.34568', b'0')
    """
    if not math.isfinite(value):
        raise ModelError(f"expected a finite value for an n-best list, found {value!r}")
    return b"%.7g" % (value + 0.0)  # -0.0 + 0.0 is 0.0


def format_features(features: Iterable[tuple[str, float]], style: bytes = b"= ") -> bytes:
    """Return features as they are inserted after the last one of a line.

    :param style: of the list; see `NbestList.style`.

    >>> format_features([("LSTM0", -2.5), ("UnknownWords0", 1)])
    b' LSTM0= -2.5 UnknownWords0= 1'
    """
    return b"".join(
        b" %s%s%s" % (name.encode(), style, format_value(value)) for name, value in features
    )


def format_hypothesis(
    sent_id: int,
    words: Sequence[str],
    features: Iterable[tuple[str, Sequence[float]]],
    total: float,
    alignment: str | None = None,
    segmentation: str | None = None,
) -> bytes:
    """Return a line of a list, newline included.

    :param features: names, without ``=``, and values: natural logarithms and counts, unweighted.
    :param total: the model score.
    :param alignment: as Moses has it, ``0-0 1-2``; None leaves the field out.
    :param segmentation: as `moses_integration.segmentation` has it; None likewise.
    :raises ModelError: if a value is not finite.

    >>> format_hypothesis(0, ["la", "maison"], [("LM0", [-2.5]), ("TM0", [-1, 0])], -1.25)
    b'0 ||| la maison  ||| LM0= -2.5 TM0= -1 0 ||| -1.25\\n'
    """
    shown = b" ".join(
        b" ".join([f"{name}=".encode(), *map(format_value, values)]) for name, values in features
    )
    fields = [b"%d" % sent_id, f"{' '.join(words)} ".encode(), shown, format_value(total)]
    fields += [field.encode() for field in (segmentation, alignment) if field is not None]
    return b" ||| ".join(fields) + b"\n"
