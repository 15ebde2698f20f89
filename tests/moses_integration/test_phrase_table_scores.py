"""Scores of phrase tables: added, removed, written for Moses, and told."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.phrase_table import (
    PhraseTableLine,
    TableBlock,
    read_phrase_table,
    read_table_blocks,
)
from moses_integration.table_line import format_probability, parse_line
from moses_integration.table_report import (
    Counts,
    Coverage,
    ScoreColumn,
    TableReport,
    TargetsPerSource,
    report_table,
)
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
    ],
)
def test_a_logarithm_is_written_as_a_probability(log_value: float, text: bytes) -> None:
    assert format_probability(log_value) == text


@given(st.floats(-87, 88))
def test_moses_reads_back_what_was_written(log_value: float) -> None:
    # As Moses does: float32, then its logarithm, floored at -100 (TransformScore, FloorScore).
    read_back = float(np.log(np.float32(format_probability(log_value).decode())))
    assert read_back == pytest.approx(log_value, rel=1e-6, abs=1e-6)


@given(st.floats(-1000, -87))
def test_moses_reads_back_tiny_probabilities_coarsely(log_value: float) -> None:
    # The smallest step of float32 is 2^-149, which is 4% of exp(-100).
    value = np.log(np.float32(format_probability(log_value).decode()))
    assert max(float(value), -100.0) == pytest.approx(max(log_value, -100.0), abs=0.04)


@pytest.mark.parametrize("log_value", [math.nan, math.inf, -math.inf, 88.1, 1e300])
def test_what_a_table_cannot_hold_is_never_written(log_value: float) -> None:
    with pytest.raises(ModelError, match="expected a finite logarithm of at most 88, found"):
        format_probability(log_value)


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


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_error(tmp_path: Path, value: float) -> None:
    (block,) = blocks_of(tmp_path, PAIR_LINES)
    with pytest.raises(ModelError, match="expected a finite logarithm"):
        block.with_scores([np.full(PAIR_LINES, -1.0), np.full(PAIR_LINES, value)])


@pytest.mark.parametrize(("value", "written"), [(1e3, b"1.651636e+38"), (-1e3, b"3.720076e-44")])
def test_values_end_where_moses_can_read_them(tmp_path: Path, value: float, written: bytes) -> None:
    (block,) = blocks_of(tmp_path, PAIR_LINES)
    assert block.with_scores([np.full(PAIR_LINES, value)]).split(b" ||| ")[2] == b"0.5 " + written


def _near(value: float) -> Any:
    return pytest.approx(value)


def _lines(tmp_path: Path, text: str) -> list[PhraseTableLine]:
    path = tmp_path / "table"
    path.write_text(text, encoding="utf-8")
    return list(read_phrase_table(str(path)))


def test_every_figure_of_a_small_table_is_right(tiny_table: Path) -> None:
    report = report_table(
        read_phrase_table(str(tiny_table)), shortlists=({"la", "maison"}, {"the", "house"})
    )
    assert report == TableReport(
        lines=4,
        distinct_sources=2,
        distinct_targets=4,
        targets_per_source=TargetsPerSource(mean=2.0, median=2.0, max=3, max_source="la maison"),
        source_lengths={1: 1, 2: 3},
        target_lengths={1: 1, 2: 3},
        scores=(
            # ln 1/4 + ln 1/4 + ln 1/2 + ln 1 = -5 ln 2; three times ln 1/2 and ln 1/8 = -6 ln 2
            ScoreColumn(min=0.25, max=1.0, mean_log=_near(-5 / 4 * math.log(2))),
            ScoreColumn(min=0.125, max=0.5, mean_log=_near(-6 / 4 * math.log(2))),
        ),
        counts=Counts(lines=4, joint=7.0, once=2),
        coverage=Coverage(
            source_words=6 / 7,  # all but "rue"
            target_words=4 / 7,  # "the" three times and "house"
            source_words_by_count=8 / 11,  # (1 + 1 + 2) times 2 of 8 + 3 times 1
            target_words_by_count=6 / 11,  # 1 + 1 + 2 times 2
            pairs=1 / 4,  # "la maison", "the house"
        ),
    )


@pytest.mark.parametrize("can_read_again", [True, False])
def test_sources_whose_lines_stand_apart_are_counted_once(
    tmp_path: Path, can_read_again: bool
) -> None:
    lines = _lines(tmp_path, "a ||| x ||| 1\nb ||| x ||| 1\nb ||| y ||| 1\na ||| y ||| 1\n" * 3)

    def read_again() -> Iterator[PhraseTableLine]:
        return iter(lines)

    report = report_table(lines, read_again=read_again if can_read_again else None)
    assert (report.distinct_sources, report.distinct_targets) == (2, 2)
    # Both have six lines; the first of the table is named.
    assert report.targets_per_source == TargetsPerSource(
        mean=6.0, median=6.0, max=6, max_source="a" if can_read_again else None
    )


def test_a_table_is_not_read_twice_where_once_is_enough(tiny_table: Path) -> None:
    def read_again() -> Iterator[PhraseTableLine]:
        raise AssertionError("read again")

    lines = read_phrase_table(str(tiny_table))
    assert report_table(lines, read_again=read_again).distinct_sources == 2


def test_words_and_their_borders_tell_phrases_apart(tmp_path: Path) -> None:
    # Joined without spaces, or with U+00A0 taken for a space, these would be the same.
    lines = _lines(tmp_path, "a b ||| x ||| 1\nab ||| x ||| 1\na\u00a0b ||| x ||| 1\n")
    assert report_table(lines).distinct_sources == 3


def test_a_score_of_zero_counts_as_moses_loads_it(tmp_path: Path) -> None:
    # LOWEST_SCORE = -100, moses/TypeDef.h
    lines = _lines(tmp_path, "a ||| x ||| 0\na ||| y ||| 1\n")
    assert report_table(lines).scores == (ScoreColumn(min=0.0, max=1.0, mean_log=_near(-50.0)),)


def test_a_missing_counts_field_counts_one_and_is_reported(tmp_path: Path) -> None:
    lines = _lines(tmp_path, "a ||| x ||| 1\na ||| y ||| 1 ||| 0-0 ||| 9 8 2.5\n")
    assert report_table(lines).counts == Counts(lines=1, joint=3.5, once=1)


def test_more_lines_than_a_block_give_the_same_figures(tmp_path: Path) -> None:
    number = 20_001  # one more than a block
    text = "".join(f"a ||| {i} ||| {1 if i else 0.5}\n" for i in range(number))
    report = report_table(_lines(tmp_path, text))
    assert report.scores == (ScoreColumn(min=0.5, max=1.0, mean_log=_near(-math.log(2) / number)),)
    assert (report.distinct_targets, report.targets_per_source.max) == (number, number)


@pytest.mark.slow
def test_the_real_table_has_the_figures_counted_without_us(shared_data: Path) -> None:
    # zcat phrase-table.gz | wc -l; ... | awk -F' [|][|][|] ' '{print $1}' | uniq | wc -l, and the
    # like with $2 | sort -u; uniq -c | sort -n | tail -1 for the source with the most targets.
    report = report_table(read_phrase_table(str(shared_data / "phrase-table.gz")))
    assert report.lines == 1_209_173
    assert report.distinct_sources == 807_540
    assert report.distinct_targets == 886_651
    assert (report.targets_per_source.max, report.targets_per_source.max_source) == (715, "a")
