"""``python -m tests.faults.campaign``: kills, full disks and what else goes wrong."""

import argparse
import gzip
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.disks import WRITERS, fill
from tests.faults.kills import kills
from tests.faults.others import check_all
from tests.faults.works import WORKS, make_folder


def main() -> None:
    """Run a campaign and print what it found; exit 1 if something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each long command")
    parser.add_argument("--sizes", type=int, default=20, help="of the disk of each writer")
    parser.add_argument("--only", action="append", help="names of commands; of others: 'others'")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = [*WORKS, *(f"disk {name}" for name in WRITERS), "others"]
    chosen = [name for name in chosen if options.only is None or name in options.only]
    lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder / "pristine")
        for work in chosen:
            if work == "others":
                found = dict(check_all(folder / "pristine"))
            elif work.startswith("disk "):
                found = _full_disks(work[5:], folder, options.sizes)
            else:
                tries = kills(WORKS[work], folder / "pristine", folder, options.kills, options.seed)
                found = {f"kill {number}": problem for number, problem in enumerate(tries)}
            problems = {what: problem for what, problem in found.items() if problem}
            print(f"{work:22} {len(found):4} tried, {len(problems)} problems", flush=True)
            for what, problem in problems.items():
                print(f"    {what}: {problem}", flush=True)
            lost += len(problems)
    sys.exit(lost > 0)


def _full_disks(name: str, folder: Path, steps: int) -> dict[str, str | None]:
    """Return what went wrong at each size of the disk, from 0 to what is needed."""
    command, output = WRITERS[name]
    calm = folder / "disk"
    shutil.copytree(folder / "pristine", calm, symlinks=True)
    problems: dict[str, str | None] = {"calm": fill(command, output, calm, 1 << 40)}
    needed = max((path.stat().st_size for path in (calm / "disk").rglob("*")), default=1)
    for step in range(steps):
        for path in (calm / "disk").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if step % 2 and output and "/" not in output:
            (calm / "disk" / output).write_bytes(gzip.compress(b"old\n"))
        size = needed * step // steps
        problems[f"{size} of {needed} bytes"] = fill(command, output, calm, size)
    shutil.rmtree(calm)
    return problems


if __name__ == "__main__":
    main()
