"""Progress as it is shown, with a clock and a terminal that the test holds in its hands."""

import io
import logging

import pytest

from phrasescore.cli.progress import ProgressDisplay
from phrasescore.progress import Meter, Progress


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_a_line_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    seconds = []
    show(Progress("annotate", "lines", 0))
    for turn in range(1, 251):
        clock.now += 1
        before = len(caplog.messages)
        show(Progress("annotate", "lines", 10 * turn))
        if len(caplog.messages) > before:
            seconds.append(clock.now - 100)
    show(Progress("annotate", "lines", 2500, finished=True))
    assert seconds == [10, 30, 60, 120, 180, 240]
    assert caplog.messages[0] == "annotate: 100 lines, 10 lines/s"
    assert caplog.messages[-1] == "annotate: 2,500 lines in 250.0 s (10 lines/s)"


def test_a_known_total_gives_the_share_and_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    show(Progress("train", "pairs", 0, 10_000))
    clock.now += 20
    show(Progress("train", "pairs", 2500, 10_000, "loss 3.21"))
    assert caplog.messages == ["train: 25% of 10,000 pairs, 125 pairs/s, 1:00 left, loss 3.21"]


def test_a_terminal_gets_a_bar_that_is_taken_away_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, terminal = Clock(), Terminal()
    show = ProgressDisplay(terminal, clock)
    show(Progress("show", "lines", 0, 4))
    clock.now += 2
    drawn = terminal.getvalue()
    show(Progress("show", "lines", 4, 4, finished=True))
    assert "show:   0%" in drawn
    assert terminal.getvalue().rsplit("\r", 2)[1].strip() == ""
    assert caplog.messages == ["show: 4 lines in 2.0 s (2 lines/s)"]


def test_quiet_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("phrasescore").setLevel(logging.WARNING)
    clock, terminal = Clock(), Terminal()
    show = ProgressDisplay(terminal, clock)
    show(Progress("show", "lines", 0))
    clock.now += 99
    show(Progress("show", "lines", 1))
    show(Progress("show", "lines", 1, finished=True))
    assert (terminal.getvalue(), caplog.messages) == ("", [])


def test_closing_leaves_no_summary_and_no_bar(caplog: pytest.LogCaptureFixture) -> None:
    terminal = Terminal()
    show = ProgressDisplay(terminal, Clock())
    show(Progress("show", "lines", 0, 4))
    show.close()
    assert terminal.getvalue().rsplit("\r", 2)[1].strip() == ""
    assert caplog.messages == []


def test_a_slow_rate_keeps_two_digits(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    show(Progress("train", "epochs", 0))
    clock.now += 40
    show(Progress("train", "epochs", 1, finished=True))
    assert caplog.messages[-1] == "train: 1 epoch in 40.0 s (0.025 epochs/s)"


def test_work_that_begins_after_its_preparation_has_a_rate_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    with Meter("train", "updates", show) as meter:
        clock.now += 60
        meter.begin()
        clock.now += 10
        meter.update(20)
    assert caplog.messages == ["train: 20 updates in 10.0 s (2 updates/s)"]
