"""The report over a phrase table: counted by hand, and checked against the real table."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from moses_integration.table_report import (
    Counts,
    Coverage,
    ScoreColumn,
    TableReport,
    TargetsPerSource,
    report_table,
)


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


def test_no_lines_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one line"):
        report_table([])


@pytest.mark.slow
def test_the_real_table_has_the_figures_counted_without_us(shared_data: Path) -> None:
    # zcat phrase-table.gz | wc -l; ... | awk -F' [|][|][|] ' '{print $1}' | uniq | wc -l, and the
    # like with $2 | sort -u; uniq -c | sort -n | tail -1 for the source with the most targets.
    report = report_table(read_phrase_table(str(shared_data / "phrase-table.gz")))
    assert report.lines == 1_209_173
    assert report.distinct_sources == 807_540
    assert report.distinct_targets == 886_651
    assert (report.targets_per_source.max, report.targets_per_source.max_source) == (715, "a")
