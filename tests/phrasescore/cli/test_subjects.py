"""Help by subject, and what shells complete."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from phrasescore.cli import VERBS, main, options
from phrasescore.cli.options import SUBJECTS, SubjectOption, Verb, heading, option
from tests.command_line import run

SECTION = re.compile(r"^(\w.*):$", re.MULTILINE)


def _verb(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", VERBS)
def test_each_option_has_a_subject_and_stands_once_in_the_help(name: str) -> None:
    command = _verb(name)
    shown = run(name, "--help-all").stdout
    assert " RANGE " not in shown  # click's name of a type
    sections = dict(zip(SECTION.findall(shown), SECTION.split(shown)[2::2], strict=True))
    assert list(sections) == [each for each in (*SUBJECTS, "Example") if each in sections]
    for param in command.params:
        if isinstance(param, click.Option):
            assert isinstance(param, SubjectOption), param.opts
            assert param.subject is not None, param.opts
            record = param.get_help_record(click.Context(command))
            assert record is not None
            starts = re.compile(rf"^  {re.escape(record[0])}(\s|$)", re.MULTILINE)
            found = {at for at, text in sections.items() if starts.search(text)}
            assert found == {param.subject}, param.opts


@pytest.mark.parametrize(
    ("flag", "subject"),
    [
        ("--output", "Output"),
        ("--resume", "Long runs"),
        ("--precision", "Devices and speed"),
        ("--device", "Devices and speed"),
        ("--threads", "Devices and speed"),
        ("--engine", "Devices and speed"),
        ("--feature", "Networks and features"),
        ("--quiet", "Messages and help"),
    ],
)
def test_an_option_of_several_verbs_has_one_subject(flag: str, subject: str) -> None:
    found = {
        name: param.subject
        for name in VERBS
        for param in _verb(name).params
        if isinstance(param, SubjectOption) and flag in param.opts
    }
    # They are options of a part of these verbs, which has a subject of its own.
    others = {"--feature": "train"}
    found.pop(others.get(flag, ""), None)
    assert len(found) >= 2
    assert {*found.values()} == {subject}


def test_a_heading_is_of_the_options_below_it_up_to_the_next() -> None:
    @click.command(cls=Verb)
    @click.argument("file")
    @heading("Devices and speed")
    @click.option("--threads", cls=SubjectOption)
    @heading("Input")
    @click.option("--source", cls=SubjectOption)
    @click.option("--hidden", cls=SubjectOption, hidden=True)
    def verb() -> None:
        """Do."""

    assert CliRunner().invoke(verb, ["--help"]).stdout == (
        "Usage: verb [OPTIONS] FILE\n\n  Do.\n\n"
        "Input:\n  --source TEXT\n\n"
        "Devices and speed:\n  --threads TEXT\n\n"
        "Messages and help:\n  --help  Show this message and exit.\n"
    )


def test_a_default_and_long_choices_are_plain_words() -> None:
    @click.command(cls=Verb, example="verb --size 2")
    @option("--size", "Size.", type=click.IntRange(min=1, max=9), default=2)
    @option("--share", "Share.", type=click.FloatRange(0, 1, min_open=True), show_default="half")
    @option("--kind", "The kind.", type=click.Choice(["a" * 20, "b" * 20, "c" * 20]))
    @options.output
    @heading("Output")
    @option("--report", "A report.")
    def verb() -> None:
        """Do."""

    shown = CliRunner().invoke(verb, ["--help"]).stdout
    assert "--size INTEGER RANGE  Size.  [default: 2]\n" in shown
    assert "[default: half]\n" in shown
    assert f"--kind NAME           The kind. NAME is {'a' * 20}," in shown
    assert shown.index("--output") < shown.index("--report")
    assert shown.endswith("\nExample:\n  phrasescore verb --size 2\n")


@pytest.mark.parametrize("name", VERBS)
def test_the_help_has_what_most_people_need_in_40_lines(name: str) -> None:
    command = _verb(name)
    assert isinstance(command, Verb)
    shown = CliRunner().invoke(main, [name, "--help"], terminal_width=80).stdout
    assert len(shown.splitlines()) <= 40
    flags = {flag: param for param in command.params for flag in param.opts}
    assert [flag for flag in command.main_options if flag not in flags] == []
    required = [param for param in command.params if param.required and param.opts[0][0] == "-"]
    if command.main_options:
        assert [
            param.opts for param in required if not {*param.opts} & {*command.main_options}
        ] == []
        assert re.search("^  --help-all +Show all", shown, re.MULTILINE)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_of_the_help_is_cut_or_wrapped(columns: int) -> None:
    for name in ("", *VERBS):
        for flag in ("--help", "--help-all") if name else ("--help",):
            words = [*filter(None, [name]), flag]
            shown = CliRunner().invoke(main, words, terminal_width=columns - 2).stdout
            assert max(map(len, shown.splitlines())) < columns, name


def test_the_list_of_verbs_has_all_of_them_with_whole_descriptions() -> None:
    shown = run("--help").stdout
    for name in VERBS:
        short = _verb(name).short_help
        assert short
        assert len(short) <= 60
        assert re.search(rf"^  {name} +{re.escape(short)}$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_each_verb_is_a_command_that_its_parser_takes(name: str) -> None:
    shown = run(name, "--help").stdout.rpartition("\nExample:\n")[2]
    program, verb, *words = shlex.split(shown.replace("\\\n", " "))
    assert (program, verb) == ("phrasescore", name)
    command = _verb(name)
    assert isinstance(command, Verb)
    assert shlex.split(command.example) == [verb, *words]
    # Parses the words and converts the values; a required or unknown option is an error.
    command.make_context(name, words)


@pytest.mark.parametrize(
    ("words", "incomplete", "completed"),
    [
        ([], "re", ["report", "rerank", "rescore"]),
        (["tune"], "--decoder", ["--decoder", "--decoder-flags"]),
        (["train"], "c", ["cslm"]),
        (["train", "cslm", "--preset"], "cslm", ["cslm-small"]),
        (["rescore", "--precision"], "b", ["bfloat16"]),
    ],
)
def test_verbs_options_and_values_are_completed(
    words: list[str], incomplete: str, completed: list[str]
) -> None:
    completer = BashComplete(main, {}, "phrasescore", "_PHRASESCORE_COMPLETE")
    found = completer.get_completions(words, incomplete)
    assert [(item.type, item.value) for item in found] == [("plain", each) for each in completed]


@pytest.mark.parametrize(
    "words", [["annotate"], ["annotate", "table", "--model"], ["train", "lstm", "a"]]
)
def test_files_are_left_to_the_shell(words: list[str]) -> None:
    completer = BashComplete(main, {}, "phrasescore", "_PHRASESCORE_COMPLETE")
    found = completer.get_completions(words, "da")
    assert [(item.type, item.value) for item in found] == [("file", "da")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_page_tells_how_to_switch_completion_on(repository: Path, shell: str) -> None:
    page = (repository / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"_PHRASESCORE_COMPLETE={shell}_source phrasescore" in page
    environment = {"_PHRASESCORE_COMPLETE": f"{shell}_source"}
    shown = CliRunner().invoke(main, env=environment, prog_name="phrasescore")
    assert (shown.exit_code, f"_PHRASESCORE_COMPLETE={shell}_complete" in shown.stdout) == (0, True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_verb(tmp_path: Path) -> None:
    command = tmp_path / "phrasescore"
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys\nfrom phrasescore.cli import main\n"
        'main(prog_name="phrasescore")\' "$@"\n'
    )
    command.chmod(0o755)
    script = (
        'eval "$(_PHRASESCORE_COMPLETE=bash_source phrasescore)"\n'
        "COMP_WORDS=(phrasescore annot) COMP_CWORD=1\n"
        "_phrasescore_completion phrasescore annot phrasescore\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("annotate\n", "")
