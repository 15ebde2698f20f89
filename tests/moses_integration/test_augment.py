"""New pairs in a sorted phrase table."""

import math
import subprocess
from pathlib import Path

import pytest

from moses_integration.phrase_table import (
    NewPair,
    SourceBlock,
    end_lines,
    is_writable,
    read_phrase_table,
    read_sources,
    with_missing,
    write_block,
)
from phrasescore.errors import DataError

HALF = math.log(0.5)


def blocks_of(path: Path) -> list[SourceBlock]:
    return list(read_sources(str(path), read_phrase_table(str(path))))


def test_the_lines_of_a_source_come_together(tiny_table: Path) -> None:
    first, second = blocks_of(tiny_table)
    assert (first.source, len(first.lines), first.times_extracted) == (("la", "maison"), 3, 4)
    assert (second.source, len(second.lines), second.times_extracted) == (("rue",), 1, 3)
    assert not first.lacks(("the", "home"))
    assert first.lacks(("the", "street"))


def test_new_pairs_stand_where_they_sort(tiny_table: Path) -> None:
    first, second = blocks_of(tiny_table)
    new = [
        NewPair(("the", "house", "there"), (HALF, HALF)),
        NewPair(("a", "house"), (HALF, -200.0)),
        NewPair(("the", "d"), (HALF, HALF)),
    ]
    written = [*write_block(first, new, indicator=False), *write_block(second, [], indicator=False)]
    old = tiny_table.read_bytes().splitlines(keepends=True)
    assert [line for line in written if line in old] == old
    targets = [line.split(b" ||| ")[1] for line in written]
    assert targets == [
        *(b"a house", b"the building", b"the d", b"the home"),
        *(b"the house there", b"the house", b"street"),
    ]
    # As the tool that Moses sorts with would have it: "the house there" before "the house |||".
    sorted_by_tool = subprocess.run(
        ["sort"], input=b"".join(written), capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert sorted_by_tool.stdout == b"".join(written)
    assert written[0] == (
        b"la maison ||| a house ||| 0.5 3.720076e-44 ||| ||| 0 0 0 ||| ||| {{Tree generated}}\n"
    )


def test_the_indicator_is_1_for_old_pairs_and_e_for_new_ones(tiny_table: Path) -> None:
    _, second = blocks_of(tiny_table)
    new = NewPair(("road",), (HALF, HALF))
    assert list(write_block(second, [new], indicator=True)) == [
        b"rue ||| road ||| 0.5 0.5 2.718282 ||| ||| 0 0 0 ||| ||| {{Tree generated}}\n",
        b"rue ||| street ||| 1 0.125 1 ||| 0-0 ||| 3 3 3 ||| |||\n",
    ]


def test_a_new_line_is_a_line_of_a_phrase_table(tiny_table: Path, tmp_path: Path) -> None:
    _, second = blocks_of(tiny_table)
    new = NewPair(("road",), (HALF, -3.0))
    (tmp_path / "table").write_bytes(b"".join(write_block(second, [new], indicator=True)))
    line = next(read_phrase_table(str(tmp_path / "table")))
    assert (line.pair, line.num_scores) == ((("rue",), ("road",)), 3)


def test_a_last_line_without_its_newline_gets_one_only_if_a_line_follows(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"rue ||| street ||| 1 0.5")
    (block,) = blocks_of(path)
    assert list(end_lines(write_block(block, [], indicator=False))) == [path.read_bytes()]
    after = end_lines(write_block(block, [NewPair(("way",), (0.0, 0.0))], indicator=False))
    assert b"".join(after).startswith(b"rue ||| street ||| 1 0.5\nrue ||| way ||| 1 1 |||")


def test_sources_that_the_table_lacks_come_in_their_places(tiny_table: Path) -> None:
    sources = [("rue",), ("zoo",), ("la", "maison", "!"), ("la",), ("zoo",)]
    found = list(with_missing(blocks_of(tiny_table), sources))
    # "la maison ! |||" sorts before "la maison |||", and that before "la |||".
    assert [" ".join(block.source) for block in found] == [
        *("la maison !", "la maison", "la", "rue", "zoo")
    ]
    assert [len(block.lines) for block in found] == [0, 3, 0, 1, 0]


def test_a_table_that_is_not_sorted_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text("b ||| x ||| 1\nb ||| y ||| 1\na ||| x ||| 1\n")
    with pytest.raises(DataError, match=r"table:3: expected a table sorted .*'a' after 'b'"):
        blocks_of(path)


@pytest.mark.parametrize(
    ("target", "good"),
    [("a b", True), ("", False), ("a|b", False), ("a |||", False), ("a\tb", False)],
)
def test_a_target_that_moses_would_read_otherwise_is_none(target: str, good: bool) -> None:
    assert is_writable(tuple(target.split(" ")) if target else ()) is good


def test_the_real_table_counts_as_sorted(shared_data: Path) -> None:
    path = str(shared_data / "phrase-table.gz")
    lines = (line for line in read_phrase_table(path) if line.number <= 100_000)
    previous = b""
    for number, block in enumerate(read_sources(path, lines)):
        assert " ".join(block.source).encode() + b" |||" > previous
        previous = " ".join(block.source).encode() + b" |||"
        if number > 20_000:
            break
