"""Programs that score: what they answer, and what happens when they do not."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.features.program import Command, ProgramScore
from phrasescore.features.request import ScoringRequest
from phrasescore.features.score_cache import ScoreCache
from phrasescore.records import PairLines, PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring
from tests.feature_values import count_scores

PAIRS = [PhrasePair("le " * count, "a b") for count in (1, 2, 3, 2, 0)]
# One answer per line: 100 * words of the source + words of the target.
COUNT = """
def count(line):
    source, target = line.rstrip("\\n").split("\\t")
    return 100 * len(source.split()) + len(target.split())

def die():
    os.kill(os.getpid(), 9)
"""
BY_LINE = "for line in sys.stdin: print(count(line), flush=True)"
EXPECTED = [102.0, 202.0, 302.0, 202.0, 2.0]


def command(folder: Path, code: str) -> str:
    script = folder / "program.py"
    script.write_text(f"import os, sys, time\n{COUNT}\n{code}\n")
    return shlex.join([sys.executable, str(script)])


@pytest.fixture(autouse=True)
def _buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def score(folder: Path, code: str, *, seconds: float = 60.0, pairs: object = PAIRS) -> list[float]:
    feature = ProgramScore(command(folder, code), seconds=seconds)
    with feature.computing():
        return feature.score(PhraseBlock.of(pairs)).values[0].tolist()  # type: ignore[arg-type]


def test_each_pair_gets_its_answer_and_equal_pairs_are_sent_once(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    code = (
        f"log = open({str(lines)!r}, 'a')\nfor line in sys.stdin:\n  log.write(line); log.flush()"
    )
    assert score(tmp_path, f"{code}\n  print(count(line), flush=True)") == EXPECTED
    assert lines.read_text().splitlines() == ["le\ta b", "le le\ta b", "le le le\ta b", "\ta b"]


def test_a_program_may_read_all_waiting_lines_at_once_and_more_than_a_pipe_holds(
    tmp_path: Path,
) -> None:
    # 3 MB of lines and 1 MB of answers: neither fits a pipe, so that both must flow at once.
    pairs = [PhrasePair(f"x{number} " + "le " * 9, "a") for number in range(90_000)]
    code = """
rest = b""
while data := sys.stdin.buffer.read1(1 << 16):
    *lines, rest = (rest + data).split(b"\\n")
    sys.stdout.write("".join(f"{count(line.decode())}.00001\\n" for line in lines))
    sys.stdout.flush()
"""
    assert score(tmp_path, code, pairs=pairs) == [1001.00001] * len(pairs)


def test_a_program_that_writes_its_messages_does_not_block(tmp_path: Path) -> None:
    code = (
        "for line in sys.stdin:\n  sys.stderr.write('x' * 200_000); print(count(line), flush=True)"
    )
    assert score(tmp_path, code) == EXPECTED


def test_a_program_that_ends_is_not_started_again(tmp_path: Path) -> None:
    # It answers two lines, and reads a third.
    lives = tmp_path / "lives"
    code = f"""
open({str(lives)!r}, "a").write("x")
for number, line in enumerate(sys.stdin):
    if number == 2:
        sys.exit("out of memory")
    print(count(line), flush=True)
"""
    problem = r"line 3 of its input, 'le le le\\ta b': expected a number, but the program ended"
    with pytest.raises(PhrasescoreError, match=f"{problem} .* and wrote: out of memory$"):
        score(tmp_path, code)
    assert lives.read_text() == "x"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("sys.exit(3)", r"line 1 of its input, 'le\\ta b': .* ended with exit code 3$"),
        (
            "for line in sys.stdin:\n  print(count(line) if 'le' in line else die(), flush=True)",
            r"line 4 of its input, '\\ta b': .* was killed by SIGKILL$",
        ),
        (f"print('Loading ...')\n{BY_LINE}", r"line 1 .*: expected a number, found 'Loading ...'$"),
        ("for line in sys.stdin: print('nan', flush=True)", "expected a number, found 'nan'$"),
        ("for line in sys.stdin: print('1e99', flush=True)", "expected a number, found '1e99'$"),
        ("for line in sys.stdin: print(flush=True)", "expected a number, found ''$"),
        (
            "for line in sys.stdin: print('0.5\\n0.7', flush=True)",
            r"expected one number per line, found more: '0.[57]",
        ),
        (
            f"{BY_LINE}\nprint('the mean is 0.1')",
            r"program.py': expected one number per line, found more: 'the mean is 0.1\\n'$",
        ),
        ("while True: sys.stdout.write('7' * 9999)", "expected a number, found '7777777"),
        ("os.close(1); time.sleep(999)", "but the program closed its output$"),
    ],
)
def test_what_is_no_answer_is_an_error_that_names_the_line(
    tmp_path: Path, code: str, problem: str
) -> None:
    with pytest.raises(PhrasescoreError, match=problem) as raised:
        score(tmp_path, code)
    assert str(raised.value).startswith(f"command {command(tmp_path, code)!r}: ")


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(999)",
        # Python keeps its output if it is a pipe.
        "for line in sys.stdin: print(count(line))",
        # Too few lines.
        "for n, line in enumerate(sys.stdin):\n  if n != 2: print(count(line), flush=True)",
    ],
    ids=["sleeps", "buffers", "skips"],
)
def test_a_program_that_does_not_answer_is_ended_and_the_message_says_how_to_cure_it(
    tmp_path: Path, code: str
) -> None:
    pid = tmp_path / "pid"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n{code}"
    problem = r"expected a number within 1 seconds, found none: does the program flush its output"
    with pytest.raises(PhrasescoreError, match=problem):
        score(tmp_path, code, seconds=1)
    assert not _runs(int(pid.read_text()))


def test_its_children_end_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"""
import subprocess
child = subprocess.Popen(["sleep", "999"])
open({str(pid)!r}, "w").write(str(child.pid))
{BY_LINE}
"""
    assert score(tmp_path, code) == EXPECTED
    assert not _runs(int(pid.read_text()))


def _runs(pid: int) -> bool:
    limit = time.monotonic() + 10
    while (runs := _exists(pid)) and time.monotonic() < limit:
        time.sleep(0.01)
    return runs


def _exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("wanted", "error", "problem"),
    [
        ("no-such-program -x", PhrasescoreError, "there is no program 'no-such-program'"),
        ("echo 'x", ArgumentError, "No closing quotation"),
        (" ", ArgumentError, "expected a program"),
    ],
)
def test_a_command_that_is_none_is_refused_before_the_work(
    wanted: str, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        ProgramScore(wanted)


def test_a_file_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("no program")
    path.chmod(0o755)
    feature = ProgramScore(str(path))
    with pytest.raises(PhrasescoreError, match="cannot run it: Exec format error"):
        feature.score(PhraseBlock.of(PAIRS))


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    code = "for line in sys.stdin: print(len(sys.argv[1]), flush=True)"
    feature = ProgramScore(f"{command(tmp_path, code)} '$(touch x); *'")
    with feature.computing():
        assert feature.score(PhraseBlock.of(PAIRS)).values[0].tolist() == [13.0] * 5


def test_another_script_has_another_fingerprint(tmp_path: Path) -> None:
    one = ProgramScore(command(tmp_path, BY_LINE)).rows
    assert ProgramScore(command(tmp_path, BY_LINE)).rows == one
    assert ProgramScore(command(tmp_path, "print(1)")).rows != one


def lines(pairs: list[PhrasePair]) -> Iterator[PairLines]:
    return (PairLines(number, PhraseBlock.of([pair])) for number, pair in enumerate(pairs))


@pytest.mark.parametrize("engine", ["here", "processes"])
def test_every_engine_gives_the_same_values_and_leaves_no_program(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgramScore, "group_size", {"cpu": 2})
    pids = tmp_path / "pids"
    code = f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n{BY_LINE}\ntime.sleep(999)"
    monkeypatch.setattr("phrasescore.features.program._END_SECONDS", 0.1)
    loader = ScoringRequest((Command(command(tmp_path, code)),), callers=3)
    with Scoring(loader, Compute(engine=engine, workers=2)) as scorer:  # type: ignore[arg-type]
        found = [values[0, 0] for _, values in scorer.score_lines(lines(PAIRS))]
    assert found == EXPECTED
    started = pids.read_text().split()
    assert len(started) == 1 if engine == "here" else len(started) <= 2
    assert not any(_runs(int(pid)) for pid in started)


def test_an_error_elsewhere_ends_a_program_that_is_still_thinking(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\nsys.stdin.readline()\ntime.sleep(999)"
    loader = ScoringRequest((Command(command(tmp_path, code)),), callers=2)

    def interrupted() -> Iterator[PairLines]:
        yield from lines(PAIRS[:1])
        limit = time.monotonic() + 60
        while not pid.exists() or not pid.read_text():
            assert time.monotonic() < limit
            time.sleep(0.01)
        raise KeyboardInterrupt

    ProgramScore.group_size, usual = {"cpu": 1}, ProgramScore.group_size
    try:
        with pytest.raises(KeyboardInterrupt), Scoring(loader, Compute(workers=2)) as scorer:
            list(scorer.score_lines(interrupted()))
    finally:
        ProgramScore.group_size = usual
    assert not _runs(int(pid.read_text()))


def test_the_cache_holds_the_answers_and_spares_the_program(tmp_path: Path) -> None:
    wanted = command(tmp_path, BY_LINE)
    loader = ScoringRequest((Command(wanted),))
    with ScoreCache(str(tmp_path / "cache")) as cache:
        for said in ("5 scores by a program", "5 scores by a program, 5 of them from the cache"):
            with Scoring(loader, Compute(workers=1)) as scorer:
                scorer._cache = cache
                found = [values[0, 0] for _, values in scorer.score_lines(lines(PAIRS))]
            assert (found, str(scorer.tallies[0])) == (EXPECTED, said)
        assert count_scores(tmp_path / "cache") == len(set(PAIRS))
    assert os.path.exists(tmp_path / "cache")
