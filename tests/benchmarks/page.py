"""Write docs/performance.md from the figures of ``make bench``.

    .venv/bin/python tests/benchmarks/page.py [bench.json]

The figures are kept in docs/performance.json, and the sentences are in performance.template.md
beside this file. ``{{part | label}}`` is a figure with its range, and with ``| -`` only its median.
A table row, a list item or a paragraph with a figure that was not measured is left out.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[0] = str(REPOSITORY)

from tests.benchmarks.results import show  # noqa: E402

TEMPLATE = Path(__file__).with_name("performance.template.md")
FIGURES = REPOSITORY / "docs" / "performance.json"
VERSIONS = ("phrasescore", "python", "torch", "numba", "ctranslate2", "sacrebleu")
PAGE = FIGURES.with_suffix(".md")


def write_page(content: Mapping[str, Any], template: str) -> str:
    """Return the page with the figures of a JSON file."""
    reports = {report["part"]: report for report in content["reports"]}
    figures = {
        (part, label.strip()): figure
        for part, report in reports.items()
        for label, figure in report["figures"].items()
    }
    whole = {
        "machine": _machine(content["machine"]),
        "left_out": "\n".join(
            f"- {sentence}." for report in reports.values() for sentence in report["left_out"]
        ),
    }

    def fill(found: re.Match[str]) -> str:
        part, label, median = found.groups()
        if label is None:
            return whole[part]
        return show(figures[part, label], unit=False, interval=median is None)

    blocks = []
    for block in _blocks(template):
        try:
            text = re.sub(r"\{\{([a-z_]+)(?: \| (.+?))?( \| -)?\}\}", fill, block)
        except KeyError:
            continue
        blocks.append(re.sub(r" *\| *", "|", text) if text.startswith("|") else text)
    return re.sub(r"\n{3,}", "\n\n", "".join(blocks))


def _blocks(text: str) -> Iterator[str]:
    """Yield table rows, list items and paragraphs; blank lines end the latter two."""
    block = ""
    for line in text.splitlines(keepends=True):
        if block and (line.startswith(("|", "- ", "#")) or not line.strip()):
            yield block
            block = ""
        block += line
        if line.startswith("|") or not line.strip():
            yield block
            block = ""
    yield block


def _machine(machine: Mapping[str, str]) -> str:
    versions = (f"{name} {machine[name]}" for name in VERSIONS if name in machine)
    return (
        f"an {machine['cpu']} with {machine['cores']} cores ({machine['vector instructions']}), on "
        f"{machine['date']},\nwith {', '.join(versions)}"
    )


def main() -> None:
    """Take the figures of a file, or those that are there, and write the page."""
    if len(sys.argv) > 1:
        shutil.copyfile(sys.argv[1], FIGURES)
    content = json.loads(FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(write_page(content, TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
