"""Commands, their time and their memory."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import peak_memory
from tests.benchmarks.results import Row, quotients

REPOSITORY = Path(__file__).resolve().parents[2]
# Options of a command that is measured by its seconds of the processor.
ALONE = ("--threads", "1", "--device", "cpu", "--quiet")
PHRASESCORE = (sys.executable, "-m", "phrasescore")


class Cost(NamedTuple):
    # Seconds, and seconds of the processor.
    wall: float
    cpu: float
    # Bytes.
    peak: float


def measure_command(
    command: Sequence[str], folder: Path | None = None, text: str | None = None, **environment: str
) -> tuple[Cost, str]:
    """Run a command in a folder, with a text as its input; return its cost and its output."""
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(peak_memory.__file__), *command],
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:300]} failed: {done.stderr[-500:]}")
    output, _, found = done.stdout.rstrip("\n").rpartition("\n")
    cost = json.loads(found)
    return Cost(cost["seconds"], cost["cpu"], cost["bytes"]), output


def measure_work(
    command: Sequence[str], little: Sequence[str], folder: Path, field: str = "wall"
) -> float:
    """Return the seconds of a command minus the seconds of a command that only loads."""
    whole, loading = (measure_command(each, folder)[0] for each in (command, little))
    return float(getattr(whole, field) - getattr(loading, field))


def find_tool(name: str, folder: str | None) -> str | None:
    """Return the absolute path of a program in a folder, or else on the PATH."""
    found = shutil.which(name, path=folder)
    return None if found is None else str(Path(found).absolute())


def compare_commands(
    ours: Sequence[str],
    theirs: Sequence[str] | None,
    folder: Path,
    turns: int,
    *,
    names: tuple[str, str],
    text: str | None = None,
) -> list[Row]:
    """Run two commands in turns; return time and memory of both and their ratios.

    Ours runs once more before, which compiles.

    :param theirs: None if the program is missing.
    """
    sides = {names[0]: ours, **({} if theirs is None else {names[1]: theirs})}
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for turn in range(-1, turns):
        for name, command in sides.items():
            if turn >= 0 or command is ours:
                cost, _ = measure_command(command, folder, text, LC_ALL="C.UTF-8")
                if turn >= 0:
                    costs[name].append(cost)
    rows = [row for name, found in costs.items() for row in _cost_rows(name, found)]
    if theirs is not None:
        one, other = costs.values()
        for label, field in (("", 0), (", of the processor", 1)):
            ratio = quotients([cost[field] for cost in other], [cost[field] for cost in one])
            rows.append(Row(f"{names[0]}: times as fast{label}", ratio))
    return rows


def _cost_rows(who: str, costs: Sequence[Cost]) -> list[Row]:
    return [
        Row(f"{who}: seconds", [cost.wall for cost in costs], "s"),
        Row(f"{who}: seconds of the processor", [cost.cpu for cost in costs], "s"),
        Row(f"{who}: peak memory of a process", [cost.peak / 1e6 for cost in costs], "MB", 0),
    ]
