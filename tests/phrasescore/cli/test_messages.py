"""Colour, and where there is none."""

import logging
from collections.abc import Callable
from typing import TextIO

import click
import pytest

from phrasescore.cli.messages import StderrHandler, print_text, show_error
from tests.terminal import drawn

RED, YELLOW, BOLD, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


def _log(level: int, text: str, **extra: object) -> None:
    record = {"msg": text, "levelno": level, "levelname": logging.getLevelName(level), **extra}
    StderrHandler().emit(logging.makeLogRecord(record))


def _shown(monkeypatch: pytest.MonkeyPatch, stream: str, act: Callable[[], None]) -> str:
    def on_terminal(terminal: TextIO) -> None:
        monkeypatch.setattr(f"sys.{stream}", terminal)
        act()
        terminal.flush()

    return drawn(on_terminal).replace("\r\n", "\n")


def test_warnings_and_errors_have_a_colour_and_the_best_a_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        _log(logging.INFO, "round 1")
        _log(logging.INFO, "round 2", bold=True)
        _log(logging.WARNING, "few sentences")
        _log(logging.ERROR, "lost \x1b[31m")
        show_error(click.UsageError("Error: no\nError: again"))

    assert _shown(monkeypatch, "stderr", act) == (
        "phrasescore: round 1\n"
        f"phrasescore: {BOLD}round 2{PLAIN}\n"
        f"phrasescore: {YELLOW}warning:{PLAIN} few sentences\n"
        f"phrasescore: {RED}error:{PLAIN} lost \\u001b[31m\n"
        f"{RED}Error:{PLAIN} Error: no\nError: again\n"
    )


def test_a_row_of_a_table_is_bold_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        print_text("a 1\nb\x1b 2\n", bold={1})

    assert _shown(monkeypatch, "stdout", act) == f"a 1\n{BOLD}b\\u001b 2{PLAIN}\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_switches_colour_off(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    def act() -> None:
        _log(logging.WARNING, "few")
        _log(logging.INFO, "best", bold=True)
        show_error(click.ClickException("no"))

    monkeypatch.setenv(name, value)
    shown = _shown(monkeypatch, "stderr", act)
    assert shown == "phrasescore: warning: few\nphrasescore: best\nError: no\n"


def test_a_file_gets_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("best", bold={0})
    _log(logging.WARNING, "few")
    show_error(click.ClickException("no"))
    assert capsys.readouterr() == ("best\n", "phrasescore: warning: few\nError: no\n")
