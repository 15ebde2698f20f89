"""``phrasescore report`` as a user meets it: its options, messages and exit codes."""

import sys

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from tests.command_line import succeeded
from tests.phrasescore.report.report_folder import SOURCE, Folder, block, keys, left_out

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["--source", "src", "--references", "ref"]


def run(folder: Folder, *arguments: str, models: str = "", quiet: bool = True) -> Result:
    for name in models.split():
        arguments = (*arguments, "--model", folder.model(name))
    words = ["report", *arguments, "-o", "out"]
    return CliRunner().invoke(main, ["-q", *words] if quiet else words)


def refused(folder: Folder, *arguments: str, models: str = "", code: int = 1) -> str:
    """Run the command; return its message. Nothing is written."""
    result = run(folder, *arguments, models=models)
    assert result.exit_code == code, result.output
    assert not [path for path in folder.path.iterdir() if path.name.startswith("out")]
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def test_all_options_reach_the_report_and_stderr_says_what_was_made(folder: Folder) -> None:
    inputs = ["table", *TEXTS, "--references", "ref", "--translation", "a=b=base"]
    folder.write("b=base", "x\ny\nz\n")
    only = ["--only", "parses", "--only", "scores", "--only", "results"]
    others = ["--device", "cpu", "--threads", "1"]
    result = run(folder, *inputs, *only, *others, models="rnn gr", quiet=False)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    last = result.stderr.splitlines()[-1]
    assert last.startswith("phrasescore: report: 3 sections, ")
    assert last.endswith(" MB: out/index.html")
    report = folder.report()
    assert keys(report) == ["results", "scores", "parses"]
    assert report["command"].startswith("phrasescore")
    assert block(report, "results")["rows"][0][0] == "a"
    _, scores, parses = report["sections"]
    assert [found["name"] for found in parses["blocks"]] == [
        f"parse-1-{number}" for number in (1, 2, 3)
    ]
    assert len(scores["blocks"][0]["x"]) == 36
    assert scores["blocks"][0]["x_label"] == "ln p of the table (score 3)"


def test_a_section_that_is_left_out_is_warned_of_and_no_failure(folder: Folder) -> None:
    result = succeeded(run(folder, "table", models="reverse-rnn"))
    problem = "needs a model of p(target | source), but every --model is a reverse model"
    assert result.stderr.splitlines()[0] == f"phrasescore: warning: preferences: {problem}"


# What is refused


def test_a_table_without_a_model_of_phrases_is_refused(folder: Folder) -> None:
    message = refused(folder, "table")
    assert "preferences: needs a --model of the kind encoder-decoder" in message


def test_what_was_asked_for_and_cannot_be_is_refused(folder: Folder) -> None:
    message = refused(folder, *TEXTS, "--only", "alignments", models="deep", code=2)
    assert message == "alignments needs a --model of the kind rnnsearch or transformer"
    message = refused(folder, "--only", "sentences", models="deep", code=2)
    assert message == "sentences needs --source"
    # Before the long work of the others.
    result = run(folder, "--only", "words", "--only", "parses", models="deep", quiet=False)
    assert (result.exit_code, "report: words" in result.stderr) == (2, False)


def test_nothing_to_show_is_an_error_that_says_what_is_needed(folder: Folder) -> None:
    message = refused(folder)
    assert message.startswith("nothing to report (results: needs --translation and --references")
    assert "words: needs a --model" in message
    message = refused(folder, "--source", "src", "--only", "parses", models="reverse-gr")
    expected = "parses: reverse-gr reads the target side: needs --references"
    assert message == f"nothing to report ({expected})"


def test_a_table_that_is_missing_or_lacks_the_score_is_refused(folder: Folder) -> None:
    problem = "missing: cannot open: No such file or directory"
    assert refused(folder, "missing", models="rnn") == problem
    folder.write("table", "a ||| b ||| 0.5 0.5\n")
    message = refused(folder, "table", models="rnn")
    assert message == (
        "table:1: expected p(target | source) or its reverse as score 3 of a line, found 2 scores"
    )


def test_a_table_without_long_phrases_lacks_their_sections(folder: Folder) -> None:
    folder.write("table", "a ||| b ||| 0.5 0.5 0.5 0.5\n")
    assert run(folder, "table", models="rnn").exit_code == 0
    told = left_out(folder.report())
    assert "no source phrase with 4 words or more" in told["preferences"]
    assert "no source phrase with 4 words or more" in told["phrases"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--source missing", "missing: cannot open: No such file or directory"),
        ("--model src", "src: expected the folder of a trained model, found a file"),
        ("--source src --references one", "one:1: the text ends with this line"),
        ("--experiment src", "src/table.toml: cannot be read"),
    ],
)  # fmt: skip
def test_a_wrong_input_is_said_in_one_line(folder: Folder, arguments: str, message: str) -> None:
    folder.write("one", "the house\n")
    assert refused(folder, *arguments.split()).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--translation base", "expected NAME=FILE, got 'base'"),
        ("--lines 1", "--lines is gone: give a --source that has only these lines"),
        (
            "--translation a=ref --translation a=base --references ref",
            "expected systems with different names, got a, a",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(folder: Folder, arguments: str, message: str) -> None:
    assert message in refused(folder, *arguments.split(), code=2)


@pytest.mark.parametrize("module", ["matplotlib", "sklearn"])
def test_a_missing_extra_is_named_before_the_work(
    folder: Folder, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = refused(folder, "--only", "words", models="rnn", code=2)
    assert message == "words needs pip install 'phrasescore[report]'"


def test_an_input_is_not_replaced(folder: Folder) -> None:
    result = CliRunner().invoke(main, ["-q", "report", "--model", folder.model("rnn"), "-o", "src"])
    assert result.exit_code == 1
    message = "src: expected a folder for the report, found a file or a link"
    assert result.stderr == f"Error: {message}\n"
    assert (folder.path / "src").read_text() == SOURCE
