"""Run one step of an experiment at a time, for a job system that knows their order.

Each step has its own state in the folder ``steps``.
"""

import logging
import os
import re
from pathlib import Path

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.folders import locked
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.plan import Plan, build_plan, unique_names
from phrasescore.workflows.experiment.run import LOGS, collect_table, run_steps
from phrasescore.workflows.experiment.steps import Step, StepStates, check_experiment_folder
from phrasescore.workflows.experiment.table import write_table

STEPS = "steps"
TABLE = "table"  # the name for writing the table; steps' names have a verb and a name
_logger = logging.getLogger(__name__)


def run_step(config: StrPath, folder: StrPath, step: str, *, command: str = "") -> None:
    """Run one step of an experiment.

    The same call resumes a step that was killed.

    :param step: the step's name in a dry run, with ``_`` for each character that is no letter or
        digit; or "table", which writes the table and the page.
    :param command: the command that the page shows at its end.
    :raises PhrasescoreError: if the step fails; or, for the table, if a step has not run with the
        file's settings.
    """
    absolute = Path(os.path.realpath(folder))
    check_experiment_folder(absolute, STEPS)
    wanted = read_experiment(os.fspath(config))
    plan = build_plan(wanted, absolute)
    names = _names(plan)
    if step == TABLE:
        states = {
            each: StepStates(absolute / STEPS / name, plan.written, plan.names)
            for each, name in names.items()
        }
        for each in plan.steps:
            if not states[each].is_done(each):
                problem = f"{each.name}: its outputs are not from these settings and inputs"
                raise PhrasescoreError(f"{problem}: run it by --step {names[each]}")
        results = {path for each in plan.steps for path in each.outputs}
        write_table(collect_table(wanted, plan, results, states.__getitem__), plan.names, command)
        return
    known = {name: each for each, name in names.items()}
    if step not in known:
        raise ArgumentError(f"--step: {config} has no {step!r}: --dry-run lists the steps")
    work = absolute / STEPS / step
    with locked(work) as lock:
        own = StepStates(work, plan.written, plan.names)
        own.write_files()
        run_steps([known[step]], own, absolute / LOGS, 1, _logger.info, lambda *_: None, (lock,))


def _names(plan: Plan) -> dict[Step, str]:
    clean = (re.sub(r"\W", "_", step.name, flags=re.ASCII) for step in plan.steps)
    return dict(zip(plan.steps, unique_names(clean), strict=True))
