"""The table of all benchmarks and the page about them hold what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks import same_bytes, versions
from tests.benchmarks.commands import compare_commands
from tests.benchmarks.page import FIGURES, PAGE, TEMPLATE, write_page
from tests.benchmarks.results import Book, Report, Row
from tests.benchmarks.same_bytes import TODAY, Side, Spelling, modernize, spell, spelling_of
from tests.benchmarks.settings import Settings
from tests.benchmarks.versions import measure_versions

MACHINE = {"cpu": "a CPU", "cores": "2", "vector instructions": "AVX2", "date": "2026-11-26"}


def test_a_part_that_is_measured_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    for seconds in (2.0, 3.0):
        book = Book(path, MACHINE)
        book.add(Report("tuning", "twice", [Row("tune", [seconds], "s")], ["no mert"]), command="x")
    book.add(Report("search", "once", [Row("speed", [4.0, 6.0, 5.0], "/s", 1)]))
    reports = json.loads(path.read_text())["reports"]
    assert [report["part"] for report in reports] == ["tuning", "search"]
    assert reports[0]["figures"]["tune"]["values"] == [3.0]
    table = (tmp_path / "bench.md").read_text()
    assert "- cpu: a CPU\n" in table
    assert "- tuning: no mert\n" in table
    cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    assert ["", "search", "speed", "5.0 (4.0 to 6.0)", "/s", ""] in cells
    with pytest.raises(ValueError, match="the cores was 2, and is 4 now"):
        Book(path, {**MACHINE, "cores": "4"})


def test_a_page_has_the_figures_and_leaves_out_what_was_not_measured() -> None:
    book = Book(None, MACHINE)
    book.add(Report("search", "", [Row("  speed", [4.0, 6.0, 5.0], "/s", 1)], ["No moses"]))
    template = (
        "Speeds\n\n| {{search | speed}} | {{search | speed | -}} |\n| {{search | other}} |\n"
        "- At {{search | speed | -}}\n  per second.\n- At {{search | other}}\n  or more.\n"
        "\n{{left_out}}\n"
    )
    assert write_page(book.content, template) == (
        "Speeds\n\n|5.0 (4.0 to 6.0)|5.0|\n- At 5.0\n  per second.\n\n- No moses.\n"
    )


def test_the_page_in_the_repository_has_the_figures_in_the_repository() -> None:
    content = json.loads(FIGURES.read_text(encoding="utf-8"))
    page = write_page(content, TEMPLATE.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page


def test_commands_take_turns(tmp_path: Path) -> None:
    ours = [sys.executable, "-c", "open('ours', 'a').write('x')"]
    theirs = [sys.executable, "-c", "open('theirs', 'a').write('x')"]
    rows = compare_commands(ours, theirs, tmp_path, 2, names=("one", "other"))
    assert (tmp_path / "ours").read_text() == "xxx"  # one more, to compile
    assert (tmp_path / "theirs").read_text() == "xx"
    values = {row.label: row.values for row in rows}
    walls = zip(values["other: seconds"], values["one: seconds"], strict=True)
    assert values["one: times as fast"] == [b / a for b, a in walls]
    with pytest.raises(RuntimeError, match="no such thing"):
        compare_commands(
            [sys.executable, "-c", "exit('no such thing')"], None, tmp_path, 1, names=("a", "b")
        )


@pytest.mark.slow
def test_versions_are_compared_command_by_command(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = repository / "examples" / "english-french"
    lists = (str(example / "test.20best.gz"), str(example / "test.en"))
    commands = {"version": "--version", "wrong": "--no-such-option"}
    monkeypatch.setattr(versions, "COMMANDS", commands)
    report = measure_versions(
        Settings(old=str(repository), nbest=lists, version_lists=2, repeats=1)
    )
    figures = report.to_dict()["figures"]
    assert figures["version: old / new"]["values"] == [
        figures["version: old"]["median"] / figures["version: new"]["median"]
    ]
    assert report.left_out == ["wrong failed in one of the versions"]


def test_a_row_has_the_median_and_the_range() -> None:
    assert Row("speed", [3.0, 1.0, 2.5], "lines/s", 1).text().endswith(" 2.5 lines/s (1.0 to 3.0)")
    assert Row("size", [4.0], digits=0).text().endswith(" 4")


OLDER = Spelling("old-file", {"rnnsearch": "attention", r"Net(\d)": r"N\1"}, {r"\bN(?=\d)": "Net"})


@pytest.mark.parametrize(
    ("today", "older"),
    [
        ("train rnnsearch a -o b", "train attention a -o b"),
        ("[models.rnnsearch]", "[models.attention]"),
        ("--fix Net0", "--fix N0"),
        ("rnnsearch-small out/rnnsearch myrnnsearch", "rnnsearch-small out/rnnsearch myrnnsearch"),
    ],
)
def test_a_command_is_spelled_in_the_words_of_an_older_version(today: str, older: str) -> None:
    assert spell(today, OLDER) == older
    assert spell(today, TODAY) == today


def test_a_checkout_has_the_words_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_bytes, "SPELLINGS", {"older": OLDER})
    assert spelling_of(tmp_path) is TODAY
    (tmp_path / "old-file").touch()
    assert spelling_of(tmp_path) is OLDER


def test_outputs_of_an_older_version_have_the_names_of_today() -> None:
    outputs = same_bytes.SPELLINGS["0.3"].outputs
    older = Spelling("", {}, outputs)
    line = b"0 ||| le RNN ||| LM0= -1 RNN0= -2 Attention0= -3 CSLM+RNN ||| -6"
    today = b"0 ||| le RNN ||| LM0= -1 EncoderDecoder0= -2 RNNsearch0= -3 CSLM+RNN ||| -6"
    assert modernize(line, older) == today
    assert modernize(b'kind = "attention"', older) == b'kind = "rnnsearch"'
    assert modernize(b"experiment/models/rnn/x", older) == b"experiment/models/encoder-decoder/x"


def test_every_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages that write what they are told, and a name of a feature that was renamed."""
    sides = []
    for name, feature, spelling in (("old", "N0", OLDER), ("new", "Net0", TODAY)):
        package = tmp_path / name / "phrasescore"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "cli.py").write_text(
            f"import sys\nside, feature = {name!r}, {feature!r}\n"
            "def main():\n"
            "    data = {'same': f'{feature}= 1', 'bytes': side, 'words': ' '.join(sys.argv)}\n"
            "    if sys.argv[1] == 'print': return print(side)\n"
            "    if sys.argv[1] == 'nothing': return\n"
            "    if sys.argv[1] == side: sys.exit(3)\n"
            "    if sys.argv[1] == 'one-side': open(side, 'w').close()\n"
            "    open('out', 'w').write(data.get(sys.argv[1], ''))\n"
        )
        folder = tmp_path / f"{name} files"
        folder.mkdir()
        sides.append(Side(tmp_path / name, folder, spelling))
    commands = {name: name for name in ("same", "bytes", "print", "nothing", "one-side", "new")}
    monkeypatch.setattr(same_bytes, "COMMANDS", commands | {"words": "words rnnsearch"})

    def compare(name: str) -> list[str]:
        return list(same_bytes.compare(name, *sides))

    assert compare("same") == []
    assert compare("bytes") == ["bytes: out differs"]
    assert compare("words") == ["words: out differs"]  # attention, rnnsearch
    assert compare("print") == ["print: stdout differs"]
    assert compare("nothing") == ["nothing: no output"]
    assert compare("one-side") == [
        "one-side: only one side has new",
        "one-side: only one side has old",
    ]
    assert compare("new")[0].startswith("new: exit codes [0, 3]")
