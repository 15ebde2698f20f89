"""Tests of options that are made from settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import Meta

from phrasescore.cli import VERBS, main, options
from phrasescore.cli.options import SUBJECTS, SubjectOption
from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class Oven(Settings, heading="Search"):
    """Settings of every kind of option."""

    heat: Annotated[int, Meta(ge=20, le=250)] = option(180, "Degrees.")
    names: Sequence[str] = option((), "What is in it.", flags="--name -n")
    light: bool = option(True, "Leave the light off.", flags="--no-light")
    fan: bool = option(False, "Use the fan.")


def run(*arguments: str, **changes: Any) -> tuple[Result, list[Oven]]:
    made = []

    @click.command()
    @options.of(Oven, **changes)
    def bake(**given: Any) -> None:
        made.append(Oven(**given))

    return CliRunner().invoke(bake, arguments), made


def test_a_command_without_options_has_the_defaults() -> None:
    assert run()[1] == [Oven()]


def test_values_of_options_become_settings() -> None:
    _, made = run("--heat", "200", "-n", "bread", "--name", "pie", "--no-light", "--fan")
    assert [list(each.names) for each in made] == [["bread", "pie"]]
    assert [(each.heat, each.light, each.fan) for each in made] == [(200, False, True)]


def test_a_range_and_a_default_are_in_the_help_and_checked() -> None:
    assert "--heat N" in run("--help")[0].output
    assert "[default: 180; from 20 to 250]" in run("--help")[0].output
    result, made = run("--heat", "300")
    assert made == []
    assert str(result.exception) == "--heat: expected a number from 20 to 250, got 300"


def test_some_fields_have_no_option_and_keep_their_defaults() -> None:
    assert run("--heat", "99", only=["heat"])[1] == [Oven(heat=99)]
    result, _ = run("--fan", without=["fan"])
    assert "No such option" in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_stands_under_a_heading_and_is_described(verb: str) -> None:
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    for param in command.params:
        if isinstance(param, SubjectOption):
            assert param.subject in SUBJECTS, param.name
            assert param.help, param.name
