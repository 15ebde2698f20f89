"""Figures of a benchmark: medians with their range, as a plain table and as JSON."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tabulate import tabulate

from phrasescore.version import __version__

LABEL_WIDTH = 58
PACKAGES = ("torch", "numpy", "numba", "ctranslate2", "sacrebleu")


class Row(NamedTuple):
    """One figure, measured once or several times."""

    label: str
    # One number a measurement, in the order of measuring.
    values: Sequence[float]
    unit: str = ""
    # Digits behind the point.
    digits: int = 2

    def text(self) -> str:
        return f"  {self.label:<{LABEL_WIDTH}} {show(self.to_dict())}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "median": statistics.median(self.values),
            "min": min(self.values),
            "max": max(self.values),
            "unit": self.unit,
            "digits": self.digits,
            "values": list(self.values),
        }


def show(figure: Mapping[str, Any], *, unit: bool = True, interval: bool = True) -> str:
    """Return the median of a figure, its unit, and in brackets the range of several values."""
    median, low, high = (
        f"{figure[name]:,.{figure['digits']}f}" for name in ("median", "min", "max")
    )
    text = f"{median} {figure['unit']}".rstrip() if unit else median
    return f"{text} ({low} to {high})" if interval and len(figure["values"]) > 1 else text


class Report(NamedTuple):
    part: str
    # What was measured, in one line.
    what: str
    rows: Sequence[Row]
    # Rows that are missing, and why: a sentence each.
    left_out: Sequence[str] = ()

    def text(self) -> str:
        """Return a table: a line for each figure, with median and range."""
        left_out = (f"  {sentence}" for sentence in self.left_out)
        rows = (row.text() for row in self.rows)
        return "\n".join([f"{self.part}: {self.what}", *rows, *left_out])

    def to_dict(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "what": self.what,
            "figures": {row.label: row.to_dict() for row in self.rows},
            "left_out": list(self.left_out),
        }


class Book:
    """All reports of one machine, in a JSON file and as a Markdown table beside it.

    A file that exists is added to: a part that is measured again replaces the earlier one.
    """

    def __init__(self, path: Path | None, machine: Mapping[str, str]) -> None:
        self._path = path
        self.content: dict[str, Any] = {"machine": dict(machine), "reports": []}
        if path is not None and path.is_file():
            self.content = json.loads(path.read_text(encoding="utf-8"))
            for name in ("cpu", "cores"):
                if (before := self.content["machine"][name]) != machine[name]:
                    raise ValueError(f"{path}: the {name} was {before}, and is {machine[name]} now")

    def add(self, report: Report, **more: object) -> None:
        reports = [each for each in self.content["reports"] if each["part"] != report.part]
        self.content["reports"] = [*reports, {**report.to_dict(), **more}]
        if self._path is not None:
            text = json.dumps(self.content, indent=1, ensure_ascii=False)
            self._path.write_text(text + "\n", encoding="utf-8")
            self._path.with_suffix(".md").write_text(self.markdown(), encoding="utf-8")

    def markdown(self) -> str:
        lines = [f"- {name}: {value}" for name, value in self.content["machine"].items()]
        table = []
        for report in self.content["reports"]:
            part = report["part"]
            lines += [f"- {part}: `{report.get('command')}` ({report['what']})"]
            lines += [f"- {part}: {sentence}" for sentence in report["left_out"]]
            table += [
                (part, label.strip(), show(figure, unit=False), figure["unit"])
                for label, figure in report["figures"].items()
            ]
        header = ("part", "figure", "median (range)", "unit")
        rows = tabulate(table, header, "github", disable_numparse=True)
        return "\n".join(["# Benchmarks", "", *lines, "", rows, ""])


def quotients(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Return ``over / under``, measurement by measurement."""
    return [a / b for a, b in zip(over, under, strict=True)]


def describe_machine() -> dict[str, str]:
    """Return the machine and the versions that the figures are of."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    versions = {"phrasescore": __version__}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": model,
        "cores": str(os.cpu_count()),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        **versions,
        "load before (1, 5, 15 minutes)": load,
    }
