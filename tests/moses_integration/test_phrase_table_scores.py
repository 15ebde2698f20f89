"""Scores of phrase tables: added, removed, and written for Moses."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.phrase_table import TableBlock, read_table_blocks
from moses_integration.table_line import format_scores, parse_line
from phrasescore.errors import ModelError
from tests.table_lines import add_scores, remove_scores

GOOD = b"la maison ||| the house ||| 0.5 0.25 ||| 0-0 1-1 ||| 4 3 2 ||| |||\n"


# Adding and removing scores


def test_scores_are_added_after_the_last_one() -> None:
    log_values = [math.log(0.25), 1.0]
    assert add_scores(GOOD[:-1], log_values) == (
        b"la maison ||| the house ||| 0.5 0.25 0.25 2.718282 ||| 0-0 1-1 ||| 4 3 2 ||| |||"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a ||| b ||| 0.5", b"a ||| b ||| 0.5 1"),
        (b"a ||| b ||| 0.5\r", b"a ||| b ||| 0.5 1\r"),
        (b"a ||| b ||| 0.5 \t", b"a ||| b ||| 0.5 1 \t"),
        (b"a ||| b ||| 0.5  \r", b"a ||| b ||| 0.5 1  \r"),
        (b"a ||| b ||| 0.5\t||| 0-0", b"a ||| b ||| 0.5 1\t||| 0-0"),
        (b"a|||b|||0.5|||0-0", b"a|||b|||0.5 1|||0-0"),
        (b"a ||| b ||| 0.5 |||", b"a ||| b ||| 0.5 1 |||"),
    ],
)
def test_every_other_byte_stays(before: bytes, after: bytes) -> None:
    assert add_scores(before, [0.0]) == after
    assert remove_scores(after, 1) == before


PHRASES = st.text(st.sampled_from("a\u00e9\u2028\u00a0 |\t"), min_size=1, max_size=6).map(
    lambda text: "x" + text.replace("||", "|")
)
BLANKS = st.text(st.sampled_from(" \t"), max_size=3)
SEPARATED_SCORES = st.lists(
    st.sampled_from(["0.5", ".5", "1E-5", "+1", "5."]), min_size=1, max_size=5
).flatmap(
    lambda scores: st.lists(
        st.text(st.sampled_from(" \t"), min_size=1, max_size=3),
        min_size=len(scores),
        max_size=len(scores),
    ).map(lambda blanks: "".join(b + s for b, s in zip(blanks, scores, strict=True)))
)
RESTS = st.sampled_from(["", "\r", "|||", "||| 0-0 ||| 1 2 1 ||| |||\r", "|||||||||", "||||"])
LINES = st.builds(
    lambda source, target, scores, blank, rest: (
        f"{source} |||{target} |||{scores}{blank}{rest}".encode()
    ),
    PHRASES,
    PHRASES,
    SEPARATED_SCORES,
    BLANKS,
    RESTS,
)


@given(LINES, st.lists(st.floats(-200, 88), min_size=1, max_size=4))
def test_removing_what_was_added_gives_the_same_bytes(raw: bytes, values: list[float]) -> None:
    added = add_scores(raw, values)
    pair, num_scores = parse_line("t", 1, raw, None)
    assert parse_line("t", 1, added, None) == (pair, num_scores + len(values))
    assert remove_scores(added, len(values)) == raw


def test_removing_columns_of_any_table_leaves_the_others() -> None:
    assert remove_scores(b"a ||| b ||| 0.1  0.2\t0.3 |||", 2) == b"a ||| b ||| 0.1  |||"


@pytest.mark.parametrize("raw", [b"a ||| b ||| 0.1 0.2 |||", b"a ||| b ||| 0.1"])
def test_removing_every_score_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="cannot remove 2 scores and leave one"):
        remove_scores(raw, 2)


# Numbers


def written(log_value: float) -> bytes:
    return format_scores([np.array([log_value])]).strip()


@pytest.mark.parametrize(
    ("log_value", "text"),
    [
        (0.0, b"1"),
        (-0.0, b"1"),
        (math.log(0.125), b"0.125"),
        (-10.0, b"4.539993e-05"),
        (-100.0, b"3.720076e-44"),
        (-1e300, b"3.720076e-44"),
        (10.0, b"22026.47"),
        (88.0, b"1.651636e+38"),
        (1e300, b"1.651636e+38"),
    ],
)
def test_a_logarithm_is_written_as_a_probability(log_value: float, text: bytes) -> None:
    assert written(log_value) == text


@given(st.floats(-87, 88))
def test_moses_reads_back_what_was_written(log_value: float) -> None:
    # As Moses does: float32, then its logarithm, floored at -100 (TransformScore, FloorScore).
    read_back = float(np.log(np.float32(written(log_value).decode())))
    assert read_back == pytest.approx(log_value, rel=1e-6, abs=1e-6)


@given(st.floats(-1000, -87))
def test_moses_reads_back_tiny_probabilities_coarsely(log_value: float) -> None:
    # The smallest step of float32 is 2^-149, which is 4% of exp(-100).
    value = np.log(np.float32(written(log_value).decode()))
    assert max(float(value), -100.0) == pytest.approx(max(log_value, -100.0), abs=0.04)


@pytest.mark.parametrize("log_value", [math.nan, math.inf, -math.inf])
def test_what_a_table_cannot_hold_is_never_written(log_value: float) -> None:
    with pytest.raises(ModelError, match="expected a finite logarithm, found"):
        written(log_value)


PAIR_LINES = 7
# A phrase with two spaces, which stands elsewhere with one, and one in two bytes a letter.
TEXT = "".join(
    f"a{number} {'  ' if number == 3 else ''}é ||| b ||| 0.5 ||| 0-0\n"
    for number in range(PAIR_LINES)
)


def blocks_of(folder: Path, size: int) -> Iterator[TableBlock]:
    path = folder / "table"
    path.write_text(TEXT)
    for block in read_table_blocks(str(path)):
        for first in range(0, block.num_lines, size):
            yield block.lines(first, min(first + size, block.num_lines))


def test_each_line_gets_its_own_scores(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, PAIR_LINES)
    data = block.with_scores([np.log([0.5] * PAIR_LINES), -np.arange(PAIR_LINES, dtype=np.float64)])
    assert [line.split(b" ||| ")[2] for line in data.splitlines()] == [
        b"0.5 0.5 %.7g" % math.exp(-number) for number in range(PAIR_LINES)
    ]
