"""Promises of moses_integration.phrase_table, on real, odd and broken lines.

What Moses loads and refuses was read in its source (moses/TranslationModel/RuleTable/
LoaderStandard.cpp, util/double-conversion) and, for scores, tried on its binary.
"""

import gzip
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moses_integration import phrase_table, table_line
from moses_integration.decoder.phrase_tables import TableLines, keys_of
from moses_integration.phrase_table import PhraseTableLine, read_phrase_table, read_table_blocks
from moses_integration.table_line import joint_count, parse_line
from phrasescore.errors import DataError
from phrasescore.records import PhrasePair
from tests.table_lines import add_scores, remove_scores

ROOT = Path(__file__).parents[2]
ODD = ROOT / "tests" / "data" / "odd.fr-en.phrase-table"
REAL = ROOT.parent / "shared" / "data" / "phrase-table.gz"

GOOD = b"la maison ||| the house ||| 0.5 0.25 ||| 0-0 1-1 ||| 4 3 2 ||| |||\n"


def table(folder: Path, content: bytes) -> str:
    path = folder / "table"
    path.write_bytes(content)
    return str(path)


def read(folder: Path, content: bytes) -> list[PhraseTableLine]:
    return list(read_phrase_table(table(folder, content)))


def problem(folder: Path, content: bytes) -> str:
    with pytest.raises(DataError) as caught:
        read(folder, content)
    return str(caught.value).replace(f"{folder}/", "")


# Reading


def test_a_line_has_its_words_its_number_and_its_bytes(tmp_path: Path) -> None:
    first, second = read(tmp_path, GOOD + b"maison ||| house ||| 1 1")
    assert first == PhraseTableLine(1, GOOD[:-1], PhrasePair(("la", "maison"), ("the", "house")), 2)
    assert second == PhraseTableLine(
        2, b"maison ||| house ||| 1 1", PhrasePair(("maison",), ("house",)), 2
    )
    assert isinstance(first.pair, PhrasePair)
    assert isinstance(first, PhraseTableLine)


def test_odd_lines_that_moses_loads_are_read() -> None:
    pairs = [line.pair for line in read_phrase_table(str(ODD))]
    assert pairs[:3] == [
        PhrasePair(("!",), ("!",)),
        PhrasePair(("#", "1"), ("no.", "1")),
        PhrasePair(("&#124;", "x"), ("a", "&#124;", "x")),
    ]
    assert pairs[6:] == [
        PhrasePair(("la", "maison", "bleue"), ("the", "blue", "house")),
        PhrasePair(("maison",), ("house",)),
        PhrasePair(("maison",), ("home",)),
        PhrasePair(("maisons",), ("houses",)),
        PhrasePair(("mille\u00a0pas",), ("a\u0085thousand\u2028steps\u3000",)),
        PhrasePair(("note",), ("note",)),
        PhrasePair(("note",), ("music",)),
        PhrasePair(("z",), ("z", "||", "z", "|", "z")),
    ]


RULES = [
    b"the dog [X] ||| le chien [X] ||| 0.5 1 ||| 0-0 1-1 ||| 4 4 2 ||| |||\n",
    b"the [X][X] [X] ||| [X][X]  le [NP]||| 0.5 1 |||\r\n",
]


@pytest.mark.parametrize("lines", [RULES, RULES[::-1], RULES * 200, RULES[:1]])
def test_hierarchical_rules_are_refused(tmp_path: Path, lines: list[bytes]) -> None:
    path = table(tmp_path, b"".join(lines))
    with pytest.raises(DataError) as caught:
        next(read_table_blocks(path))
    assert str(caught.value).startswith(
        f"{path}:1: expected phrases, found a hierarchical rule with the label '[X]'; train a"
    )
    with pytest.raises(DataError, match="hierarchical"):
        next(TableLines(path, 1).find(keys_of([b"dog"], 1)))


@pytest.mark.parametrize(
    "line",
    [
        b"[ ||| [ ||| 0.5 1\n",
        b"voir [1] ||| see [1] ||| 0.5 1\n",
        b"&#91;X&#93; ||| &#91;X&#93; ||| 0.5 1\n",
        b"[musique] ||| music ||| 0.5 1\n",
        # Other lines of the table show that it is a subtitle, not a label.
        b"[musique] ||| [music] ||| 0.5 1\nla ||| the ||| 0.5 1\n",
    ],
)
def test_brackets_are_words_like_others(tmp_path: Path, line: bytes) -> None:
    path = table(tmp_path, line)
    assert len(list(read_phrase_table(path))) == line.count(b"\n")


@pytest.mark.parametrize("packed", [False, True])
def test_lines_and_ends_joined_are_the_file(tmp_path: Path, packed: bool) -> None:
    for content in (ODD.read_bytes(), ODD.read_bytes() + b"\n"):
        path = table(tmp_path, gzip.compress(content) if packed else content)
        lines = list(read_phrase_table(path))
        assert b"\n".join(line.raw for line in lines) == content.removesuffix(b"\n")
        assert [line.number for line in lines] == list(range(1, 15))
        assert {line.num_scores for line in lines} == {4}


def test_plain_lines_and_others_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path, ODD.read_bytes())
    quick = list(read_phrase_table(path))
    scan = table_line.scan_lines
    odd = []

    def find_nothing(text: Any, num_scores: int, begins: Any, ends: Any, phrases: Any) -> None:
        scan(text, num_scores, begins, ends, phrases)
        odd.append(np.count_nonzero(ends < 0))
        ends[:] = -1

    monkeypatch.setattr(table_line, "scan_lines", find_nothing)
    assert list(read_phrase_table(path)) == quick
    assert 0 < sum(odd) < len(quick)


FIELD_PIECES = st.sampled_from(
    [
        "a",
        "\u00e9",
        " ",
        "  ",
        "|",
        "||",
        "|||",
        " ||| ",
        "\r",
        "\u2028",
        "0.5",
        "0.5 1",
        "0.5 1 ||| 0-0",
        "1e-05",
        "1e+29",
        "1e+30",
        "1e+3",
        "12345678",
        "123456789",
        "7.",
        ".5",
        "-1",
        "1e",
        "\t",
    ]
)


def outcome(read_line: Callable[[], object]) -> object:
    try:
        return read_line()
    except DataError as error:
        return str(error)


# What compiled code could take for plain, and chance finds too rarely.
@example("  a ||| 0.5", 1)
@example("a ||| \t ||| 0.5", 1)
@example("1e+39", 1)
@example("9" * 40, 1)
@example("99999999999e+29", 1)
@given(st.lists(FIELD_PIECES, max_size=12).map("".join), st.sampled_from([1, 2]))
def test_compiled_code_accepts_only_what_the_parser_does(odd: str, num_scores: int) -> None:
    for raw in (f"a ||| b{odd}".encode(), f"a ||| b ||| {odd}".encode(), odd.encode()):
        block, problem = phrase_table._check("t", 0, num_scores, raw + b"\n")
        expected = outcome(lambda raw=raw: parse_line("t", 1, raw, num_scores)[0])  # type: ignore[misc]
        assert (str(problem) if problem else next(block.block.pairs())) == expected
        if problem is None:
            scored = block.with_scores([np.array([-3.5]), np.array([0.0])])
            assert remove_scores(scored[:-1], 2) == raw


def test_plain_lines_need_no_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = b"x y ||| \xc3\xa9 || z|z ||| 1e-05 12345678.5e+29 |||\n"
    path = table(tmp_path, GOOD + odd + b"a ||| b ||| 0 1.5")
    parsed = []

    def parse(path: str, number: int, raw: bytes, num_scores: int | None) -> Any:
        parsed.append(number)
        return parse_line(path, number, raw, num_scores)

    monkeypatch.setattr(table_line, "parse_line", parse)
    assert [line.number for line in read_phrase_table(path)] == [1, 2, 3]
    assert parsed == [1, 2]  # the first for its number of scores; the second ends with bars


def test_lines_before_a_wrong_one_come_as_a_block(tmp_path: Path) -> None:
    blocks = phrase_table.read_table_blocks(table(tmp_path, GOOD * 3 + b"broken\n" + GOOD))
    assert next(blocks).raw == GOOD * 3
    with pytest.raises(DataError, match="table:4: "):
        next(blocks)


def test_some_lines_of_a_block() -> None:
    content = b"a ||| b ||| 1\n  c   d |||  e ||| 2\nf ||| g ||| 3 ||| 0-0"
    block, _ = phrase_table._check("t", 0, 1, content)
    part = block.lines(1, 3)
    assert (part.before, part.num_lines, part.raw) == (1, 2, content[14:])
    assert list(part.block.pairs()) == [PhrasePair(("c", "d"), ("e",)), PhrasePair(("f",), ("g",))]
    assert part.with_scores([np.log([0.5, 0.25])]) == (
        b"  c   d |||  e ||| 2 0.5\nf ||| g ||| 3 0.25 ||| 0-0"
    )
    assert block.lines(0, 0).with_scores([np.empty(0)]) == b""


@pytest.mark.parametrize("separator", [b" ", b"  "], ids=["quick", "slow"])
def test_long_phrases_and_long_lines_are_read(tmp_path: Path, separator: bytes) -> None:
    phrase = separator.join([b"mot"] * 500)
    huge = b"x" * 1_000_000
    lines = read(tmp_path, phrase + b" ||| " + huge + b" ||| 1 ||| " + huge + b"\n")
    assert lines[0].pair == PhrasePair(("mot",) * 500, ("x" * 1_000_000,))


def test_a_block_border_inside_a_line_does_not_show(tmp_path: Path) -> None:
    content = b"".join(b"a%d ||| b ||| 0.5\n" % n for n in range(60_000))
    lines = read(tmp_path, content)
    assert [line.pair.source for line in lines] == [(f"a{n}",) for n in range(60_000)]
    assert lines[-1].number == 60_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "expected at least 3 fields separated by '|||', found an empty line"),
        (b"\r", "expected at least 3 fields separated by '|||', found an empty line"),
        (b"maison ||| house", "expected at least 3 fields separated by '|||', found 2: 'maison ||"),
        (b"maison || house || 0.5", "expected at least 3 fields separated by '|||', found 1: 'mai"),
        (b" ||| house ||| 0.5 1", "expected a source phrase, found ' '"),
        (b"||| house ||| 0.5 1", "expected a source phrase, found ''"),
        (b" \t ||| house ||| 0.5 1", "expected a source phrase, found ' \\t '"),
        (b"maison |||  ||| 0.5 1", "expected a target phrase, found '  '"),
        (b"maison ||| ||| 0.5 1", "expected a target phrase, found ' '"),
        (b"maison ||| house ||| 0.5", "expected 2 scores as in the first line, found 1"),
        (b"maison ||| house ||| 1 1 1", "expected 2 scores as in the first line, found 3"),
        (b"maison ||| house |||", "expected scores in field 3, found ''"),
        (b"maison ||| house ||| \r", "expected scores in field 3, found ' '"),
        (b"maison \xff ||| house ||| 1 1", "expected UTF-8, found byte 0xff at byte 8 of the line"),
        (b"x ||| y ||| 1 1 ||| caf\xe9", "expected UTF-8, found byte 0xe9 at byte 24 of the line"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number(tmp_path: Path, line: bytes, message: str) -> None:
    found = problem(tmp_path, GOOD + line + b"\n" + GOOD)
    assert found.startswith(f"table:2: {message}")


@pytest.mark.parametrize("score", ["1", "100", "1e30", ".5", "5.", "+0.5", "1E-5", "1e-99", "0"])
@pytest.mark.parametrize("place", ["{} 1", "1 {}"])
def test_numbers_that_moses_reads_are_scores(tmp_path: Path, score: str, place: str) -> None:
    scores = place.format(score).encode()
    assert len(read(tmp_path, GOOD + b"maison ||| house ||| " + scores + b" |||\n")) == 2


@pytest.mark.parametrize(
    "score",
    [
        *("nan", "abc", "0,5", "0x10", "1e", "1e+", "Infinity", "inf", "-inf", ".", "+", "1_0"),
        *("--1", "0.5;", "\u0663", "1\u00a0", "0.5\x00", "e5", "1.2.3"),
    ],
)
@pytest.mark.parametrize("place", ["{} 1", "1 {}"])
def test_what_moses_does_not_read_as_a_number_is_refused(
    tmp_path: Path, score: str, place: str
) -> None:
    scores = place.format(score).encode()
    message = problem(tmp_path, GOOD + b"maison ||| house ||| " + scores + b" |||\n")
    assert message == f"table:2: expected a number as score, found {score!r}"


@pytest.mark.parametrize("score", ["-1", "-0.5", "-1e-30"])
def test_a_negative_score_is_refused(tmp_path: Path, score: str) -> None:
    message = problem(tmp_path, f"maison ||| house ||| {score}".encode())
    expected = "a score of at least 0 (scores are probabilities, not logarithms)"
    assert message == f"table:1: expected {expected}, found {score!r}"


@pytest.mark.parametrize("score", ["1e39", "3.4028236e38", "1e999", "9" * 40])
def test_a_score_that_moses_would_take_for_infinity_is_refused(tmp_path: Path, score: str) -> None:
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(score))
    message = problem(tmp_path, f"maison ||| house ||| {score}".encode())
    assert message == (
        f"table:1: expected a score within the range of float32, which Moses uses, found {score!r}"
    )


def test_the_largest_float32_is_a_score(tmp_path: Path) -> None:
    assert np.isfinite(np.float32("3.4028235e38"))
    assert len(read(tmp_path, b"maison ||| house ||| 3.4028235e38")) == 1


def test_an_empty_table_is_an_error(tmp_path: Path) -> None:
    expected = "table: expected a phrase table, found no lines"
    assert problem(tmp_path, b"") == expected
    assert problem(tmp_path, gzip.compress(b"")) == expected


def test_a_broken_line_of_a_megabyte_is_shown_cut(tmp_path: Path) -> None:
    message = problem(tmp_path, GOOD + b"x" * 1_000_000)
    assert message.startswith("table:2: expected at least 3 fields")
    assert len(message) < 140


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        (b" ||| 0-0 ||| 4 3 2 ||| |||", 2.0),
        (b"|||0-0|||4 3 2.5", 2.5),
        (b" ||| 0-0 ||| 4 3 2\r", 2.0),
        (b"", 1.0),
        (b" ||| 0-0", 1.0),
        (b" ||| 0-0 |||  ||| 5 5 5", 1.0),
        (b" ||| 0-0 ||| 4 3", 1.0),
        (b" ||| 0-0 ||| 4 3 many", 1.0),
        (b" ||| 0-0 ||| 4 3 nan", 1.0),
        (b" ||| 0-0 ||| 4 3 inf", 1.0),
        (b" ||| 0-0 ||| 4 3 -2", 1.0),
        (b" ||| 0-0 ||| 4 3 1e15", 1e15),
        (b" ||| 0-0 ||| 4 3 1.1e15", 1.0),
        (b" ||| 0-0 ||| 4 3 1e308", 1.0),
    ],
)
def test_the_joint_count_is_the_third_count_or_one(rest: bytes, count: float) -> None:
    assert joint_count(b"a ||| b ||| 0.5" + rest) == count


@pytest.mark.skipif(not REAL.exists(), reason="needs the real table")
def test_a_real_table_goes_through_byte_for_byte() -> None:
    lines = list(islice(read_phrase_table(str(REAL)), 100_000))
    with gzip.open(REAL) as stream:
        expected = b"".join(islice(stream, 100_000))
    assert b"".join(line.raw + b"\n" for line in lines) == expected
    assert {line.num_scores for line in lines} == {4}
    for line in lines[::50]:
        assert remove_scores(add_scores(line.raw, [-3.5, 2.0]), 2) == line.raw
        fields = line.raw.decode().split(" ||| ")
        assert line.pair == (tuple(fields[0].split(" ")), tuple(fields[1].split(" ")))
        assert joint_count(line.raw) == float(fields[4].split()[2]) >= 1
