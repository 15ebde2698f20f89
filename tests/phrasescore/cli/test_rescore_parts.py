"""Promises of ``phrasescore rescore --part``: joined parts are the bytes of one run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import phrasescore
from phrasescore.cli import main
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.features import ColumnSpec
from tests.doubles import RandomModel
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists, run

COUNT = 11
FEATURE = ("--feature", "target_length")


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.io.text.BLOCK_SIZE", 512)
    monkeypatch.setattr("phrasescore.workflows.list_rescorer.CHUNK_LISTS", 2)


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path, sentences=COUNT, size=10)


def parts_of(lists: Lists, count: int, *options: object, end: str = "") -> list[Path]:
    parts = []
    for number in range(1, count + 1):
        parts.append(Path(lists.path).parent / f"part{number}{end}")
        result = run(lists, *options, "--part", f"{number}/{count}", "-o", parts[-1])
        assert result.exit_code == 0, result.output
    return parts


@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_joined_parts_are_the_bytes_of_one_run(
    tmp_path: Path, lists: Lists, count: int, end: str
) -> None:
    model = RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)
    options = ("--model", model.path, *FEATURE, "--threads", 1)
    assert run(lists, *options, "-o", tmp_path / f"whole{end}").exit_code == 0
    parts = parts_of(lists, count, *options, end=end)
    sizes = [json.loads(Path(f"{part}.json").read_text())["size"] for part in parts]
    assert sum(sizes) == COUNT
    assert max(sizes) == 2 * -(-6 // count) - (count == 1)
    joined = tmp_path / f"joined{end}"
    result = CliRunner().invoke(main, ["join", *map(str, parts[::-1]), "-o", str(joined)])
    assert result.exit_code == 0, result.output
    assert f"rescore: {count} parts, {COUNT} lists" in result.stderr
    assert joined.read_bytes() == (tmp_path / f"whole{end}").read_bytes()


def test_parts_of_other_lists_or_features_are_refused(tmp_path: Path, lists: Lists) -> None:
    first, _ = parts_of(lists, 2, *FEATURE)
    other = tmp_path / "other"
    run(lists, "--feature", "length_ratio", "--part", "2/2", "-o", other)
    with pytest.raises(PhrasescoreError, match="another feature 1"):
        phrasescore.join([first, other], tmp_path / "out")
    text = Path(lists.source).read_text()
    Path(lists.source).write_text(text.replace("house", "street", 1))
    run(lists, *FEATURE, "--part", "2/2", "-o", other)
    with pytest.raises(PhrasescoreError, match="another input"):
        phrasescore.join([first, other], tmp_path / "out")
    column = [ColumnSpec("feature", "number_mismatch")]
    (tmp_path / "table").write_text("a ||| b ||| 1\n")
    phrasescore.annotate(tmp_path / "table", column, other, part="2/2")
    with pytest.raises(PhrasescoreError, match="another verb"):
        phrasescore.join([first, other], tmp_path / "out")


def test_the_last_part_finds_what_is_missing_at_the_end(tmp_path: Path, lists: Lists) -> None:
    with Path(lists.source).open("a") as source:
        source.write("the house\n")
    column = [ColumnSpec("feature", "target_length")]
    phrasescore.rescore(lists.path, lists.source, column, tmp_path / "one", part="1/2")
    with pytest.raises(DataError, match="the n-best list ends before this sentence"):
        phrasescore.rescore(lists.path, lists.source, column, tmp_path / "two", part="2/2")


@pytest.mark.parametrize("part", ["0/4", "5/4", "a/b", "1/0"])
def test_a_part_is_a_number_of_a_number(tmp_path: Path, lists: Lists, part: str) -> None:
    result = run(lists, *FEATURE, "--part", part, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "--part: expected I/N" in result.stderr


def test_a_part_needs_files_and_writes_no_word_scores(tmp_path: Path, lists: Lists) -> None:
    columns: list[ColumnSpec | str] = ["model", ColumnSpec("feature", "target_length")]
    with pytest.raises(ArgumentError, match="`part` is for one output, and not for `word_scores`"):
        phrasescore.rescore(
            lists.path, lists.source, columns, "out", part="1/2", word_scores=tmp_path / "words"
        )
    for nbest, source in (("-", lists.source), (lists.path, "-")):
        with pytest.raises(ArgumentError, match="`part`: the input is read twice"):
            phrasescore.rescore(nbest, source, columns, tmp_path / "out", part="1/2")
    with pytest.raises(ArgumentError, match="`part` needs `output` FILE"):
        phrasescore.rescore(lists.path, lists.source, columns, "-", part="1/2")
