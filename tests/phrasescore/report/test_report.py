"""Promises of phrasescore.make_report: its summary, its files, and the folder that it replaces."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.report import inputs
from phrasescore.settings.evaluation import SECTIONS, SectionName
from tests.log import warnings
from tests.phrasescore.report.report_folder import (
    BASELINE,
    REFERENCE,
    SOURCE,
    Folder,
    block,
    keys,
    left_out,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_report_is_a_page_and_its_data_and_its_summary_tells_of_it(folder: Folder) -> None:
    model = Path(folder.model("rnn"))
    only: list[SectionName] = ["training", "words"]
    made = phrasescore.make_report(Path("out"), models=[model], only=only)
    assert (made.page, made.sections) == ("out/index.html", ("words", "training"))
    out = folder.path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "report.json"]
    found = folder.report()["sections"]
    assert sum(len(section["blocks"]) for section in found) == made.num_blocks
    assert (out / "index.html").stat().st_size == made.size
    assert (out / "index.html").read_text("utf-8").startswith("<!doctype html>")
    blocks, size = made.num_blocks, made.size / 1e6
    expected = f"report: 2 sections, {blocks} tables and figures, {size:.1f} MB: out/index.html"
    assert made.summary() == expected


def test_sections_without_their_inputs_are_told_in_the_summary_and_on_the_page(
    folder: Folder,
) -> None:
    made = folder.summary(models="rnn")
    told = dict(made.left_out)
    assert told["alignments"].startswith("needs --source, --references or --translation")
    assert left_out(folder.report()) == told
    assert {*told, *made.sections} == {*SECTIONS}


def test_the_same_inputs_make_the_same_bytes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(inputs, "POINTS", 9)
    origin = f"phrasescore {phrasescore.__version__}, "
    for _ in range(2):
        folder.make("table", models="rnn")
        texts = [path.read_text("utf-8") for path in sorted((folder.path / "out").iterdir())]
        # The date is the only difference.
        made.append([re.sub(f"{origin}[-0-9: ]+ UTC", "", text) for text in texts])
        assert all(origin not in text for text in made[-1])
    assert made[0] == made[1]
    assert len(block(folder.report(), "scores-1")["x"]) == 9


def test_the_command_is_on_the_page(folder: Folder) -> None:
    folder.make(references=["ref"], translations=[("a", "base")], command="x <y>")
    page = (folder.path / "out" / "index.html").read_text("utf-8")
    assert "<code>x &lt;y&gt;</code>" in page


def test_names_may_have_bytes_that_are_no_text(folder: Folder) -> None:
    folder.write(os.fsdecode(b"b\xff"), BASELINE)
    name, path = os.fsdecode(b"s\xe9"), os.fsdecode(b"b\xff")
    report = folder.make(source="src", references=["ref"], translations=[(name, path)])
    # As JSON writes it.
    assert report["lead"].startswith("s\udce9 has ")
    assert "s\\udce9 has " in (folder.path / "out" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"only": ["weights"]}, "--only: expected one of results, differences, "),
        ({"only": ["groups"]}, "groups needs --translation and --references"),
        (
            {"experiment": "exp", "references": ["ref"]},
            "--experiment cannot be combined with --references and --translation: ",
        ),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    folder: Folder, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        folder.make(models="rnn", **arguments)
    assert problem in str(caught.value)


# The inputs


def test_models_have_the_last_parts_of_their_paths_or_whole_paths_where_these_are_equal(
    folder: Folder,
) -> None:
    for parent in ("one", "two"):
        shutil.copytree(folder.model("rnn"), folder.path / parent / "rnn")
    one, two = (str(folder.path / parent / "rnn") for parent in ("one", "two"))
    report = folder.make(models=one, only=["training"])
    assert report["title"] == "Report on rnn"
    report = folder.make(models=f"{one} {two}", only=["training"])
    assert [row[0] for row in report["sections"][0]["blocks"][-1]["rows"]] == [one, two]


def test_translations_of_another_length_are_warned_of(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("other", "the\nhouse\n\n")
    translations = [("same", "base"), ("other", "other")]
    folder.summary(references=["ref"], translations=translations, only=["results"])
    words, reference_words = 2, len(REFERENCE.split())
    assert 2 * len(BASELINE.split()) > reference_words
    (warning,) = warnings(caplog)
    assert warning.startswith(f"other has {words} words, the references {reference_words}: ")


# The folder


def test_another_folder_is_not_replaced_and_an_older_report_is(folder: Folder) -> None:
    out = folder.path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(PhrasescoreError) as caught:
        folder.make(models="rnn", only=["training"])
    expected = "out: expected an older report or an empty folder, found a folder with other files"
    assert str(caught.value).startswith(expected)
    assert (out / "thesis.tex").read_text() == "years of work"
    shutil.rmtree(out)
    out.mkdir()
    folder.make(models="rnn", only=["training"])
    folder.make(models="rnn", only=["words"])
    assert keys(folder.report()) == ["words"]


@pytest.mark.parametrize("name", ["index.html", "data"])
def test_a_web_site_is_no_older_report(folder: Folder, name: str) -> None:
    (folder.path / "out").mkdir()
    folder.write("out/index.html", "years of work")
    if name != "index.html":
        folder.write("out/report.json", "{}")
        folder.write(f"out/{name}", "years of work")
    with pytest.raises(PhrasescoreError, match="out: expected an older report or an empty folder"):
        folder.make(models="rnn", only=["training"])
    assert (folder.path / "out" / name).read_text() == "years of work"


@pytest.mark.parametrize("name", ["src", "src/out", "/"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_work(folder: Folder, name: str) -> None:
    with pytest.raises(PhrasescoreError) as caught:
        phrasescore.make_report(name, models=["no model"])
    assert str(caught.value).startswith(f"{name}: ")
    assert (folder.path / "src").read_text() == SOURCE
