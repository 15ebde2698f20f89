"""``phrasescore experiment`` and ``init``: a table of systems, trained, tuned and measured."""

import os
from functools import partial
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.messages import print_text, say, typed_command
from phrasescore.cli.options import heading
from phrasescore.progress import format_duration
from phrasescore.signals import EndedBySignal

_text = partial(options.file, nargs=2, required=True)


@options.verb(
    "Train, tune and compare systems in one table", "experiment experiment.toml -o results"
)
@options.argument("config", metavar="CONFIG")
@heading("Output")
@options.file(
    "-o --output",
    "The folder for all files; the same command continues a run that was stopped.",
    "FOLDER",
    required=True,
)
@heading("Input")
@options.option(
    "--rows",
    "Make only these rows, with what they need, and keep the others that are done.",
    metavar="ROW,...",
    show_default="all",
)
@heading("Long runs")
@options.flag("--dry-run", "List the steps, and show which are done.")
def experiment(config: str, output: str, rows: str | None, dry_run: bool) -> None:
    """Train, annotate, tune and translate for each row of a table in CONFIG, a TOML file.

    Each row has its own weights, from several tuning runs. The results are table.txt, table.toml
    and the page report/index.html in the folder. A step that is done runs again only if its inputs
    or settings change.
    """
    from phrasescore.io.text_table import text_table
    from phrasescore.workflows.experiment.run import plan_experiment, run_experiment
    from phrasescore.workflows.experiment.table import REPORT

    wanted = rows.split(",") if rows else ()
    if dry_run:
        planned = enumerate(plan_experiment(config, output, rows=wanted), start=1)
        lines = [
            (str(number), "done" if is_done else "to do", step.name, step.description)
            for number, (step, is_done) in planned
        ]
        print_text("\n".join(text_table(lines, "rl")))
    else:
        try:
            table = run_experiment(config, output, rows=wanted, command=typed_command())
        except (KeyboardInterrupt, EndedBySignal):
            say("stopped; the same command continues")
            raise
        best = {number for number, row in enumerate(table.rows, 1) if row.name == table.best}
        print_text(table.to_text(), bold=best)
        page = os.path.join(output, REPORT, "index.html")
        folder = output if table.chosen.system else None
        next_step.suggest(output=page, folder=folder, choice=table.choice())


@options.verb(
    "Plan an experiment for a system and its texts",
    "init system --train train.en train.fr --dev dev.en dev.fr --test test.en test.fr "
    "-o experiment.toml",
)
@options.argument("system", metavar="SYSTEM")
@heading("Input")
@_text("--train", "The text that networks learn from.", "SOURCE TARGET")
@_text("--dev", "The text for tuning; REF may stand for REF0, REF1, ...", "SOURCE REF")
@_text("--test tests", "A text to measure on. May be repeated.", "SOURCE REF", multiple=True)
@options.files("--monolingual", "More text in the target language, for an n-gram model and a cslm.")
@options.file(
    "--alignments",
    "The word alignment of the training text, for a joint model.",
    show_default="a file aligned.* beside the phrase table or the moses.ini",
)
@heading("Time")
@options.option(
    "--minutes",
    "The time of the whole experiment: training, tuning and translating.",
    type=click.FloatRange(min=0, min_open=True),
    show_default="by the amount of text",
)
@heading("Output")
@options.file("-o --output", "The file to write.", "CONFIG", required=True)
def init(system: str, output: str, **given: Any) -> None:
    """Write CONFIG, the file of an experiment, for SYSTEM and parallel text.

    SYSTEM is the folder of 'build', or a moses.ini. Rows and networks are chosen by the amount of
    text and the time. All files are checked, and the search is measured. The expected time of each
    step is printed.
    """
    from phrasescore.io.text_table import text_table
    from phrasescore.workflows.experiment.init import init_experiment

    new = init_experiment(system, output, **given)
    rows = [(format_duration(seconds), name) for name, seconds in new.steps.items()]
    lines = [*text_table(rows, "rl"), f"In all: {format_duration(new.seconds)}"]
    lines += [f"Saved: {each}" for each in new.saved]
    lines += [f"Without {name}: {problem}" for name, problem in new.without.items()]
    print_text("\n".join(lines))
    next_step.suggest()
