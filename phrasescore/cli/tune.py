"""``phrasescore tune``: tune feature weights on n-best lists or with a decoder."""

from typing import Any

import click

from phrasescore.cli import columns, next_step, options
from phrasescore.cli.options import heading, names_of, only
from phrasescore.cli.progress import show_progress
from phrasescore.settings import tuning
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from tuning.settings import METRICS

# Parameters that are not fields of settings: shared, for lists, and for rounds with a decoder.
_SHARED = {"references", "start", "output"}
_OF_LISTS = _SHARED | {"lists"}
_OF_ROUNDS = _SHARED | {"source", "folder", "resume"}


def _metric_weights(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    """Return the weights of metrics, NAME[=WEIGHT] each: more than 0, and 1 by default."""
    weights: dict[str, float] = {}
    for value in values:
        name, separator, text = value.partition("=")
        try:
            weight = float(text if separator else "1")
        except ValueError:
            weight = float("nan")
        if not name or not 0 < weight < float("inf") or name in weights:
            expected = f"each metric once, such as {METRICS[0]} or {METRICS[0]}=0.5"
            raise click.BadParameter(f"expected {expected}, got {value!r}", ctx, param)
        weights[name] = weight
    return weights or None


@options.verb(
    "Find the feature weights with the highest BLEU",
    "tune nbest.new.gz --references dev.fr --weights moses.ini -o weights",
    main="--references --weights --source --decoder --moses-ini --moses-ini-out -o --resume",
    kind=columns.OrderedColumns,
)
@options.argument("lists", metavar="[NBEST]...", nargs=-1)
@heading("Input")
@options.references()
@options.file(
    "--weights start",
    "Start weights, with which the lists were made: 'Name= value' lines, or a moses.ini. Features "
    "without a weight start at 0.",
)
@options.file("--source", "The text to decode.")
@heading("Rounds with a decoder")
@options.option(
    "--decoder",
    "Decode, pool and optimise in rounds with a decoder: Moses' command, such as "
    "'moses -f moses.ini'; 'embedded', the search of phrasescore decode, which requires --config; "
    "or another command that contains {nbest}, {weights} and {size}.",
    metavar="COMMAND",
)
@options.option(
    "--decoder-flags",
    "More options for the decoder's command; with 'embedded', options of phrasescore decode.",
    metavar="FLAGS",
    default="",
    show_default=False,
)
@options.file(
    "--working-dir folder",
    "The folder for lists, logs, the state of the run and the best moses.ini.",
    "DIR",
    default="mert-work",
)
@options.of(
    tuning.TuningMethod,
    metrics={
        "multiple": True,
        "callback": _metric_weights,
        "show_default": METRICS[0],
    },
)
@options.of(tuning.ListTuning, without=names_of(tuning.TuningMethod))
@columns.of_rounds
@options.of(tuning.RoundTuning, without=names_of(tuning.TuningMethod))
@options.of(tuning.TuningFiles)
@options.of(tuning.RoundTuningFiles, without=names_of(tuning.TuningFiles))
@options.of(Compute, without=["precision"])
@options.output
@heading("Long runs")
@options.flag("--resume", "Continue the run in --working-dir.")
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> None:
    """Find feature weights that increase BLEU on NBEST, Moses' n-best lists for a development set.

    The lists of several files are pooled. The new weights are never worse on the lists than the
    start weights. They are written as 'Name= value' lines, which rerank and Moses' tools read. With
    --decoder, the lists are made in rounds, as mert-moses.pl does. BLEU before and after tuning is
    on stderr. Without lists, --weights, --moses-ini and --moses-ini-out only write a moses.ini.
    """
    decoder = given["decoder"]
    if _only_merges(ctx):
        from phrasescore.workflows.tune.lists import merge_weights

        merge_weights(given["start"], given["moses_ini"], given["moses_ini_out"])
        next_step.suggest(names=(), rescore_options=())
    elif decoder is None:
        from phrasescore.workflows.tune.lists import tune as tune_lists

        own = _OF_LISTS | names_of(tuning.ListTuning, tuning.TuningFiles) | {"threads"}
        options.refuse_others(ctx, own | {"device"}, "can only be used with --decoder")
        done = tune_lists(**grouped(tune_lists, only(given, own)), progress=show_progress)
        next_step.suggest(names=done.weights.lists.keys(), rescore_options=())
    else:
        from phrasescore.workflows.tune.loop import tune_with_decoder

        own = _OF_ROUNDS | names_of(tuning.RoundTuning, tuning.RoundTuningFiles, Compute)
        wanted = columns.take_columns(ctx, given)
        allowed = {*own, *columns.OF_ROUNDS, "decoder", "decoder_flags"}
        options.refuse_others(ctx, allowed, "cannot be used with --decoder")
        flags = given["decoder_flags"]
        tune_with_decoder(
            f"{decoder} {flags}".strip(),
            **grouped(tune_with_decoder, only(given, own)),
            columns=wanted,
            progress=show_progress,
        )
        words = [word for column in wanted for word in column.options()]
        next_step.suggest(rescore_options=words)


def _only_merges(ctx: click.Context) -> bool:
    """Return whether the command only merges weights into a moses.ini; reject unclear inputs."""
    given = options.given_flags(ctx).keys()
    merged = {"start", "moses_ini", "moses_ini_out"}
    inputs = {"lists", "references", "decoder"}
    kinds = "give either NBEST or --decoder"
    if merged <= given and not inputs & given:
        if given - {*merged, "seed", "device", "threads"}:
            problem = f"{kinds}; without them, only --weights, --moses-ini and --moses-ini-out have"
            raise click.UsageError(f"{problem} an effect: they write a moses.ini with the weights")
        return True
    if ("lists" in given) == ("decoder" in given):
        raise click.UsageError(kinds)
    missing = [name for name in ("source", "references") if name not in given]
    if "decoder" in given and missing:
        raise click.UsageError(f"--decoder requires --{missing[0]}")
    return False
