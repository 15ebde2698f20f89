"""The table at the end of the demo, from what ``phrasescore evaluate --format json`` wrote."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def results_table(evaluations: Mapping[str, Path], systems: Sequence[str]) -> str:
    """Return BLEU of each system on each set, with p against the first system.

    :param evaluations: by the name of the set: the report of the systems, in their order, with
        --paired and --nbest.
    :param systems: what the rows are called.
    """
    reports = {
        name: json.loads(path.read_text(encoding="utf-8")) for name, path in evaluations.items()
    }
    columns = [_column(name, report) for name, report in reports.items()]
    rows = list(zip(["", *systems, "best in the lists"], *columns, strict=True))
    width = max(len(row[0]) for row in rows)
    lines = [f"  {name:<{width}}{''.join(cells)}".rstrip() for name, *cells in rows]
    test = next(iter(reports.values()))["paired"]
    num = {name: f"{report['sentences']:,}" for name, report in reports.items()}
    sizes = " and ".join(f"{size} sentences of {name}" for name, size in num.items())
    lines += [
        "",
        f"p: paired {test['kind']} against {systems[0]}, {test['trials']:,} samples of the",
        f"{sizes}.",
    ]
    return "\n".join(lines)


def _column(name: str, report: Mapping[str, Any]) -> list[str]:
    """Return the cells of a set, its name first, all of one width."""
    (compared,) = report["paired"]["metrics"]
    cells = [(f"{name} BLEU", "")]
    for system in compared["systems"]:
        chance = system["p_value"]
        cells.append((f"{system['score']:.2f}", "" if chance is None else f"p = {chance:.3f}"))
    cells.append((f"{report['nbest']['oracle']['score']:.2f}", ""))
    return [f"  {score:>9}  {chance:<9}" for score, chance in cells]
