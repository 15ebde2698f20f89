"""``phrasescore experiment``: a table of systems, trained, tuned and measured by one command."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phrasescore.cli import options

if TYPE_CHECKING:
    from phrasescore.cli.experiment_config import Experiment
    from phrasescore.cli.experiment_plan import Plan
    from phrasescore.cli.experiment_steps import Step, StepRunner
    from phrasescore.cli.experiment_table import ResultTable

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("config", metavar="CONFIG")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    required=True,
    help="Where everything goes; a run that was stopped goes on by the same command.",
)
@click.option("--dry-run", is_flag=True, help="List the steps, and which of them are done.")
@options.verbosity
def experiment(config: str, output: str, dry_run: bool) -> None:
    """Train, annotate, tune and translate for each row of a table, as CONFIG says, a TOML file.

    Each row has its own weights, of several tuning runs. FOLDER gets table.txt, table.toml and
    table.html. What is done is not repeated: a step runs again when its inputs or settings change.
    """
    from phrasescore.cli.experiment_check import check_commands
    from phrasescore.cli.experiment_config import read_experiment
    from phrasescore.cli.experiment_plan import build_plan
    from phrasescore.cli.experiment_steps import StepRunner, check_experiment_folder
    from phrasescore.io.folders import locked

    if not output:
        raise click.UsageError("--output: expected the name of a folder, found ''")
    folder = Path(output).absolute()
    check_experiment_folder(folder)
    wanted = read_experiment(config)
    plan = build_plan(wanted, folder, only_shown=dry_run)
    check_commands(plan.steps)
    if dry_run:
        _list(plan, StepRunner(folder, _logger.info, written=plan.written))
        return
    with locked(folder) as lock:
        runner = StepRunner(folder, _logger.info, lock=lock, written=plan.written)
        runner.write_files()
        _run(wanted, plan, folder, runner)


def _list(plan: "Plan", runner: "StepRunner") -> None:
    """Print each step, and whether it is done."""
    for number, (step, done) in enumerate(zip(plan.steps, runner.done(plan.steps), strict=True), 1):
        state = "done " if done else "to do"
        click.echo(f"{number:3}  {state}  {step.name}: {step.shown()}")


def _run(wanted: "Experiment", plan: "Plan", folder: Path, runner: "StepRunner") -> None:
    """Run what is not done; the table is there from the first row on, and grows."""
    from phrasescore.cli.experiment_jobs import run_steps
    from phrasescore.cli.experiment_table import measure, to_text, write_table

    texts = (wanted.dev, *wanted.tests)
    outputs = {run.output(text) for run in plan.runs for text in texts}
    outputs |= {run.report for run in plan.runs}
    # Not what an older run of other settings has left.
    made: set[Path] = set()
    _logger.info("%d of %d steps are done", sum(runner.done(plan.steps)), len(plan.steps))

    def after(step: "Step", was_run: bool) -> None:
        for line in runner.warnings(step) if was_run else ():
            _logger.warning("%s: %s", step.name, line)
        translated = outputs.intersection(step.outputs)
        made.update(translated)
        if was_run and translated:
            write_table(table(), folder)

    def table() -> "ResultTable":
        steps = [_summary(runner.seconds(step), step.shown()) for step in plan.steps]
        warnings = [
            f"Warning of {step.name}: {line}."
            for step in plan.steps
            if runner.is_done(step)
            for line in runner.warnings(step)
        ]
        return measure(texts, plan.runs, made, (*plan.notes, *warnings), steps)

    run_steps(runner, plan.steps, wanted.engine.jobs, after)
    found = table()
    write_table(found, folder)
    click.echo(to_text(found), nl=False)


def _summary(seconds: float | None, command: str) -> str:
    return f"{'' if seconds is None else f'{seconds:,.1f} s':>12}  {command}"
