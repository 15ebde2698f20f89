"""Promises of phrasescore.io.text: what is read is what is there, byte for byte."""

import bz2
import gzip
import io
import lzma
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io import text
from phrasescore.io.output import open_output
from phrasescore.io.text import (
    NUMBER,
    check_markup,
    decode,
    open_input,
    read_blocks,
    read_lines,
    shorten,
    split_block,
)
from phrasescore.io.text_table import text_table
from tests.streams import MANY_LINES, Stream

PACKED = gzip.compress(MANY_LINES)


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "compress"),
    [("table", bytes), ("table.gz", gzip.compress), ("gzip-by-content", gzip.compress)],
)
def test_plain_and_compressed_files_read_as_the_same_bytes(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    lines = MANY_LINES[:300_000]
    # Two that follow one another are one.
    content = compress(lines[:100_000]) + compress(lines[100_000:])
    path = written(tmp_path / name, content)
    assert b"".join(read_blocks(path)) == lines
    with open_input(path) as stream:
        assert stream.read() == lines


def test_only_newline_ends_a_line_and_none_is_dropped(tmp_path: Path) -> None:
    content = "a\r\n\n\u0085b\u2028c\x0b\x0c\x1c\u00a0\r\n\nlast".encode()
    expected = [b"a\r", b"", "\u0085b\u2028c\x0b\x0c\x1c\u00a0\r".encode(), b"", b"last"]
    assert list(read_lines(written(tmp_path / "lines", content))) == expected


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\nb", b"\n\n", b"a\n\nb\n"])
def test_blocks_keep_the_last_newline_or_its_absence(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / "lines", content)
    blocks = list(read_blocks(path))
    assert b"".join(blocks) == content
    lines = [line for block in blocks for line in split_block(block)]
    assert b"\n".join(lines) + (b"\n" if content.endswith(b"\n") else b"") == content
    assert list(read_lines(path)) == lines


def test_a_line_longer_than_a_block_is_one_line(tmp_path: Path) -> None:
    long = b"x" * (3 * text.BLOCK_SIZE + 17)
    path = written(tmp_path / "lines", b"first\n" + long + b"\nlast\n")
    assert list(read_lines(path)) == [b"first", long, b"last"]


def test_a_file_without_newlines_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_LINE", 1000)
    path = written(tmp_path / "binary", b"ok\n" + bytes(2 * text.BLOCK_SIZE))
    with pytest.raises(DataError, match=r"binary:2: .*more than 1000 bytes; is it binary"):
        list(read_lines(path))


def test_a_long_text_of_old_macs_is_not_called_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_LINE", 1000)
    path = written(tmp_path / "text", b"la maison\r" * text.BLOCK_SIZE)
    with pytest.raises(DataError, match=r"text:1: .*1000 bytes; does CR alone end its lines\?"):
        list(read_lines(path))


def test_all_members_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    half = MANY_LINES[: len(MANY_LINES) // 2]
    content = gzip.compress(half) + gzip.compress(b"") + gzip.compress(MANY_LINES[len(half) :])
    assert b"".join(read_blocks(written(tmp_path / "x.gz", content))) == MANY_LINES


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("table", bz2.compress(b"a\n"), "found bzip2; .*: bzip2 -dc .*table | phrasescore ... -"),
        ("table", bz2.compress(b""), "found bzip2; "),
        ("table", lzma.compress(b"a\n"), "found xz; .*: xz -dc .*table | phrasescore ... -"),
        ("table.bz2", b"a\n", "found bzip2; "),
        ("table.xz", gzip.compress(b"a\n", mtime=0), "found xz; "),
    ],
)
def test_bzip2_and_xz_are_refused_with_the_cure(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = written(tmp_path / name, content)
    problem = problem.replace("| phrasescore ... -", re.escape("| phrasescore ... -"))
    with pytest.raises(DataError, match=f"{name}: expected plain text or gzip, {problem}"):
        open_input(path)


def test_a_file_is_what_its_name_says(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected gzip data, as the name says, found 'a'"):
        open_input(written(tmp_path / "x.gz", b"a"))


@pytest.mark.parametrize("cut", [3, 12, 5_000, -4, -8, -9])
def test_truncated_gzip_is_a_data_error_naming_the_file(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "cut.gz", PACKED[:cut])
    with pytest.raises(DataError, match=r"cut\.gz.*end too early") as caught:
        list(read_lines(path))
    assert caught.value.path == path


def test_damage_late_in_gzip_names_the_last_line_before_it(tmp_path: Path) -> None:
    path = written(tmp_path / "cut.gz", PACKED[:-9])
    blocks: list[bytes] = []
    with pytest.raises(DataError) as caught:
        blocks.extend(read_blocks(path))
    seen = b"".join(blocks).count(b"\n")
    assert caught.value.line == seen > 100_000
    assert str(caught.value).startswith(f"{path}:{seen}: the gzip data end too early")


@pytest.mark.parametrize(
    ("damage", "problem"), [(b"", "the gzip data end too early"), (b"\xff" * 12, "gzip")]
)
def test_damage_in_the_first_block_names_the_file(
    tmp_path: Path, damage: bytes, problem: str
) -> None:
    packed = gzip.compress(b"".join(b"%d\n" % number**5 for number in range(1000)))
    path = written(tmp_path / "cut.gz", packed[:-12] + damage)
    with pytest.raises(DataError, match=problem) as caught:
        list(read_lines(path))
    assert str(caught.value).startswith(f"{path}:")


def test_a_wrong_checksum_is_a_data_error(tmp_path: Path) -> None:
    content = bytearray(PACKED)
    content[-8] ^= 1  # RFC 1952: the last eight bytes are CRC-32 and length
    with pytest.raises(DataError, match=r"x\.gz.*corrupt gzip"):
        list(read_lines(written(tmp_path / "x.gz", bytes(content))))


def test_damaged_compressed_data_are_a_data_error(tmp_path: Path) -> None:
    content = bytearray(PACKED)
    middle = len(content) // 2
    content[middle : middle + 50] = b"\xff" * 50
    with pytest.raises(DataError, match=r"x\.gz.*gzip"):
        list(read_lines(written(tmp_path / "x.gz", bytes(content))))


@pytest.mark.parametrize(
    ("garbage", "problem"),
    [
        (b"maison ||| house ||| 0.5", "corrupt gzip"),
        (b"short", "the gzip data end too early"),  # could be the head of one more member
    ],
)
def test_garbage_after_a_gzip_member_is_a_data_error(
    tmp_path: Path, garbage: bytes, problem: str
) -> None:
    path = written(tmp_path / "x.gz", PACKED + garbage)
    with pytest.raises(DataError, match=rf"x\.gz(:\d+)?: {problem}"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("content", "found"), [(b"maison ||| house", "'maison |'"), (b"", "an empty file")]
)
def test_a_gz_name_on_other_data_is_a_data_error(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = written(tmp_path / "x.gz", content)
    with pytest.raises(DataError) as caught:
        open_input(path)
    assert str(caught.value) == f"{path}: expected gzip data, as the name says, found {found}"


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_refused_with_the_cure(tmp_path: Path, packed: bool) -> None:
    content = b"\xef\xbb\xbfla maison\n"
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(content) if packed else content)
    problem = f"{path}:1: expected text, found a byte order mark before it: save the file as UTF-8"
    with pytest.raises(DataError, match=re.escape(problem)):
        list(read_lines(str(path)))
    with pytest.raises(DataError, match=re.escape(problem)), open_input(str(path)) as stream:
        stream.read()
    # Further on it is a character like others.
    path.write_bytes(b"la\n" + content)
    assert list(read_lines(str(path))) == [b"la", content[:-1]]


def test_a_missing_file_and_a_folder_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot open: No such file"):
        open_input(str(tmp_path / "none"))
    with pytest.raises(DataError, match="cannot open: Is a directory"):
        open_input(str(tmp_path))


@pytest.mark.parametrize("content", [MANY_LINES, PACKED], ids=["plain", "gzip"])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_dash_reads_stdin_plain_or_gzip(
    content: bytes, buffered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO(content)
    monkeypatch.setattr(sys, "stdin", Stream(io.BufferedReader(raw) if buffered else raw))
    assert b"".join(read_blocks("-")) == MANY_LINES


def test_an_error_in_stdin_is_called_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stream(io.BytesIO(gzip.compress(b"a\n")[:-5])))
    with pytest.raises(DataError, match=r"^<stdin>: the gzip data end too early"):
        list(read_lines("-"))


def test_a_stdin_or_stdout_that_was_closed_before_the_start_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What Python makes of "<&-" and ">&-".
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"^<stdin>: cannot open: .* without a stdin$"):
        open_input("-")
    monkeypatch.setattr(sys, "stdout", None)
    with (
        pytest.raises(PhrasescoreError, match=r"^<stdout>: .* without a stdout$"),
        open_output("-"),
    ):
        pass


def test_files_are_closed_when_reading_stops_early(tmp_path: Path) -> None:
    # A file left open is a ResourceWarning, and pytest makes warnings errors.
    lines = read_lines(written(tmp_path / "x.gz", PACKED))
    assert next(lines) == b"0 0"
    assert isinstance(lines, Iterator)
    del lines


def test_a_number_is_found_in_one_pass() -> None:
    number = re.compile(NUMBER)
    for shown in ("1", "-1.", "+.5", "0.5e-7", "1E+2"):
        assert number.fullmatch(shown)
    for shown in ("", ".", "1e", "e1", "--1", "1.2.3", "1_0", "inf"):
        assert number.fullmatch(shown) is None
    # If the digits could be parted anywhere, this would take hours.
    assert number.fullmatch("1" * 1_000_000 + "x") is None


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"caf\xe9", "byte 0xe9 at byte 4"),
        (b"a\xed\xa0\x80", "byte 0xed at byte 2"),  # a surrogate is not UTF-8
        (b"\xc0\xaf", "byte 0xc0 at byte 1"),  # nor is an overlong slash
    ],
)
def test_bytes_that_are_not_utf8_are_a_data_error(raw: bytes, place: str) -> None:
    with pytest.raises(DataError) as caught:
        decode("table", 7, raw)
    assert str(caught.value) == f"table:7: expected UTF-8, found {place} of the line"


def test_utf8_is_decoded_as_it_is() -> None:
    assert decode("table", 1, "na\u00efve \u2028\u0085".encode()) == "na\u00efve \u2028\u0085"


@pytest.mark.parametrize("content", ["x" * 1000, "\x00" * 1000, "\u2028" * 59])
def test_shown_text_is_at_most_60_characters(content: str) -> None:
    assert len(shorten(content)) == 60
    assert shorten(content).endswith("...")


@pytest.mark.parametrize(
    ("line", "tag"),
    [
        ('the <np translation="chien">dog</np> .', '<np translation="chien">'),
        ('a <n translation="a < b || c" prob="0.8||0.2">x</n>', "<n translation="),
        ('a <dlt type="adaptive-lm" id="default"/> b', "<dlt type="),
        ("a <wall/> b", "<wall/>"),
        ("<zone> a b </zone> c", "<zone>"),
        ("a<b>c</b>", "<b>"),
        ('a {{np translation="chien"}}dog{{/np}} b', '{{np translation="chien"}}'),
    ],
)
def test_markup_of_moses_is_refused(line: str, tag: str) -> None:
    problem = re.escape("text:3: expected words, found markup: '" + tag)
    with pytest.raises(DataError, match=problem):
        check_markup("text", 3, line)


@pytest.mark.parametrize(
    "line",
    [
        "a < b and c > d",
        "a <b and c> d",
        "<unk> <num> costs <num> at <url>",
        "<s> the house </s>",
        "&lt;b&gt; x &lt;/b&gt;",
        "i <3 you </3",
        "a </np> b",
        '{{zone}} a "b" {{/zone}}',
    ],
)
def test_words_with_brackets_are_words(line: str) -> None:
    check_markup("text", 3, line)


def test_markup_is_looked_for_in_time_in_proportion() -> None:
    for line in ("<num> " * 100_000, '<a "' * 100_000, "<a b" * 100_000, "<a " + '"' * 100_000):
        check_markup("text", 1, line)


def test_cells_are_printed_as_they_are_though_they_look_like_numbers() -> None:
    rows = [["a", "007", "1.50"], ["bcd", "1e5", ""]]
    assert text_table(rows, "lr") == ["a    007  1.50", "bcd  1e5"]
    assert text_table(rows, "rl", indent="  ") == ["    a  007  1.50", "  bcd  1e5"]
