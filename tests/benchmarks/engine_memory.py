"""Annotate a table on an engine, and print the peak memory of the driver and of its workers.

A process of its own: its peak is that of nothing else. The last line of stdout is the JSON of
bytes by process; Linux alone tells them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from phrasescore.features import ColumnSpec
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader
from phrasescore.workflows.scoring.scorer import Scorer
from tests.benchmarks.scoring import annotate_file


def main(table: str, model: str, output: str, engine: str, workers: str) -> None:
    settings = Compute(engine=engine, workers=int(workers))  # type: ignore[arg-type]
    columns, models = (ColumnSpec("model", model),), (load_checkpoint(model),)
    with Scorer(FeatureLoader(columns, models, of_phrases=True), settings) as scorer:
        annotate_file(Path(table), Path(output), scorer)
        peaks = {"the driver": _peak(os.getpid())}
        if engine != "here":
            peaks["a worker"] = max(map(_peak, _workers(engine)))
    print(json.dumps(peaks))


def _workers(engine: str) -> list[int]:
    """Return the processes that compute: our children, or those that Ray has for actors."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found, ours = {os.getpid()}, 0
    while len(found) > ours:
        ours = len(found)
        found |= {process for process, parent in parents.items() if parent in found}
    found.remove(os.getpid())
    if engine == "ray":
        return [process for process in found if b"ray::_Actor" in _command(process)]
    return [process for process in found if parents[process] == os.getpid()]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _peak(process: int) -> int:
    """Return the largest resident memory so far, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
