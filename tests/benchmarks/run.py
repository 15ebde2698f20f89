"""Measure speed and memory: ``make bench``, or this file with the parts to run.

Every speed is a ratio of two sides that take turns, because absolute figures of a shared machine
are worth little. The files are the real task's beside the checkout, or else the shipped example's.
"""

import dataclasses
import importlib
import os
import shlex
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

REPOSITORY = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # Started as a file, Python looks for modules in its folder and not in the repository.
    sys.path[0] = str(REPOSITORY)

from tests.benchmarks.results import Book, Report, describe_machine  # noqa: E402
from tests.benchmarks.settings import Settings  # noqa: E402

# The module of each part.
PARTS = {
    "scoring": "scoring",
    "training": "training",
    "rescoring": "rescoring",
    "transformer": "rescoring",
    "tuning": "tuning",
    "search": "search",
    "building": "other_tools",
    "language_models": "other_tools",
    "evaluation": "other_tools",
    "versions": "versions",
    "gpu": "scoring",
}
# Not without being asked for.
OPTIONAL_PARTS = ("versions", "gpu")
# Processes that run or want to, on average over the last minute.
BUSY = 0.5


def _parameters() -> list[click.Parameter]:
    parts = click.Argument(["parts"], nargs=-1, type=click.Choice([*PARTS]), metavar="[PART]...")
    options = [
        click.Option(
            [
                "--set" if field.name == "overrides" else f"--{field.name.replace('_', '-')}",
                field.name,
            ],
            **{"show_default": field.metadata["default"] is not None, **field.metadata},
        )
        for field in dataclasses.fields(Settings)
    ]
    book = click.Option(
        ["--json"],
        metavar="FILE",
        help="Add the figures to this file, and write a table beside it.",
    )
    return [parts, *options, book]


def _run(parts: tuple[str, ...], json: str | None, **values: Any) -> None:
    """Run the benchmarks: all but versions and gpu, or the PARTS that are named.

    Figures are medians, with their range behind them.
    """
    settings = Settings(**values)
    machine = describe_machine()
    for name, value in {**machine, "table": settings.table, "preset": settings.preset}.items():
        click.echo(f"{name}: {value}")
    if os.getloadavg()[0] > BUSY:
        # Threads that wait for one another lose most: the plain side's, and so the ratio is
        # better than it should be.
        click.echo("the machine is busy with something else: take no figure seriously", err=True)
    book = Book(Path(json) if json else None, machine)
    wanted = parts or [part for part in PARTS if part not in OPTIONAL_PARTS]
    failed = []
    for part in [part for part in PARTS if part in wanted]:
        click.echo(f"{time.strftime('%H:%M:%S')} measuring {part} ...", err=True)
        start = time.perf_counter()
        try:
            report = measure(part, settings)
        except click.UsageError:
            raise
        except Exception:  # the other parts are worth having
            traceback.print_exc()
            failed.append(part)
            continue
        # Paths are from the checkout.
        what = report.what.replace(f"{REPOSITORY}/", "").replace(f"{REPOSITORY.parent}/", "../")
        report = report._replace(what=what)
        click.echo(f"\n{report.text()}")
        book.add(
            report,
            command=_command(part, parts),
            seconds=round(time.perf_counter() - start),
            load=machine["load before (1, 5, 15 minutes)"],
        )
    click.echo(f"{time.strftime('%H:%M:%S')} finished", err=True)
    if failed:
        raise click.ClickException(f"these parts failed: {', '.join(failed)}")


def measure(part: str, settings: Settings) -> Report:
    """Measure a part; its module is imported here alone, as some need what is not installed."""
    module = importlib.import_module(f"tests.benchmarks.{PARTS[part]}")
    report: Report = getattr(module, f"measure_{part}")(settings)
    return report


def _command(part: str, parts: Sequence[str]) -> str:
    """Return the command that repeats a part, without what is only for this machine."""
    words = [word for word in sys.argv[1:] if word not in parts]
    for option in ("--json", "--moses-bin", "--old"):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    return shlex.join(["python", "tests/benchmarks/run.py", part, *words])


main = click.Command("run.py", params=_parameters(), callback=_run, help=_run.__doc__)

if __name__ == "__main__":
    main()
