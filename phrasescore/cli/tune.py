"""``phrasescore tune``: tune a system in rounds, or weights on n-best lists."""

from dataclasses import replace
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading, names_of, only
from phrasescore.cli.progress import show_progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.training import ListTuning, RoundTuning, TuningMethod

_SHARED = {"references", "start", "output", "report"}
_OF_LISTS = _SHARED | {"lists", "threads"} | names_of(ListTuning)
# What a command builds the system from, and how it is tuned.
_OF_SYSTEM = {"names", "decoder", "decoder_flags", "nbest_size", "changes"}
_OF_ROUNDS = _SHARED | {"source", "work", "tokenized", "resume"}
_OF_ROUNDS |= names_of(RoundTuning, Compute)


@options.verb(
    "Find the feature weights with the highest BLEU",
    "tune model --source dev.en --references dev.fr -o tuned",
    main="--source --references --weights --lists --decoder -o --resume",
)
@options.argument("names", metavar="[SYSTEM]", nargs=-1)
@heading("Input")
@options.file("--source", "The source text.")
@options.references()
@options.flag("--tokenized", "The source and the references are the system's words.")
@options.file(
    "--weights start",
    "Start weights: a file of 'Name= value' lines, a moses.ini or a system. For --lists, the "
    "weights with which they were made.",
)
@options.files("--lists", "Tune on these n-best lists, and write only weights.", "NBEST")
@heading("Rounds of a system")
@options.option(
    "--decoder",
    "Translate with Moses' command, such as 'moses -f moses.ini', or another command that contains "
    "{nbest}, {weights} and {size}.",
    metavar="COMMAND",
)
@options.option(
    "--decoder-flags",
    "More options for the decoder's command.",
    metavar="FLAGS",
    default="",
    show_default=False,
)
@options.option(
    "--nbest-size",
    "Number of hypotheses per list.",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="the system's",
)
@options.option(
    "--set changes",
    "Change a limit of the search, as in limits.stack=30. Repeatable.",
    metavar="NAME=VALUE",
    multiple=True,
)
@options.file(
    "--working-dir work",
    "The folder for the lists, the logs and the state of the run.",
    "DIR",
    show_default="OUTPUT.work",
)
@options.of(TuningMethod)
@options.of(ListTuning, without=names_of(TuningMethod))
@options.of(RoundTuning, without=names_of(TuningMethod))
@heading("Output")
@options.file(
    "--report",
    "Write each feature's weight and contribution, and the metric without the feature; as JSON if "
    "FILE ends in .json.",
)
@options.of(Compute, without=["precision"])
@options.output
@heading("Long runs")
@options.flag("--resume", "Continue the run in --working-dir.")
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> None:
    """Find feature weights that increase BLEU on a development set, and write the tuned SYSTEM.

    Each round translates the source text, adds the n-best lists to those of all earlier rounds, and
    optimises, as mert-moses.pl does. BLEU before and after tuning is on stderr. With --lists, the
    weights are tuned on n-best lists that exist, and are written as 'Name= value' lines.
    """
    _check_mode(ctx, given)
    if given["lists"]:
        from phrasescore.workflows.tune_lists import tune as tune_lists

        given["lists"] += given["names"]
        tune_lists(**grouped(tune_lists, only(given, _OF_LISTS)), progress=show_progress)
    else:
        from phrasescore.systems.system import System, read_system
        from phrasescore.workflows.tune_system import tune_system

        names, changes = given["names"], given["changes"]
        if given["decoder"] is not None:
            command = f"{given['decoder']} {given['decoder_flags']}".strip()
            system = System.of_command(command, names[0] if names else None, changes)
        else:
            system = read_system(names[0], changes)
        if given["nbest_size"] is not None:
            system = replace(system, nbest_size=given["nbest_size"])
        own = grouped(tune_system, only(given, _OF_ROUNDS))
        tune_system(system, **own, progress=show_progress)
    next_step.suggest()


def _check_mode(ctx: click.Context, given: dict[str, Any]) -> None:
    decoder, names = given["decoder"], given["names"]
    if decoder == "embedded":
        raise click.UsageError("--decoder embedded is gone: give the moses.ini as SYSTEM")
    needed = {"references": "--references"}
    if given["lists"]:
        allowed = {*_OF_LISTS, "names", "device"}
        options.refuse_others(ctx, allowed, "cannot be used with --lists")
        needed |= {"start": "--weights, with which the lists were made,"}
    elif len(names) > 1 or not (names or decoder):
        raise click.UsageError("expected one SYSTEM, or --lists, or --decoder")
    else:
        from phrasescore.systems.folder import find_system_file

        for name in names:
            find_system_file(name)  # an n-best list here is a usual mistake
        options.refuse_others(ctx, _OF_SYSTEM | _OF_ROUNDS, "requires --lists")
        needed |= {"source": "--source", "output": "-o, the folder for the tuned system"}
    for name, option in needed.items():
        # The folder of a system cannot be stdout, which is the usual output.
        if given[name] in (None, ()) or (name == "output" and given[name] == "-"):
            raise click.UsageError(f"{option} is required")
