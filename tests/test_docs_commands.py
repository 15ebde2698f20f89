"""Each command in README and docs/ is accepted. The commands of the tutorials run as written."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from phrasescore.cli import VERBS, main

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_command_in_the_docs_can_be_typed(path: Path) -> None:
    for words in _typed_commands(path.read_text(encoding="utf-8")):
        _check_command(words)


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_option_of_a_command_in_a_sentence_is_there(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    unknown = []
    for code in re.findall(r"`([^`]+)`", text):
        verb, _, rest = code.removeprefix("phrasescore ").partition(" ")
        if verb in VERBS:
            flags = re.findall(r"(?<!\S)--[a-z][\w-]*", re.sub(r'"[^"]*"', "", rest))
            known = {flag for param in _command(verb).params for flag in param.opts}
            known |= {flag for param in _command(verb).params for flag in param.secondary_opts}
            unknown += [f"{verb} {flag}" for flag in flags if flag not in known]
    assert unknown == []


def _typed_commands(text: str) -> Iterator[list[str]]:
    blocks = re.findall(r"^```(?:bash|sh)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for command in [*blocks, *(typed for typed, _ in _console(text))]:
        for line in command.replace("\\\n", " ").splitlines():
            if "phrasescore" in line:
                yield from _calls(line)


def _console(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command after a prompt, as long as bash finds it, and its output."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = typed.splitlines(keepends=True)
            size = 1
            while size < len(lines) and _is_unfinished("".join(lines[:size])):
                size += 1
            yield "".join(lines[:size]), "".join(lines[size:])


def _is_unfinished(command: str) -> bool:
    check = ["bash", "-nc", command]
    return command.endswith("\\\n") or subprocess.run(check, stderr=-3).returncode != 0


def _calls(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words = list(lexer)
    for place, word in enumerate(words):
        if word == "phrasescore" and words[0] not in ("cd", "git"):
            rest = words[place + 1 :]
            ends = [end for end, each in enumerate(rest) if set(each) <= set("|;&<>")]
            yield rest[: ends[0]] if ends else rest
        elif word.startswith("phrasescore "):
            yield from _calls(word)


def _check_command(words: list[str]) -> None:
    """Check that the command line takes these words, and the values that are no files."""
    if words[0] in ("--help", "--version"):
        return
    command = _command(words[0])
    context = click.Context(command, info_name=words[0])
    given, _, _ = command.make_parser(context).parse_args(words[1:])  # refuses other options
    required = {param.name for param in command.params if param.required}
    assert required <= {name for name, value in given.items() if value is not None}, words
    for param in command.params:
        value = given.get(param.name or "")
        if value and isinstance(param.type, click.Choice | click.IntRange | click.FloatRange):
            param.type_cast_value(context, value)


def _command(verb: str) -> click.Command:
    command = main.get_command(click.Context(main), verb)
    assert command is not None, f"no verb {verb}"
    return command


@pytest.mark.parametrize(
    "block",
    [
        "```console\n$ phrasescore rerank lists --weight w\n```",  # --weights
        "```console\n$ cat x | phrasescore rescore - -o out\n```",  # no --source
        "```bash\nqsub -b y 'phrasescore joined a b -o out'\n```",  # no such verb
        "```console\n$ phrasescore tune x --method mart -o w\n```",
        "```bash\nphrasescore show a | phrasescore generate m t --bean 5\n```",
    ],
)
def test_a_wrong_command_in_the_docs_is_found(block: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        for words in _typed_commands(block):
            _check_command(words)


# A project whose example is shortened, with tables of the shorter text; and an empty folder.
PROJECT = r"""
set -e; trap 'kill $(jobs -p) || true' EXIT
export PHRASESCORE=$PWD/project PATH=$PWD/project:$PATH
mkdir -p project/examples/english-french page
printf '#!/bin/sh\nexec "$PYTHON" -m phrasescore "$@"\n' > project/phrasescore
chmod +x project/phrasescore
cd project/examples/english-french
cp "$PYTHONPATH"/examples/english-french/{moses.ini,lm.*,train.*,dev.??,heldout.??} .
gunzip train.*; sed -i '2401,$d' train.*; sed -i '61,$d' dev.* heldout.*; gzip train.*
phrasescore build train.en.gz train.fr.gz --alignments train.align.gz -o model
mv model/*-table* . && cd ../../../page
"""
# What is changed in the commands: there is little training, and the port is a free one.
QUICK = [
    (r"(^phrasescore train [^$]*?)--minutes \d+", r"\1--minutes 0.05"),
    (r"(^phrasescore init [^$]*?)--minutes \d+", r"\1--minutes 2"),
    (r"^(phrasescore experiment (\S+))", r"sed -i 's/^minutes = .*/updates = 20/' \2; \1"),
    (r"^phrasescore serve", r"\g<0> --port $PORT"),
    (r"localhost:8080", "localhost:$PORT"),
]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial.md", "how-to/moses-system.md", "how-to/spelling.md"])
def test_a_tutorial_runs_as_written(page: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    steps = list(_console((REPOSITORY / "docs" / page).read_text(encoding="utf-8")))
    with socket.create_server(("127.0.0.1", 0)) as server:
        env["PORT"] = str(server.getsockname()[1])
    script = "".join(command for command, _ in steps)
    for old, new in QUICK:
        script = re.sub(old, new, script, flags=re.MULTILINE)
    typed = ["bash", "-c", PROJECT + script]
    done = subprocess.run(typed, cwd=tmp_path, env=env, text=True, stdout=-1, stderr=-2)
    assert done.returncode == 0, done.stdout
    # The page shows the messages of the run. Only their numbers may differ.
    texts = done.stdout, "".join(output for _, output in steps)
    said, shown = (re.sub(r"\d[\d,.]*", "0", text) for text in texts)
    assert [each for each in re.findall("^phrasescore: .*", shown, re.M) if each not in said] == []
