"""Each command in README and in docs/ is read by the parser of the command line."""

import re
import shlex
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
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            prompt, _, typed = line.lstrip().partition(" ")
            if language in ("bash", "sh") and "phrasescore" in line:
                yield from _calls(line)
            elif language == "console" and prompt == "$" and "phrasescore" in typed:
                yield from _calls(typed)


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
        "```bash\nphrasescore show a | phrasescore generate m t --beam 0\n```",
    ],
)
def test_a_wrong_command_in_the_docs_is_found(block: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        for words in _typed_commands(block):
            _check_command(words)
