"""Evaluation: three metrics and a paired bootstrap of two systems, against sacrebleu's command."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from moses_integration.nbest import read_nbest
from tests.benchmarks.commands import PHRASESCORE, compare_commands
from tests.benchmarks.results import Report


@dataclass(frozen=True)
class EvaluationOptions:
    # The first two hypotheses of each list are the systems.
    nbest: str
    reference: str
    turns: int


def measure_evaluation(options: EvaluationOptions) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lists = [[*dict.fromkeys(item.hypotheses)] for item in read_nbest(options.nbest)]
        for system, place in (("one", 0), ("two", 1)):
            lines = [found[min(place, len(found) - 1)] + b"\n" for found in lists]
            (folder / system).write_bytes(b"".join(lines))
        shutil.copyfile(options.reference, folder / "reference")
        ours = [*PHRASESCORE, "evaluate", "one", "two", "--references", "reference", "--quiet"]
        ours += ["--metric", "bleu", "--metric", "chrf", "--metric", "ter"]
        ours += ["--paired", "bootstrap"]
        theirs = [sys.executable, "-m", "sacrebleu", "reference", "-i", "one", "two"]
        theirs += ["-m", "bleu", "chrf", "ter", "--tokenize", "none", "--paired-bs", "-f", "text"]
        rows = compare_commands(
            ours, theirs, folder, options.turns, names=("evaluate", "sacrebleu")
        )
    what = (
        f"BLEU, chrF and TER of two systems, {len(lists):,} sentences of {options.reference}, with "
        "1,000 bootstrap samples"
    )
    return Report("evaluation", what, rows)
