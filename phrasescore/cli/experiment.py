"""``phrasescore experiment``: a table of systems, trained, tuned and measured by one command."""

import click

from phrasescore.cli import options


@click.command()
@click.argument("config", metavar="CONFIG")
@options.file(
    "-o --output",
    "Where everything goes; a run that was stopped goes on by the same command.",
    "FOLDER",
    required=True,
)
@options.flag("--dry-run", "List the steps, and which of them are done.")
@options.verbosity
def experiment(config: str, output: str, dry_run: bool) -> None:
    """Train, annotate, tune and translate for each row of a table, as CONFIG says, a TOML file.

    Each row has its own weights, of several tuning runs. FOLDER gets table.txt, table.toml and
    table.html. What is done is not repeated: a step runs again when its inputs or settings change.
    """
    from phrasescore.workflows.experiment.run import plan_experiment, run_experiment
    from phrasescore.workflows.experiment.table import to_text

    if not dry_run:
        click.echo(to_text(run_experiment(config, output)), nl=False)
        return
    for number, step in enumerate(plan_experiment(config, output), start=1):
        state = "done " if step.is_done else "to do"
        click.echo(f"{number:3}  {state}  {step.name}: {step.command}")
