"""``phrasescore build``, ``build-lm``, ``init`` and ``experiment``: build systems, compare them."""

import logging
import os
from functools import partial
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.messages import print_text, say, typed_command
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.progress import format_count, format_duration
from phrasescore.settings.building import Building, Estimating
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.signals import EndedBySignal

_logger = logging.getLogger(__name__)

_text = partial(options.file, nargs=2, required=True)


@options.verb(
    "Build a phrase-based system from parallel text",
    "build train.en train.fr -o system",
    main="-o --tokenize --truecase --lm --lm-text --workers --resume",
)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@heading("Output")
@options.file("-o --output", "The folder of the new system.", "MODEL", required=True)
@heading("Input")
@options.file("--alignments", "Use these word alignments, such as 0-0 1-2, instead of aligning.")
@options.file("--lm", "Use this n-gram model instead of one of TARGET; it is not copied.")
@options.files("--lm-text lm_texts", "More text in the target language, for a second n-gram model.")
@options.of(Building, tokenize={"multiple": False, "nargs": 2})
@options.of(Compute, only=("workers",), workers={"show_default": "all cores"})
@options.resume
def build(source: str, target: str, output: str, **given: Any) -> None:
    """Build a phrase-based system from parallel text, SOURCE and TARGET, without Moses.

    The words are aligned, phrase pairs are extracted and scored, and an n-gram model is estimated.
    The folder MODEL gets the files that Moses' train-model.perl writes, and a moses.ini with Moses'
    default weights. The state of a run is in MODEL.work.
    """
    from phrasescore.workflows.building.system import build as run

    done = run(source, target, output, **grouped(run, given), progress=show_progress)
    pairs = format_count(done.pairs, "phrase pairs")
    _logger.info("%s: %s, %s", output, format_count(done.sentences, "sentence pairs"), pairs)
    next_step.suggest()


def _numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        return tuple(map(int, (value or "").split()))
    except ValueError:
        problem = f"expected whole numbers separated by spaces, got {value!r}"
        raise click.BadParameter(problem) from None


@options.verb("Estimate an n-gram language model", "build-lm train.fr -o lm.fr.arpa.gz")
@options.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@options.of(
    Estimating, prune={"type": str, "multiple": False, "default": None, "callback": _numbers}
)
@heading("Output")
@options.output
def build_lm(texts: tuple[str, ...], output: str, **given: Any) -> None:
    """Estimate an n-gram model of TEXT (tokenised sentences), and write an ARPA file.

    The model has modified Kneser-Ney smoothing. KenLM's lmplz writes the same file. Texts may be
    larger than memory: n-grams are sorted in temporary files in the folder $TMPDIR.
    """
    from phrasescore.workflows.building.language_model import build_lm as run

    done = run(texts, output, **grouped(run, given), progress=show_progress)
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(done.ngrams, start=1))
    _logger.info("build-lm: %s; %s", format_count(done.lines, "lines"), ngrams)
    next_step.suggest()


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
        steps = [
            (str(number), "done" if is_done else "to do", step.name)
            for number, (step, is_done) in planned
        ]
        print_text("\n".join(text_table(steps, "rl", wrap=True)))
    else:
        try:
            table = run_experiment(
                config,
                output,
                rows=wanted,
                command=typed_command(),
                show=lambda table: show_progress.show_above(["", *table.lines(), ""]),
                progress=show_progress,
            )
        except (KeyboardInterrupt, EndedBySignal):
            say(f"stopped; the same command continues: {typed_command()}")
            raise
        finally:
            show_progress.close()
        print_text(table.to_text())
        page = os.path.join(output, REPORT, "index.html")
        folder = output if table.chosen.system else None
        next_step.suggest(output=page, folder=folder, choice=table.chosen.name)


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
    metavar="NUMBER",
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
    from phrasescore.io.text_table import text_table, wrapped
    from phrasescore.workflows.experiment.init import init_experiment

    new = init_experiment(system, output, **given)
    rows = [(format_duration(seconds), name) for name, seconds in new.steps.items()]
    lines = [*text_table(rows, "rl"), f"In all: {format_duration(new.seconds)}"]
    lines += [f"Saved: {each}" for each in new.saved]
    lines += [f"Without {name}: {problem}" for name, problem in new.without.items()]
    print_text("\n".join(part for line in lines for part in wrapped(line)))
    next_step.suggest()
