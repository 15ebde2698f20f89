"""An experiment as a Snakefile: each step is a rule, and Snakemake places the jobs.

A job runs one step with `run_step`, and has its own state in the folder ``steps``. Snakemake
deletes the outputs of a failed job, but neither its state nor the work files next to the outputs,
so the next attempt resumes it.
"""

import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, ConfigError, PhrasescoreError
from phrasescore.io.folders import locked
from phrasescore.io.output import check_files, open_output
from phrasescore.workflows.experiment.commands import shown
from phrasescore.workflows.experiment.config import Experiment, read_experiment
from phrasescore.workflows.experiment.plan import Plan, build_plan, unique_names
from phrasescore.workflows.experiment.run import LOGS, collect_table, run_steps
from phrasescore.workflows.experiment.steps import (
    TABLE_FILES,
    Step,
    StepStates,
    check_experiment_folder,
)
from phrasescore.workflows.experiment.table import ExperimentTable, write_table

STEPS = "steps"
TABLE = "table"  # the rule of the table; steps' names have a verb and a name
# Memory per job in MB, by verb, and additional MB per MB of inputs that a search loads.
_MEMORY = {
    "train": (4000, 0),
    "export": (2000, 0),
    "annotate": (4000, 0),
    "tune": (4000, 4),
    "decode": (2000, 4),
    "rescore": (3000, 0),
    "rerank": (2000, 0),
}
_HEAD = """\
# The steps of {config}, by phrasescore. Export it again if the settings change.
PHRASESCORE = {command}

localrules: {table}
"""
_logger = logging.getLogger(__name__)


def export_experiment(config: StrPath, output: StrPath, folder: StrPath) -> None:
    """Write an experiment as a Snakefile whose first rule makes the table of `run_experiment`.

    Nothing runs, and nothing else is written. docs/experiment.md describes how to run the file
    with Snakemake 9. Its paths, also the path of the current Python, are absolute and must exist on
    every machine in the cluster.

    :param config: a file as for `run_experiment`; ``[engine]`` must have ``processes`` and
        ``threads``, the number of cores that jobs request.
    :param folder: the folder for all files of the jobs: a new one, or an exported experiment's.
    :raises PhrasescoreError: if an input is missing or wrong, or has a brace in its path.
    """
    check_files([os.fspath(config)], [os.fspath(output)])
    absolute = Path(os.path.realpath(folder))
    check_experiment_folder(absolute, STEPS)
    wanted, plan = _read(config, absolute)
    for key in ("processes", "threads"):
        if getattr(wanted.engine, key) is None:
            problem = "is missing: expected a number, since a job requests its cores"
            raise ConfigError(os.fspath(config), f"[engine] {key}", problem)
    command = [sys.executable, "-m", "phrasescore", "experiment", str(Path(config).absolute())]
    run_one = shlex.join([*command, "-o", str(absolute), "--step"])
    # ascii() gives a Python literal, whatever bytes a name has.
    head = _HEAD.format(config=ascii(str(config)), command=ascii(run_one), table=TABLE)
    with open_output(os.fspath(output)) as stream:
        stream.write("\n".join([head, *_rules(wanted, plan, absolute)]).encode())
    _logger.info("%s has %d steps and their table", output, len(plan.steps))


def run_step(config: StrPath, folder: StrPath, step: str, *, command: str = "") -> None:
    """Run one step of an exported experiment, as its rule does.

    The same call resumes a step that was killed.

    :param step: the name of its rule; "table" writes the table and the page.
    :param command: the command that the page shows at its end.
    :raises PhrasescoreError: if the step fails; or, for the table, if a step has not run with the
        file's settings.
    """
    absolute = Path(os.path.realpath(folder))
    wanted, plan = _read(config, absolute)
    if step == TABLE:
        write_table(_table(wanted, plan, absolute), plan.names, command)
        return
    known = {rule: known_step for known_step, rule in _names(plan).items()}
    if step not in known:
        raise ArgumentError(f"--step: {config} has no {step!r}: export it again if it has changed")
    work = absolute / STEPS / step
    with locked(work) as lock:
        states = StepStates(work, plan.written, plan.names)
        states.write_files()
        run_steps([known[step]], states, absolute / LOGS, 1, _logger.info, lambda *_: None, (lock,))


def _read(config: StrPath, folder: Path) -> tuple[Experiment, Plan]:
    wanted = read_experiment(os.fspath(config))
    return wanted, build_plan(wanted, folder)


def _table(wanted: Experiment, plan: Plan, folder: Path) -> ExperimentTable:
    states = {
        step: StepStates(folder / STEPS / rule, plan.written, plan.names)
        for step, rule in _names(plan).items()
    }
    for step in plan.steps:
        if not states[step].is_done(step):
            problem = f"{step.name}: its outputs are not from these settings and inputs: export the"
            raise PhrasescoreError(f"{problem} experiment again, and let Snakemake run it")
    results = {path for step in plan.steps for path in step.outputs}
    return collect_table(wanted, plan, results, states.__getitem__)


def _names(plan: Plan) -> dict[Step, str]:
    clean = (re.sub(r"\W", "_", step.name, flags=re.ASCII) for step in plan.steps)
    return dict(zip(plan.steps, unique_names(clean), strict=True))


def _rules(wanted: Experiment, plan: Plan, folder: Path) -> Iterator[str]:
    """Yield the rules, the table's rule first: Snakemake runs the first rule by default."""
    results = [_path(path) for step in plan.steps for path in step.outputs]
    tables = [_path(folder / name) for name in TABLE_FILES]
    yield _rule(TABLE, {"input": results, "output": tables})
    # Jobs write the folder's moses.ini, which depends on the user's.
    origins = dict.fromkeys(plan.written, wanted.data.moses_ini)
    for step, rule in _names(plan).items():
        verb = step.words[0]
        base, factor = _MEMORY[verb]
        memory = f"lambda wildcards, input: {base} + int({factor} * input.size_mb)"
        outputs = [_path(path) for path in step.outputs]
        parts = {
            "input": [_path(origins.get(path, path)) for path in step.inputs],
            "output": [f"directory({path})" for path in outputs] if verb == "train" else outputs,
            "threads": [str(step.cores)],
            "resources": [f"mem_mb={memory if factor else base}"],
            # A step runs again if its command changes.
            "params": [f"command={shown(step.words)!a}"],
        }
        yield _rule(rule, parts)


def _rule(name: str, parts: dict[str, list[str]]) -> str:
    lines = [f"rule {name}:"]
    for part, values in {**parts, "shell": [ascii(f"{{PHRASESCORE}} {name}")]}.items():
        if len(values) > 1:
            lines += [f"    {part}:", *(f"        {value}," for value in dict.fromkeys(values))]
        else:
            lines.append(f"    {part}: {values[0]}")
    return "\n".join(lines) + "\n"


def _path(path: Path) -> str:
    if re.search("[{}]", str(path)):
        raise PhrasescoreError(f"{path}: Snakemake treats text in braces as a wildcard")
    return ascii(str(path))
