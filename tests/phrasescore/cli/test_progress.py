"""Progress as it is shown, with a clock and a terminal that the test holds in its hands."""

import gzip
import io
import logging
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from phrasescore.cli.messages import StderrHandler
from phrasescore.cli.progress import ProgressDisplay, show_progress
from phrasescore.io.text import read_lines
from phrasescore.progress import Meter, Progress
from tests.terminal import drawn


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
    show(Progress("train", "pairs", 2500, 10_000, note="loss 3.21"))
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


def test_the_time_left_is_seen_in_80_columns() -> None:
    def act(stream: TextIO) -> None:
        clock = Clock()
        show = ProgressDisplay(stream, clock)
        note = "update 1,500, loss 3.21, validation perplexity 8.008, 12,345 words/s"
        show(Progress("train attention", "updates", 0, 10_000))
        for done in range(1, 4):
            time.sleep(0.11)  # tqdm draws every tenth of a second
            show(Progress("train attention", "updates", 1000 * done, 10_000, note=note))
        show.close()

    lines = drawn(act).split("\r")
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"train attention:  20%, 00:0\d left \|", line) for line in lines)


def test_a_message_takes_the_bar_away_and_brings_it_back() -> None:
    def act(stream: TextIO) -> None:
        show = ProgressDisplay(stream, Clock())
        show(Progress("show", "lines", 0, 4))
        with show.without_bars():
            stream.write("phrasescore: update 10: validation perplexity 8.008\n")
        show.close()

    shown = drawn(act)
    assert "\rphrasescore: update 10: validation perplexity 8.008\r\n" in shown
    assert "show:   0%" in shown.rpartition("8.008")[2]


def test_the_logged_message_of_a_command_is_not_glued_to_a_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act(stream: TextIO) -> None:
        monkeypatch.setattr("sys.stderr", stream)
        show_progress(Progress("show", "lines", 0, 4))
        StderrHandler().emit(
            logging.makeLogRecord({"msg": "perplexity 8.008", "levelno": logging.INFO})
        )
        show_progress.close()

    assert "\rphrasescore: perplexity 8.008\r\n" in drawn(act)


@pytest.mark.parametrize("name", ["table", "table.gz"])
def test_the_share_of_a_file_is_estimated_by_the_bytes_that_are_read(
    tmp_path: Path, name: str
) -> None:
    numbers = random.Random(1)
    lines = [f"{numbers.random()} {numbers.random()}\n".encode() for _ in range(50_000)]
    data = b"".join(lines)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    path = str(tmp_path / name)
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
    clock.now += 20
    show(Progress("annotate", "lines", 2500, share=0.25))
    assert caplog.messages == ["annotate: 2,500 lines (25%), 125 lines/s, 1:00 left"]
