"""Colour, and where there is none."""

import logging
from collections.abc import Callable
from typing import TextIO

import pytest

from phrasescore.cli.messages import StderrHandler, print_text
from tests.terminal import drawn

RED, YELLOW, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


def _log(level: int, text: str) -> None:
    record = {"msg": text, "levelno": level, "levelname": logging.getLevelName(level)}
    StderrHandler().emit(logging.makeLogRecord(record))


def _shown(monkeypatch: pytest.MonkeyPatch, stream: str, act: Callable[[], None]) -> str:
    def on_terminal(terminal: TextIO) -> None:
        monkeypatch.setattr(f"sys.{stream}", terminal)
        act()
        terminal.flush()

    return drawn(on_terminal).replace("\r\n", "\n")


def test_warnings_and_errors_have_a_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        _log(logging.INFO, "round 1")
        _log(logging.WARNING, "few sentences")
        _log(logging.ERROR, "lost \x1b[31m")

    assert _shown(monkeypatch, "stderr", act) == (
        "phrasescore: round 1\n"
        f"phrasescore: {YELLOW}warning:{PLAIN} few sentences\n"
        f"phrasescore: {RED}error:{PLAIN} lost \\u001b[31m\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_switches_colour_off(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    def act() -> None:
        _log(logging.WARNING, "few")

    monkeypatch.setenv(name, value)
    shown = _shown(monkeypatch, "stderr", act)
    assert shown == "phrasescore: warning: few\n"


def test_a_file_gets_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("b\x1b 2\n")
    _log(logging.WARNING, "few")
    assert capsys.readouterr() == ("b\\u001b 2\n", "phrasescore: warning: few\n")
