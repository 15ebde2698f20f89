"""Progress as it is shown, with a clock and a terminal that the test holds in its hands."""

import io
import logging
import random
from pathlib import Path
from typing import TextIO

import pytest

from phrasescore.cli.messages import StderrHandler, say
from phrasescore.cli.progress import Pace, ProgressDisplay, show_progress
from phrasescore.io.text import read_lines
from phrasescore.progress import Meter, Progress
from tests.terminal import drawn, resize, screen


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
    assert caplog.messages[0] == "annotate: 0:10 so far, 100 lines, 10 lines/s"
    assert caplog.messages[-1] == "annotate: 2,500 lines in 250.0 s (10 lines/s)"


def test_a_known_total_gives_the_time_left_and_the_share(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    show(Progress("train", "pairs", 0, 10_000))
    for done in (1250, 2500):
        clock.now += 10
        show(Progress("train", "pairs", done, 10_000, note="loss 3.21"))
    clock.now += 10
    # Of 7500 pairs, at 125 a second.
    show(Progress("train", "pairs", 3750, 10_000, note="loss 3.21"))
    assert caplog.messages == [
        "train: measuring the speed, 12%, 1,250 of 10,000 pairs, loss 3.21",
        "train: 0:50 left, 37%, 3,750 of 10,000 pairs, loss 3.21, 125 pairs/s",
    ]


def test_the_time_before_the_first_result_is_not_in_the_rate() -> None:
    """A minute of compiling, and then an item every two seconds."""
    pace = Pace()
    rates = []
    for second in range(60, 100, 2):
        pace.add(second, 1 + (second - 60) / 2)
        rates.append(pace.rate)
    # The items until second 68 are within a tenth of the minute and two seconds: they may be of
    # the first result.
    assert rates == [*[None] * 6, *[0.5] * 14]


def test_many_items_at_once_are_a_result_of_the_time_before_them() -> None:
    """A minute of compiling with the first 3000 items; then 3000 every 10 seconds."""
    pace = Pace()
    rates = {}
    for result in range(7):
        for tenth in range(4):  # the first item, and then 1000 in each tenth of a second
            pace.add(60 + 10 * result + tenth / 10, 3000 * result + (1000 * tenth or 1))
            rates[result, tenth] = pace.rate
    assert {rates[key] for key in rates if key < (1, 1)} == {None}
    for result in range(1, 7):
        assert rates[result, 3] == pytest.approx(300)
        assert rates[result, 0] == rates[result - 1, 3]


def test_a_pause_in_a_long_run_changes_the_rate_little() -> None:
    pace = Pace()
    for second in range(1, 1001):
        pace.add(second, second)
    pace.add(1060, 1001)
    assert pace.rate == 1
    pace.add(1061, 1002)
    # Of the last 531 seconds, or a twentieth more, 60 were a pause.
    assert pace.rate == pytest.approx(1 - 59 / 560, abs=0.01)


def test_a_slower_second_half_has_its_own_rate() -> None:
    pace = Pace()
    for second in range(1, 101):
        pace.add(second, 10 * second)
    for second in range(1, 121):
        pace.add(100 + second, 1000 + second)
    assert pace.rate == 1


def test_a_terminal_gets_a_bar_that_is_taken_away_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, terminal = Clock(), Terminal()
    show = ProgressDisplay(terminal, clock)
    show(Progress("show", "lines", 0, 4))
    clock.now += 2
    drawn = terminal.getvalue()
    show(Progress("show", "lines", 4, 4, finished=True))
    assert "show: starting" in drawn
    assert screen(terminal.getvalue()) == [""]
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


def _training(show: ProgressDisplay, clock: Clock) -> None:
    note = "loss 3.210, epoch 1.25, 12,345 words/s"
    show(Progress("train rnnsearch", "updates", 0, 10_000))
    for done in range(1000, 4000, 1000):
        clock.now += 1000
        show(Progress("train rnnsearch", "updates", done, 10_000, note=note))


@pytest.mark.parametrize(
    ("columns", "start", "end"),
    [
        (140, "train rnnsearch: 1:56:40 left,  30% |", "12,345 words/s, 1 updates/s"),
        (
            100,
            "train rnnsearch: 1:56:40 left,  30% |",
            "| 3,000 of 10,000 updates, loss 3.210, epoch 1.25",
        ),
        (80, "train rnnsearch: 1:56:40 left,  30% |", "| 3,000 of 10,000 updates"),
        (60, "train rnnsearch: 1:56:40 left,  30% |", "|"),
        (40, "train rnnsearch: 1:56:40 left,  30%", "%"),
        (32, "train rnnsearch: 1:56:40 left", "left"),
    ],
)
def test_a_line_fits_the_terminal_and_begins_with_the_time_left(
    columns: int, start: str, end: str
) -> None:
    def act(stream: TextIO) -> None:
        clock = Clock()
        show = ProgressDisplay(stream, clock)
        _training(show, clock)
        stream.write("\0")
        show.close()

    data = drawn(act, columns).partition("\0")[0]
    (line,) = screen(data, columns)
    assert line.startswith(start)
    assert line.endswith(end)
    # Two columns are left for "^C", and one as the cursor would wrap.
    assert len(line) <= columns - 3
    assert "\n" not in data


def test_control_characters_of_a_name_are_shown_and_not_sent() -> None:
    def act(stream: TextIO) -> None:
        show = ProgressDisplay(stream, Clock())
        show(Progress("report: \x1b[2J{n}", "lines", 0, 4))
        show(Progress("report: \x1b[2J{n}", "lines", 1, 4, note="\x07{x}"))
        show.close()

    data = drawn(act, 120)
    assert "report: \\u001b[2J{n}: measuring the speed,  25% |" in data
    assert "1 of 4 lines, \\u0007{x}" in data
    assert "\x1b[2J" not in data


def test_a_resized_terminal_gets_a_line_of_its_new_width() -> None:
    def act(stream: TextIO) -> None:
        clock = Clock()
        show = ProgressDisplay(stream, clock)
        _training(show, clock)
        resize(stream.fileno(), 50)
        stream.write("\n")  # what is drawn already is the terminal's
        show(Progress("train rnnsearch", "updates", 4000, 10_000))
        stream.write("\0")
        show.close()

    lines = screen(drawn(act, 120).partition("\0")[0], 120)
    assert [40 < len(line) <= 47 for line in lines] == [False, True]


def test_ctrl_c_and_a_message_leave_no_fragment_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(stream: TextIO) -> None:
        monkeypatch.setattr("sys.stderr", stream)
        show_progress(Progress("train", "updates", 10, 100))
        stream.write("^C")
        say("interrupted")
        show_progress.close()

    data = drawn(act)
    assert "train: " in data
    assert screen(data) == ["phrasescore: interrupted", ""]


def test_bars_stand_below_each_other_and_a_table_and_leave_nothing() -> None:
    def act(stream: TextIO) -> None:
        show = ProgressDisplay(stream, Clock())
        show(Progress("one", "lines", 0, 4))
        show.show_above(["a table"])
        show(Progress("two", "", 5, share=0.5, state="validating"))
        with show.without_bars():
            stream.write("a message\n")
        stream.write("\0")
        show.show_above(["row"] * 30)  # there is no room for it
        stream.write("\0")
        show(Progress("one", "lines", 4, 4, finished=True))
        with show.without_bars():
            stream.write("one is done\n")
        show.close()
        stream.write("the end")

    first, second, third = drawn(act).split("\0")
    lines = ["a message", "a table", "one: starting", "two: validating,  50% |"]
    assert [line[:23] for line in screen(first)] == lines
    del lines[1]
    assert [line[:23] for line in screen(first + second) if line] == lines
    assert [line for line in screen(first + second + third) if line] == [
        *("a message", "one is done", "the end")
    ]


def test_a_message_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(stream: TextIO) -> None:
        monkeypatch.setattr("sys.stderr", stream)
        show_progress(Progress("show", "lines", 0, 4))
        StderrHandler().emit(
            logging.makeLogRecord({"msg": "perplexity 8.008", "levelno": logging.INFO})
        )
        stream.write("\0")
        show_progress.close()

    assert screen(drawn(act).partition("\0")[0]) == [
        *("phrasescore: perplexity 8.008", "show: starting")
    ]


def test_a_dumb_terminal_and_data_on_the_terminal_get_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for change in ("dumb", "data"):
        clock, terminal = Clock(), Terminal()
        show = ProgressDisplay(terminal, clock)
        show.no_bars = change == "data"
        monkeypatch.setenv("TERM", "dumb" if change == "dumb" else "xterm")
        show(Progress("show", "lines", 0))
        clock.now += 10
        show(Progress("show", "lines", 1))
        assert (terminal.getvalue(), caplog.messages) == ("", ["show: 0:10 so far, 1 line"])
        caplog.clear()


def test_the_share_of_a_file_is_estimated_by_the_bytes_that_are_read(tmp_path: Path) -> None:
    numbers = random.Random(1)
    lines = [f"{numbers.random()} {numbers.random()}\n".encode() for _ in range(50_000)]
    data = b"".join(lines)
    path = str(tmp_path / "table")
    Path(path).write_bytes(data)
    seen: list[Progress] = []
    with Meter("show", "lines", seen.append, lines_of=path) as meter:
        for number, _ in enumerate(meter.track(read_lines(path))):
            if number % 20 == 0:
                meter._next = 0.0
    shares = [(each.done / len(lines), each.share) for each in seen[1:-1] if each.share is not None]
    assert len(shares) > 2_000
    assert all(share == pytest.approx(done, rel=0.1) for done, share in shares[1_000:])
    assert seen[-1].share == 1


def test_a_share_gives_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    show(Progress("annotate", "lines", 0))
    for share in (0.5, 0.625, 0.75):
        clock.now += 20
        show(Progress("annotate", "lines", round(10_000 * share) - 4000, None, share, skipped=4000))
    assert caplog.messages[-1] == "annotate: 0:40 left, 75%, 7,500 lines, 62 lines/s"


def test_after_the_last_item_no_time_is_named(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    show = ProgressDisplay(io.StringIO(), clock)
    show(Progress("build-lm", "lines", 0))
    for share in (0.25, 0.5, 1.0):
        clock.now += 20
        show(Progress("build-lm", "lines", round(8 * share), None, share, "sort"))
    assert caplog.messages[-1] == "build-lm: finishing, 100%, 8 lines, sort, 0.1 lines/s"
