"""What ``phrasescore report`` refuses, and what it does not replace."""

import os
import shutil

import pytest
from click.testing import CliRunner

from phrasescore.cli import main
from tests.report_folder import SOURCE, Folder, facts, nbest, table_lines

pytestmark = pytest.mark.usefixtures("one_thread")


def refused(folder: Folder, *arguments: object, code: int = 1) -> str:
    """Run the command; return its message. Nothing is written."""
    result = folder.run(*arguments)
    assert result.exit_code == code, result.output
    assert not [path for path in folder.path.iterdir() if path.name.startswith("out")]
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def test_a_table_without_a_model_of_phrases_is_refused(folder: Folder) -> None:
    folder.save("att", "attention")
    expected = "phrase table table: expected a --model of the kind encoder-decoder, found"
    assert refused(folder, "table") == f"{expected} none"
    assert refused(folder, "table", "--model", "att") == f"{expected} att (attention)"


def test_what_was_asked_for_and_cannot_be_is_refused(folder: Folder) -> None:
    folder.save("deep", "lstm")
    texts = ["--source", "src", "--references", "ref"]
    for arguments in (["--sentences", "3"], ["--lines", "3"]):
        message = refused(folder, "--model", "deep", *texts, *arguments)
        assert message == (
            "--sentences and --lines: expected a --model of the kind attention or grconv, found "
            "deep (lstm)"
        )
    message = refused(folder, "--model", "deep", *texts, "--only", "alignments")
    assert message == "alignments: expected a --model of the kind attention, found deep (lstm)"
    message = refused(folder, "--model", "deep", "--only", "sentences", code=2)
    assert message == "sentences needs --source"
    # Before the long work of the others.
    result = folder.run("--model", "deep", "--only", "words", "--only", "parses", quiet=False)
    assert (result.exit_code, "report: words" in result.stderr) == (2, False)
    message = refused(folder, "--model", "deep", "--lines", "3", code=2)
    assert message == "--sentences and --lines are of --source"


def test_nothing_to_show_is_an_error_that_says_what_is_needed(folder: Folder) -> None:
    message = refused(folder)
    assert message.startswith("nothing to report (translations: needs translations (--translation")
    assert "words: needs a --model" in message


def test_a_table_that_lacks_the_score_is_refused_with_the_option(folder: Folder) -> None:
    folder.write("table", "a ||| b ||| 0.5 0.5\n")
    message = refused(folder, "table", "--model", "rnn")
    assert message == (
        "table:1: expected p(target | source) or its reverse as score 3 of a line, found 2 scores "
        "(--table-score N says which one it is)"
    )
    report = folder.made("table", "--model", "rnn", "--table-score", "2")
    assert "no source phrase of 4 words or more" in facts(report)["left out: preferences"]
    assert "no source phrase of 4 words or more" in facts(report)["left out: phrases"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing: cannot open: No such file or directory"),
        (["src"], "src:1: expected a line of a phrase table or of an n-best list, found no two"),
        (["--model", "src"], "src: expected the folder of a trained model, found a file"),
        (["--source", "src", "--references", "one"], "one:1: the file ends with this line"),
        (["--experiment", "src"], "src/table.toml: cannot be read"),
        (["--tuning-report", "src"], "src: expected what tune --report wrote with --format json"),
        (["--tuning-report", "nan"], "nan: expected what tune --report wrote with --format json"),
        (["--tuning-report", "bad"], "bad: expected what tune --report wrote with --format json"),
        (["--tuning-report", "other"], "other: expected a report of tune, found other JSON"),
        (["gap", "--references", "ref"], "gap:1: expected id 0, found 1: a sentence has no"),
        (["lists", "--references", "ref"], "lists:1: the file ends with this line, and ref has 3"),
        (["empty"], "empty: expected a phrase table or an n-best list, found no lines"),
    ],
)  # fmt: skip
def test_a_wrong_input_is_said_in_one_line(
    folder: Folder, arguments: list[str], message: str
) -> None:
    for name, text in (
        ("one", "the house\n"),
        ("nan", '{"features": [NaN]}'),
        ("bad", '{"features": [1], "metric": "BLEU", "start": 1, "reached": 2}'),
        ("other", "{}"),
        ("gap", nbest(("a",)).replace("0 |||", "1 |||")),
        ("lists", nbest(("a",))),
        ("empty", ""),
    ):
        folder.write(name, text)
    assert refused(folder, *arguments).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "table2"], "expected one phrase table, got table and table2"),
        (["--source", "-"], "a report is made from files: '-' is not one"),
        (["pipe"], "a report is made from files: 'pipe' is not one"),
        (["--translation", "base"], "expected NAME=FILE, got 'base'"),
        (["--lines", "0"], "expected numbers of lines, from 1, with commas between them, got '0'"),
        (["--lines", "1", "--sentences", "2"], "--sentences draws lines, and --lines names them"),
        (["--model", "rnn", "--model", "rnn"], "a --model is given twice"),
        (
            ["--translation", "a=ref", "--translation", "a=base", "--references", "ref"],
            "two systems have one name: a, a",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(
    folder: Folder, arguments: list[str], message: str
) -> None:
    folder.write("table2", "".join(table_lines()))
    os.mkfifo(folder.path / "pipe")
    assert message in refused(folder, *arguments, code=2)


def test_a_line_that_is_not_there_is_refused_and_an_empty_one_left_out(folder: Folder) -> None:
    folder.save("att", "attention")
    folder.write("src", "la\n\nla\n")
    arguments = ["--model", "att", "--source", "src", "--references", "ref", "--lines"]
    message = "src: --lines: expected a line of the file, which has 3, got 4"
    assert refused(folder, *arguments, "4") == message
    assert "report: words" not in folder.run(*arguments, "4", quiet=False).stderr
    report = folder.made(*arguments, "2,3")
    problem = "line 2: the sentence is empty, or its translation is"
    assert facts(report)["left out: alignments"] == problem
    assert len(report["sections"][1]["blocks"]) == 1


def test_another_folder_is_not_replaced_and_an_older_report_is(folder: Folder) -> None:
    out = folder.path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    result = folder.run("--model", "rnn", "--only", "training")
    assert result.exit_code == 1
    assert "out: expected an older report or an empty folder, found another folder" in result.stderr
    assert (out / "thesis.tex").read_text() == "years of work"
    shutil.rmtree(out)
    out.mkdir()
    folder.made("--model", "rnn", "--only", "training")
    folder.made("--model", "rnn", "--only", "words")
    assert sorted(path.name for path in (out / "data").iterdir()) == [
        f"words-1-{side}-{how}.tsv" for side in ("source", "target") for how in ("pca", "tsne")
    ]


@pytest.mark.parametrize("name", ["index.html", "data/notes.txt"])
def test_a_web_site_is_no_older_report(folder: Folder, name: str) -> None:
    (folder.path / "out" / "data").mkdir(parents=True)
    folder.write("out/index.html", "years of work")
    if name != "index.html":
        folder.write("out/report.json", "{}")
        folder.write(f"out/{name}", "years of work")
    result = folder.run("--model", "rnn", "--only", "training")
    assert result.exit_code == 1
    assert "out: expected an older report or an empty folder" in result.stderr
    assert (folder.path / "out" / name).read_text() == "years of work"


@pytest.mark.parametrize("option", ["--source", "--references", "--tuning-report"])
def test_a_report_does_not_replace_what_it_is_made_from(folder: Folder, option: str) -> None:
    folder.made("--model", "rnn", "--only", "training")
    folder.write("out/data/mine.tsv", SOURCE)
    result = folder.run("--model", "rnn", option, "out/data/mine.tsv")
    assert result.exit_code == 1
    assert "out: would replace out/data/mine.tsv, which it is made from" in result.stderr
    assert (folder.path / "out" / "data" / "mine.tsv").read_text() == SOURCE


@pytest.mark.parametrize("name", ["src", "nowhere/out", "/"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_work(folder: Folder, name: str) -> None:
    result = CliRunner().invoke(main, ["-q", "report", "--model", "rnn", "-o", name])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {name}: ")
    assert (folder.path / "src").read_text() == SOURCE
