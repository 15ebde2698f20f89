"""``python -m tests.faults.campaign``: kills, full disks and what else goes wrong."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.faults.disks import WRITERS, fill_all
from tests.faults.kills import kills
from tests.faults.others import check_all
from tests.faults.works import WORKS, make_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each long command")
    parser.add_argument("--sizes", type=int, default=20, help="of the disk of each writer")
    parser.add_argument("--only", action="append", help="a name, or the beginning of names: 'disk'")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = [*WORKS, *(f"disk {name}" for name in WRITERS), "others"]
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
    if work.startswith("disk "):
        return dict(fill_all(work[5:], folder / "pristine", folder / "disks", options.sizes))
    tries = kills(
        WORKS[work], folder / "pristine", folder / "kills" / work, options.kills, options.seed
    )
    return {f"kill {number}": problem for number, problem in enumerate(tries)}


if __name__ == "__main__":
    main()
