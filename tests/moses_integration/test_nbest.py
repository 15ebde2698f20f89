"""N-best lists: every byte survives, and what is wrong is said with file and line."""

import gzip
import io
import random
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from moses_integration.list_features import feature_matrix, totals
from moses_integration.nbest import NbestList, parse_nbest, read_nbest
from moses_integration.nbest_lines import (
    FEATURE_NAME,
    format_rows,
    format_value,
    parse_features,
    parse_total,
)
from phrasescore.errors import DataError, ModelError
from tests.tiny_lists import remove_features

ODD_LIST = Path(__file__).parent.parent / "data" / "odd.nbest"
LINE = b"0 ||| la maison  ||| LM0= -2.5 TM0= -1 -2 ||| -3.25"


def write(folder: Path, *lines: bytes, end: bytes = b"\n") -> str:
    path = folder / "nbest"
    path.write_bytes(b"\n".join(lines) + end)
    return str(path)


def annotated(lists: Iterator[NbestList], text: bytes) -> bytes:
    return b"".join(found.with_features([text] * len(found.raws)) for found in lists)


# Every byte survives


def test_reading_and_writing_is_the_identity_on_odd_lines() -> None:
    assert annotated(read_nbest(str(ODD_LIST)), b"") == ODD_LIST.read_bytes()


def test_lists_hold_the_lines_of_a_sentence_in_order() -> None:
    lists = list(read_nbest(str(ODD_LIST)))
    assert [(found.id, found.first_line, len(found.raws)) for found in lists] == [
        (0, 1, 2), (1, 3, 1), (3, 4, 3), (10, 7, 1)
    ]  # fmt: skip
    raws = [raw for found in lists for raw in found.raws]
    assert raws == ODD_LIST.read_bytes().split(b"\n")


def test_only_spaces_separate_words_and_doubled_ones_nothing() -> None:
    lists = list(read_nbest(str(ODD_LIST)))
    assert [list(found.distinct().values()) for found in lists] == [
        [("la", "maison"), ("la", "maison")],  # two fields, one of them with two spaces
        [()],
        [("l'été\u00a0!",), ("\u0085", "x\u2028y", "\u3000"), ("LM0=", "7")],
        [("&#124;",)],
    ]


def test_features_go_to_the_end_of_field_3_and_can_be_removed_again() -> None:
    data = annotated(read_nbest(str(ODD_LIST)), b" LSTM0= -1.5")
    lines = data.split(b"\n")
    for before, line in zip(ODD_LIST.read_bytes().split(b"\n"), lines, strict=True):
        assert remove_features(line, ["LSTM0"]) == before
        assert parse_features(line) == {**parse_features(before), "LSTM0": (-1.5,)}
    assert lines[0].endswith(b" -0.0198 -1.12647 LSTM0= -1.5 ||| -7.07624")
    assert lines[2] == b"1 |||  ||| LexicalReordering0= 0 0 0 LM0= 0 LSTM0= -1.5 ||| 0 ||| ||| "
    assert lines[4].endswith(b" PP0= 3 LSTM0= -1.5  ||| -1. \r")


def test_the_last_newline_or_its_absence_survives(tmp_path: Path) -> None:
    for end in (b"", b"\n"):
        path = write(tmp_path, LINE, LINE, b"1" + LINE[1:], end=end)
        assert annotated(read_nbest(path), b"") == Path(path).read_bytes()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_lists_are_the_same_wherever_blocks_end(size: int) -> None:
    lines = [line + b"\n" for line in [LINE] * 3 + [b"1" + LINE[1:]] * 4 + [b"11" + LINE[1:]] * 2]
    blocks = [b"".join(lines[begin : begin + size]) for begin in range(0, len(lines), size)]
    found = list(parse_nbest(blocks, "nbest"))
    assert [(each.id, each.first_line, each.num_lines) for each in found] == [
        (0, 1, 3), (1, 4, 4), (11, 8, 2)
    ]  # fmt: skip
    assert b"".join(each.raw for each in found) == b"".join(lines)


def test_gzip_and_stdin_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ODD_LIST.read_bytes()
    packed = tmp_path / "nbest.gz"
    packed.write_bytes(gzip.compress(data))
    assert annotated(read_nbest(str(packed)), b"") == data
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert annotated(read_nbest("-"), b"") == data


def test_lists_are_read_one_at_a_time(tmp_path: Path) -> None:
    # The second list is wrong, far enough behind the first that it is in another block.
    path = write(tmp_path, *[LINE] * 10_000, b"nonsense")
    lists = read_nbest(path)
    with pytest.raises(DataError, match=":10001: "):
        list(lists)
    path = write(tmp_path, *[LINE] * 10, *[b"1" + LINE[1:]] * 10_000, b"nonsense")
    assert len(next(read_nbest(path)).raws) == 10


def test_a_real_list_of_moses_survives(shared_data: Path) -> None:
    path = shared_data / "val.1000best.gz"
    lists = list(islice(read_nbest(str(path), ["LSTM0"]), 3))
    assert [(found.id, len(found.raws)) for found in lists] == [(0, 1000), (1, 1000), (2, 1000)]
    with gzip.open(path) as stream:
        assert annotated(iter(lists), b"") == b"".join(islice(stream, 3000))
    # The total is the sum of the features times the weights of moses.tuned.ini: a list's best
    # hypothesis comes first, and 14 values have names.
    assert [len(values) for values in lists[0].features(0).values()] == [6, 1, 1, 1, 1, 4]
    totals = [lists[0].total(place) for place in range(1000)]
    assert totals == sorted(totals, reverse=True)


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-12.345678901, b"-12.34568"),
        (-123456.789, b"-123456.8"),
        (-1.5e-9, b"-1.5e-09"),
        (0.0, b"0"),
        (-0.0, b"0"),
        (3.0, b"3"),
    ],
)
def test_values_have_7_digits(value: float, text: bytes) -> None:
    assert format_value(value) == text
    assert float(text) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_never_written(value: float) -> None:
    with pytest.raises(ModelError, match="finite"):
        format_rows(["LSTM0"], np.array([[value]]), b"= ")


def test_features_and_total_are_read_with_their_numbers() -> None:
    raw = b"7 ||| x ||| A0= 1e-3 -.5 +2. PP_a_b= 4 ||| -3 ||| 0-0\r"
    assert parse_features(raw) == {"A0": (0.001, -0.5, 2.0), "PP_a_b": (4.0,)}
    assert parse_total(raw) == -3.0
    assert parse_total(b"7 ||| x ||| A0= 1 ||| -3\r") == -3.0


def test_a_name_has_no_underscore_for_moses_takes_it_for_sparse() -> None:
    assert FEATURE_NAME.fullmatch("LSTM0")
    assert not any(map(FEATURE_NAME.fullmatch, ["LSTM_0", "0LSTM", "L STM", "é", "", "LSTM="]))


# What is wrong


def line(number: int | str, *, fields: bytes = b"x ||| LM0= -2.5 ||| -3") -> bytes:
    return str(number).encode() + b" ||| " + fields


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(0), b"1 ||| x ||| LM0= 1"], ":2: expected at least 4 fields .* found 3: "),
        ([line(0), b""], ":2: expected at least 4 fields .* found an empty line"),
        ([line(0), line("one")], ":2: expected a sentence number, found 'one'"),
        ([line(0), line("-1")], ":2: expected a sentence number, found '-1'"),
        ([line(3), line(5), line(4)], ":3: expected an id above 5, found 4"),
        ([line(3), line(5), line(3)], ":3: sentence 3 already has a list, in line 1"),
        ([line(0), line(0, fields=b"x ||| LM0= nan ||| 1")], ":2: .* a number, found 'nan'"),
        ([line(0), line(0, fields=b"x ||| LM0= 0,5 ||| 1")], ":2: .* a number, found '0,5'"),
        ([line(0), line(0, fields=b"x ||| LM0= inf ||| 1")], ":2: .* a number, found 'inf'"),
        ([line(0), line(0, fields=b"x ||| LM0= 1_0 ||| 1")], ":2: .* a number, found '1_0'"),
        ([line(0), line(0, fields=b"x ||| LM0= -1e999 ||| 1")], ":2: .* number, found '-1e999'"),
        ([line(0), line(0, fields=b"x ||| LM0= 4e38 ||| 1")], ":2: .* number, found '4e38'"),
        ([line(0), line(0, fields=b"x ||| LM0= 1 ||| 4" + b"0" * 38)], ":2: expected a number"),
        ([line(0), line(0, fields=b"x ||| LM0= 1 ||| none")], ":2: .* a number, found 'none'"),
        ([line(0, fields=b"x ||| LM0= 1 |||  ||| 0-0")], ":1: .* a number, found ''"),
        ([line(0), line(0, fields=b"x ||| LM0= 1 ||| 1.2.3")], ":2: .* number, found '1.2.3'"),
        ([line(0), line(0, fields=b"x ||| LM0= -2.5 |||  ")], ":2: .* a number, found ''"),
        ([line(0), line(0, fields=b"x ||| LM0= ||| 1")], ":2: expected a value after 'LM0='"),
        ([line(0, fields=b"x ||| -2 -3 ||| 1")], ":1: expected the name of a feature, .*labeled"),
        ([line(0, fields=b"x ||| A0= B0= 1 ||| 1")], ":1: expected a value after 'A0='"),
        ([line(0, fields=b"x ||| A0= 1 A0= 1 ||| 1")], ":1: the feature A0 appears twice"),
        ([line(0, fields=b"x ||| = 1 ||| 1")], ":1: expected a value after '='"),
        ([line(0), line(0, fields=b"x ||| LM0= 1 LSTM0= 1 ||| 1")], ":2: .*LSTM0; name"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number(
    tmp_path: Path, lines: list[bytes], message: str
) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(DataError, match=re.escape(path) + message):
        list(read_nbest(path, ["LSTM0"]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (b"x ||| LM0=  B= 2 ||| 1", "expected a value after 'LM0='"),
        (b"x ||| LM0= -1 B= ||| 1", "expected a value after 'B='"),
        (b"x ||| LM0= -1.2.3 B= 2 ||| 1", r"expected a number, found '-1\.2\.3'"),
        (b"x ||| LM0= -1 B= - ||| 1", "expected a number, found '-'"),
        (b"x ||| LM0= -1 B= . ||| 1", r"expected a number, found '\.'"),
        (b"x ||| LM0= -1 B= 2 ||| 1-2", "expected a number, found '1-2'"),
        (b"x ||| LM0= -1 B= 2 ||| 1 2 ||| 0-0", "expected a number, found '1 2'"),
        (b"x ||| LM0= -1 B= " + b"9" * 400 + b" ||| 1", "expected a number, found '999"),
        (b"x ||| LM0= -1 B= 2e-x ||| 1", "expected a number, found '2e-x'"),
        (b"x ||| LM7= -1 LM7= 2 ||| 1", "the feature LM7 appears twice"),
    ],
)
def test_a_bad_number_is_seen_also_after_a_line_with_the_same_letters(
    tmp_path: Path, fields: bytes, message: str
) -> None:
    good = line(0, fields=b"x ||| LM0= -1 B= 2 ||| 1")
    path = write(tmp_path, good, good, line(0, fields=fields), good)
    with pytest.raises(DataError, match=re.escape(path) + ":3: " + message):
        list(read_nbest(path))


def test_lines_may_have_other_features_than_those_before_them(tmp_path: Path) -> None:
    lines = [
        line(0, fields=b"x ||| LM0= -1 B= 2 ||| 1"),
        line(0, fields=b"x ||| LM7= -1 B= 2 ||| 1"),
        line(0, fields=b"x ||| LM0= -1 2 B= 2 ||| 1"),
        line(0, fields=b"x |||  LM0=  7e-1   B= 1E+2  |||  1. \r"),
    ]
    (found,) = read_nbest(write(tmp_path, *lines))
    assert [found.features(place) for place in range(4)] == [
        {"LM0": (-1.0,), "B": (2.0,)},
        {"LM7": (-1.0,), "B": (2.0,)},
        {"LM0": (-1.0, 2.0), "B": (2.0,)},
        {"LM0": (0.7,), "B": (100.0,)},
    ]
    path = write(tmp_path, lines[0], line(0, fields=b"x ||| LM0= 7 e-1 B= 2 ||| 1"))
    with pytest.raises(DataError, match=":2: expected a number, found 'e-1'"):
        list(read_nbest(path))


def test_a_line_may_have_very_many_values(tmp_path: Path) -> None:
    # A pattern with a group for each would take minutes to make.
    values = b" ".join([b"1"] * 100_000)
    many = line(0, fields=b"x ||| LM0= %b ||| 1" % values)
    (found,) = read_nbest(write(tmp_path, many, many))
    assert found.features(1) == {"LM0": (1.0,) * 100_000}
    with pytest.raises(DataError, match=":2: expected a number, found 'x'"):
        list(read_nbest(write(tmp_path, many, many.replace(b"1 1", b"1 x", 1))))


def test_only_lines_unlike_the_first_are_looked_at_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int | None] = []

    def parse(raw: bytes, path: str, number: int | None) -> dict[str, tuple[float, ...]]:
        looked_at.append(number)
        return parse_features(raw, path, number)

    monkeypatch.setattr("moses_integration.nbest_lines.parse_features", parse)
    good = line(0, fields=b"x ||| LM0= -1.25e-05 B_c.d= 2 ||| -1 ||| 0-0")
    other = good.replace(b"LM0", b"LM7")
    assert list(read_nbest(write(tmp_path, good, good, other, good)))
    assert set(looked_at) == {1, 3}


def test_a_new_name_is_seen_also_after_one_with_the_same_letters(tmp_path: Path) -> None:
    first = line(0, fields=b"x ||| LSTM1= 1 ||| 1")
    path = write(tmp_path, first, first, first.replace(b"LSTM1", b"LSTM0"))
    assert len(list(read_nbest(path))) == 1
    with pytest.raises(DataError, match=":3: already has the feature LSTM0"):
        list(read_nbest(path, ["LSTM0"]))


def test_a_hypothesis_may_look_like_the_new_feature(tmp_path: Path) -> None:
    path = write(tmp_path, line(0, fields=b"LSTM0= 1 ||| LM0= 1 ||| 1"))
    assert len(list(read_nbest(path, ["LSTM0"]))) == 1


def test_a_hypothesis_that_is_no_utf8_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, line(0), line(0, fields=b"a \xff ||| LM0= 1 ||| 1"))
    (found,) = read_nbest(path)
    with pytest.raises(DataError, match=":2: expected UTF-8, found byte 0xff at byte 9 of"):
        found.distinct()


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nbest").touch()
    with pytest.raises(DataError, match="nbest: expected an n-best list, found no lines"):
        next(read_nbest(str(tmp_path / "nbest")))


# Sources


JOSHUA = b"0 ||| la maison ||| lm_0=-3.0 tm_pt_0=-1.5 WordPenalty=-0.87 ||| -2.1"
OLD_MOSES = b"0 ||| la maison  ||| d: 0 lm: -3 tm: -1 -2 lm: -4 ||| -2.1 ||| 0-0"


@pytest.mark.parametrize(
    ("raw", "features", "added"),
    [
        (
            JOSHUA,
            {"lm_0": (-3.0,), "tm_pt_0": (-1.5,), "WordPenalty": (-0.87,)},
            JOSHUA.replace(b"-0.87", b"-0.87 EncoderDecoder0=-2.5"),
        ),
        (
            OLD_MOSES,
            {"d": (0.0,), "lm": (-3.0, -4.0), "tm": (-1.0, -2.0)},
            OLD_MOSES.replace(b"lm: -4", b"lm: -4 EncoderDecoder0: -2.5"),
        ),
    ],
    ids=["joshua", "old-moses"],
)
def test_lists_in_other_styles_are_read_and_added_to(
    tmp_path: Path, raw: bytes, features: dict[str, tuple[float, ...]], added: bytes
) -> None:
    path = write(tmp_path, raw, raw)
    (found,) = read_nbest(path)
    assert [found.features(place) for place in range(2)] == [features] * 2
    (text,) = format_rows(["EncoderDecoder0"], np.array([[-2.5]]), found.style)
    assert found.with_features([text] * 2) == b"%b\n%b\n" % (added, added)
    assert remove_features(added, ["EncoderDecoder0"]) == raw
    (again,) = read_nbest(write(tmp_path, added, added))
    assert [again.features(place) for place in range(2)] == [
        features | {"EncoderDecoder0": (-2.5,)}
    ] * 2


def test_lines_of_joshua_are_read_by_one_pattern(tmp_path: Path) -> None:
    (found,) = read_nbest(write(tmp_path, JOSHUA, JOSHUA))
    assert found.is_plain.all()
    assert found.numbers.tolist() == [[-3.0, -1.5, -0.87, -2.1]] * 2


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"0 ||| la ||| -1.5 ||| 0-0", "found '-1.5': write a name before each number"),
        (b"0 ||| la ||| lm=-1.5", "found 3: .*; features 'Name= -1' or the total are missing"),
        (b"0 ||| la ||| lm=-1.5 -2 ||| -1", "expected the name of a feature, as 'LM0=', found '-2"),
        (b"0 ||| la ||| lm=-1,5 ||| -1", "expected a number, found '-1,5'"),
    ],
)
def test_lists_that_are_not_read_are_refused_with_the_cure(
    tmp_path: Path, raw: bytes, problem: str
) -> None:
    with pytest.raises(DataError, match=f"nbest:1: .*{problem}"):
        list(read_nbest(write(tmp_path, raw)))


def test_numbers_are_the_nearest_float64_whatever_their_form(tmp_path: Path) -> None:
    # float() is the reference. Numbers of up to 15 digits are read in compiled code.
    numbers = random.Random(1)
    texts = ["-0", "0.", "000.5", "1e-22", "123456789012345e-22", "1e+5", "-1e-300", "9" * 38]
    for _ in range(3000):
        digits = str(numbers.randrange(10 ** numbers.randrange(1, 18)))
        point = numbers.randrange(len(digits) + 1)
        text = f"{digits[:point] or 0}.{digits[point:]}" if point < len(digits) else digits
        exponent = numbers.choice(["", "", f"e-{numbers.randrange(30):02}", "e+07", "E-3"])
        texts.append(f"{numbers.choice(['', '-'])}{text}{exponent}")
    lines = [f"0 ||| x ||| A= 1 B= {text} 2 ||| {text}".encode() for text in ["3", *texts]]
    (found,) = read_nbest(write(tmp_path, *lines))
    expected = [float(text) for text in ["3", *texts]]
    matrix = feature_matrix(found).columns()["B"]
    assert matrix[:, 0].tolist() == expected
    assert list(map(str, totals(found).tolist())) == list(map(str, expected))  # also -0.0
    assert found.is_plain.all()


def test_one_odd_line_leaves_the_numbers_of_the_others(tmp_path: Path) -> None:
    lines = [f"0 ||| x ||| A= {number} ||| 1".encode() for number in (1, 2, 3)]
    lines[1] += b" ||| 0-0"
    lines[1] = lines[1].replace(b"A= 2", b"B= 1")
    (found,) = read_nbest(write(tmp_path, *lines))
    assert found.is_plain.tolist() == [True, False, True]
    assert feature_matrix(found).columns()["A"].tolist() == [[1], [0], [3]]


def test_equal_hypotheses_have_one_number_in_the_order_of_their_first_lines(tmp_path: Path) -> None:
    texts = [b"b", b"a", b"b", b" a", b"", b"a", b""]
    lines = [b"7 |||" + text + b"||| A= 1 ||| 1" for text in texts]
    (found,) = read_nbest(write(tmp_path, *lines))
    firsts, numbers = found.numbering
    assert (firsts.tolist(), numbers.tolist()) == ([0, 1, 3, 4], [0, 1, 0, 2, 3, 1, 3])


def test_a_first_line_without_features_leaves_the_others_in_their_places(tmp_path: Path) -> None:
    lines = [b"0 ||| a |||  ||| -1", b"0 ||| b ||| ||| -2", b"1 ||| c ||| A= 1 ||| -2"]
    texts = [b" X= 0", b" X= 1", b" X= 2"]
    lists = list(read_nbest(write(tmp_path, *lines)))
    added = b"".join(
        found.with_features(texts[found.first_line - 1 :][: found.num_lines]) for found in lists
    )
    assert added.split(b"\n")[:3] == [
        line[:end] + text + line[end:]
        for line, end, text in zip(lines, (11, 11, 16), texts, strict=True)
    ]


def test_a_list_comes_before_the_next_one_is_checked(tmp_path: Path) -> None:
    lists = read_nbest(write(tmp_path, LINE, b"1 ||| b ||| wrong ||| 1"))
    assert next(lists).id == 0
    with pytest.raises(DataError, match=":2: expected the name of a feature"):
        next(lists)
