"""Progress with a clock and a terminal that the test holds in its hands."""

import io
import logging
from collections.abc import Iterator

import pytest

from phrasescore.cli.progress import Progress


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
    seconds = []
    with Progress("annotate", stream=io.StringIO(), clock=clock) as progress:
        for _ in range(250):
            clock.now += 1
            before = len(caplog.messages)
            progress.update(10)
            if len(caplog.messages) > before:
                seconds.append(clock.now - 100)
    assert seconds == [10, 30, 60, 120, 180, 240]
    assert caplog.messages[0] == "annotate: 100 lines, 10 lines/s"
    assert caplog.messages[-1] == "annotate: 2,500 lines in 250.0 s (10 lines/s)"


def test_a_known_total_gives_the_share_and_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with Progress("train", unit="pairs", total=10_000, stream=io.StringIO(), clock=clock) as bar:
        clock.now += 20
        bar.update(2500, note="loss 3.21")
    assert caplog.messages[0] == ("train: 25% of 10,000 pairs, 125 pairs/s, 1:00 left, loss 3.21")


def test_a_terminal_gets_a_bar_that_is_taken_away_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    clock, terminal = Clock(), Terminal()
    with Progress("show", total=4, stream=terminal, clock=clock) as progress:
        for _ in range(2):
            clock.now += 1
            progress.update()
    first, second, last = terminal.getvalue().split("\x1b[K")[:3]
    assert first == "\r[#######.......................] show: 25% of 4 lines, 1 lines/s, 0:03 left"
    assert second.startswith("\r[###############...............] show: 50% of 4")
    assert last == "\r"
    assert caplog.messages == ["show: 2 lines in 2.0 s (1 lines/s)"]


def test_a_terminal_line_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    clock, terminal = Clock(), Terminal()
    with Progress("annotate", total=1_000_000, stream=terminal, clock=clock) as progress:
        clock.now += 1
        progress.update(1000, note="a note that is longer than the line")
    assert max(map(len, terminal.getvalue().replace("\r", "").split("\x1b[K"))) == 29


def test_quiet_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("phrasescore").setLevel(logging.WARNING)
    clock, terminal = Clock(), Terminal()
    with Progress("show", stream=terminal, clock=clock) as progress:
        clock.now += 99
        progress.update()
    assert (terminal.getvalue(), caplog.messages) == ("", [])


def test_an_error_leaves_no_summary_and_no_bar(caplog: pytest.LogCaptureFixture) -> None:
    clock, terminal = Clock(), Terminal()
    with (
        pytest.raises(ZeroDivisionError),
        Progress("show", stream=terminal, clock=clock) as progress,
    ):
        clock.now += 1
        progress.update()
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert caplog.messages == []


def test_tracked_items_come_as_they_are_and_lazily() -> None:
    taken = []

    def source() -> Iterator[str]:
        for item in "abc":
            taken.append(item)
            yield item

    with Progress("show", stream=io.StringIO()) as progress:
        items = progress.track(source())
        assert next(iter(items)) == "a"
        assert (taken, progress.done) == (["a"], 0)
        assert list(items) == ["b", "c"]
        assert progress.done == 3


def test_a_slow_rate_keeps_two_digits(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with Progress("train", unit="epochs", stream=io.StringIO(), clock=clock) as progress:
        clock.now += 40
        progress.update(1)
    assert caplog.messages[-1] == "train: 1 epochs in 40.0 s (0.025 epochs/s)"
