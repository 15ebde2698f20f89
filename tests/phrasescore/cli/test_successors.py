"""Each verb, option and value of 0.3 still exists, or names its successor."""

import functools
from pathlib import Path

import click
import pytest

from phrasescore import cli
from phrasescore.cli import main, successors
from tests.command_line import check_refusal, run
from tests.conftest import REPOSITORY

LIST = REPOSITORY / "tests" / "data" / "options-0.3.txt"


def _words_of_0_3() -> list[tuple[str, ...]]:
    """Return each verb, each verb with an option, each verb with an option and its value."""
    words: list[tuple[str, ...]] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        names, _, values = line.partition(" = ")
        verb, *options = names.split()
        words += [(verb,), *((verb, option) for option in options)]
        words += [(verb, options[0], value) for value in values.split()]
    return list(dict.fromkeys(words))


def _exists(verb: str, option: str = "", value: str = "") -> bool:
    command = main.get_command(click.Context(main), verb)
    if command is None or not option:
        return command is not None
    kinds = [param.type for param in command.params if option in param.opts]
    return any(
        not value or not isinstance(kind, click.Choice) or value in kind.choices for kind in kinds
    )


def test_each_word_of_0_3_exists_or_names_its_successor() -> None:
    words = _words_of_0_3()
    assert len(words) > 500
    gone = [each for each in words if not _exists(*each)]
    verbs = {verb for verb, *option in gone if not option}
    options = {each[:2] for each in gone if len(each) == 2}
    # An option of a verb that is gone, or a value of such an option, needs no entry of its own.
    needed = {
        each
        for each in gone
        if each[1:] and each[0] not in verbs and (len(each) == 2 or each[:2] not in options)
    } | {(verb,) for verb in verbs}
    assert needed - successors().keys() == set(), "words without a line in the file"


@pytest.mark.parametrize(("words", "successor"), successors().items())
def test_a_word_that_is_gone_is_refused_with_its_successor(
    words: tuple[str, ...], successor: str
) -> None:
    # Also fails for an entry of a word that exists.
    named = " ".join(words[1:] or words)
    check_refusal(run(*words), f"Error: {named} is gone: {successor}\n", 2)


def test_a_verb_an_option_and_a_value_that_are_gone_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "successors.toml"
    file.write_text(
        'vote = "use rerank"\n[show]\n"--charts" = "use report"\n'
        '"--format csv" = "use --format json"\n'
    )
    monkeypatch.setattr(cli, "_SUCCESSORS", file)
    monkeypatch.setattr(cli, "successors", functools.cache(successors.__wrapped__))
    check_refusal(run("vote", "a", "--votes"), "Error: vote is gone: use rerank\n", 2)
    check_refusal(run("show", "a", "--charts", "b"), "Error: --charts is gone: use report\n", 2)
    problem = "Error: --format csv is gone: use --format json\n"
    check_refusal(run("show", "a", "--format", "csv"), problem, 2)
    check_refusal(run("show", "a", "--format", "tsv"), "'tsv' is not one of", 2)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "generate m a --nbest FILE 9",
            "(9): --nbest takes one word, the file of the lists; th",
        ),
        (
            "rerank a --weights w --nbest -o b",
            "(b): --nbest takes one word, the file of the lists",
        ),
    ],
)
def test_the_lists_of_0_3_are_refused_with_the_cure(words: str, problem: str) -> None:
    check_refusal(run(*words.split()), problem, 2)
