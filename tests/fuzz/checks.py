"""What has to come out of a command that takes a damaged file: nothing lost, nothing else."""

import gzip
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

from tests.table_lines import remove_scores

Check = Callable[[], str | None]
# A hypothesis: its fields.
_Fields = list[bytes]
# Features that are no log-probabilities.
_ANY_NUMBER = ("LengthRatio0", "Own0", "Program0")


def lines_of(path: str) -> list[bytes]:
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.removesuffix(b"\n").split(b"\n") if data else []


def scored_pairs(added: int, table: str = "table", out: str = "out") -> Check:
    """All lines of the table, in order, with some finite scores more."""

    def check() -> str | None:
        before, after = lines_of(table), lines_of(out)
        if len(before) != len(after):
            return f"{len(before)} lines became {len(after)}"
        for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
            if remove_scores(new, added) != old:
                return f"line {number} was changed: {old!r} {new!r}"
            values = new.split(b"|||")[2].split()[-added:]
            if not all(math.isfinite(float(value)) and float(value) > 0 for value in values):
                return f"line {number} has the scores {values}"
        return None

    return check


def scored_lists(*features: str, nbest: str = "nbest", out: str = "out") -> Check:
    """All lines of the lists, in order, with some finite features more."""

    def check() -> str | None:
        before, after = lines_of(nbest), lines_of(out)
        if len(before) != len(after):
            return f"{len(before)} lines became {len(after)}"
        names = "".join(rf" {name}[=:] ?(-?[\d.e+-]+)" for name in features)
        for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
            found = re.search(rf"{names}(?= *\|\|\|)".encode(), new)
            if found is None or not all(math.isfinite(float(each)) for each in found.groups()):
                return f"line {number} has no {features}: {new!r}"
            for name, value in zip(features, found.groups(), strict=True):
                if float(value) > 0 and name not in _ANY_NUMBER:
                    return f"line {number} has the log-probability {value!r}"
            if _fields(new[: found.start()] + new[found.end() :]) != _fields(old):
                return f"line {number} was changed: {old!r} {new!r}"
        return None

    return check


def all_of(*checks: Check) -> Check:
    """What the first check finds that finds something."""
    return lambda: next(filter(None, (check() for check in checks)), None)


def a_line_each(text: str = "source", out: str = "out") -> Check:
    """A line of output for each line of a text."""

    def check() -> str | None:
        before, after = len(lines_of(text)), len(lines_of(out))
        return None if before == after else f"{before} lines became {after}"

    return check


def finite(copied: str | None = None, out: str = "out") -> Check:
    """No number of the output is none, but for lines that are those of another file."""

    def check() -> str | None:
        known = set(lines_of(copied)) if copied else set()
        made = b"\n".join(line for line in lines_of(out) if line not in known)
        found = re.search(rb"(?<![\w|])-?(nan|inf)(?![\w|])", made, re.IGNORECASE)
        return f"the output says {found[0]!r}" if found else None

    return check


def in_order(inner: str, outer: str) -> Check:
    """All lines of a file are in another, in its order."""

    def check() -> str | None:
        rest = iter(lines_of(outer))
        lost = next((line for line in lines_of(inner) if line not in rest), None)
        return None if lost is None else f"{lost!r} of {inner} is not in {outer}, or elsewhere"

    return check


def best_of_lists(nbest: str = "nbest") -> Check:
    """One hypothesis of each list."""

    def check() -> str | None:
        lists, after = _lists_of(nbest), lines_of("out")
        if len(lists) != len(after):
            return f"{len(lists)} lists became {len(after)} lines"
        for number, (fields, line) in enumerate(zip(lists, after, strict=True), start=1):
            if line not in [each[1] for each in fields]:
                return f"line {number} is in no list: {line!r}"
        return None

    return check


def sorted_lists(nbest: str = "nbest") -> Check:
    """The same hypotheses in each list, in any order, with any totals."""

    def check() -> str | None:
        before, after = (
            [sorted(each[:3] + each[4:] for each in fields) for fields in _lists_of(path)]
            for path in (nbest, "out")
        )
        return None if before == after else "other hypotheses in a list"

    return check


def _lists_of(path: str) -> list[list[_Fields]]:
    lines = map(_fields, lines_of(path))
    return [list(group) for _, group in itertools.groupby(lines, key=lambda each: int(each[0]))]


def _fields(line: bytes) -> _Fields:
    return [part.strip(b" ") for part in line.removesuffix(b"\r").split(b"|||")]
