"""``python -m tests.faults.campaign``: kills, full disks and what else goes wrong."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.faults.cases import CASES, make_folder
from tests.faults.disturb import fill_disks, kill_often
from tests.faults.others import check_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each command")
    parser.add_argument("--sizes", type=int, default=20, help="of the disk of each writer")
    parser.add_argument("--only", action="append", help="a name, or the beginning of names: 'disk'")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Ray writes where its driver does: with "here".
    disks = [f"disk {name}" for name in CASES if not name.endswith(" ray")]
    chosen = [*CASES, *disks, "others"]
    if options.only:
        chosen = [
            name
            for only in options.only
            for name in ([only] if only in chosen else chosen)
            if name.startswith(only)
        ]
    lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder / "pristine")
        for work in chosen:
            try:
                found = _run(work, folder, options)
            except AssertionError as error:
                found = {"undisturbed": str(error)}
            problems = {what: problem for what, problem in found.items() if problem}
            print(f"{work:22} {len(found):4} tried, {len(problems)} problems", flush=True)
            for what, problem in problems.items():
                print(f"    {what}: {problem}", flush=True)
            lost += len(problems)
    sys.exit(lost > 0)


def _run(work: str, folder: Path, options: argparse.Namespace) -> dict[str, str | None]:
    """Return what was tried, and the problem of each or None."""
    if work == "others":
        return dict(check_all(folder / "pristine"))
    pristine = folder / "pristine"
    if work.startswith("disk "):
        return dict(fill_disks(CASES[work[5:]], pristine, folder / "disks", options.sizes))
    tries = kill_often(CASES[work], pristine, folder / "kills", options.kills, options.seed)
    return dict(tries)


if __name__ == "__main__":
    main()
