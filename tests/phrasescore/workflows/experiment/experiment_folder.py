"""A folder with all files of an experiment, and functions that work on it."""

import json
import re
from pathlib import Path
from typing import Any

from click.testing import Result

from moses_integration.weight_lines import write_weights
from phrasescore.records import Weights
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.functions import Run
from phrasescore.workflows.experiment.plan import Plan, build_plan
from phrasescore.workflows.experiment.steps import Step
from tests.command_line import run, succeeded

INI = """\
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TM0 num-features=2 path=table # path=old
KENLM name=LM0 path=/lm.arpa
[weight]
TM0= 0.5 0.25
LM0= 0.5
"""
CONFIG = """\
[data]
moses_ini = "moses.ini"
train = ["train.en", "train.fr"]
dev = { source = "dev.en", references = "dev.fr" }
test.news = { source = "test.en", references = ["test.fr"] }
[engine]
processes = 2
"""


def plan_of(folder: Path, more: str = "", before: str = "") -> Plan:
    (folder / "x.toml").write_text(f"{before}\n{CONFIG}\n{more}\n")
    return build_plan(read_experiment("x.toml"), folder / "out")


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]


def steps_of(plan: Plan) -> dict[str, Step]:
    return {step.name: step for step in plan.steps}


def experiment(*options: str) -> Result:
    return run("experiment", "x.toml", "-o", "out", *options)


def planned(
    *options: str, config: Path | str = "x.toml", out: Path | str = "out"
) -> list[tuple[str, str]]:
    """Return "done" or "to do" of each step of a dry run, and the rest of its line."""
    shown = succeeded(run("experiment", config, "-o", out, "--dry-run", *options)).stdout
    whole = re.sub(r"\n +(?!\d+  (?:done|to do)  )", " ", shown)
    return re.findall(r"^ *\d+  (done|to do)  (.*)$", whole, re.MULTILINE)


def write_tuned(run: Run, weights: Weights, reached: float = 50.0, **more: Any) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    write_weights(str(run.weights), weights)
    features = [
        {"name": "LM0_0", "start": 0, "weight": 0, "share": 0.9},
        {"name": "TM0_2", "start": 0, "weight": 0, "share": 0.0},
    ]
    counts = {"hypotheses": 20, "decoded": 40, "new": 10}
    rounds = [{"round": number, "score": 40, **counts} for number in (1, 2)]
    text = tuning_report(
        reached=reached, features=features, rounds=rounds, ended_by_itself=False, **more
    )
    run.report.write_text(text)


def tuning_report(**more: Any) -> str:
    """Return a report of tuning as JSON."""
    report = {
        "method": "mert", "metric": "BLEU", "seed": 1, "sentences": 2, "hypotheses": 20,
        "start": 4, "reached": 5, "features": [],
        "confidence": {"scale": 0.5, "slope": 1e-6, "offset": -2.0},
    }  # fmt: skip
    return json.dumps({**report, **more})
