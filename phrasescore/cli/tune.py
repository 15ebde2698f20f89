"""``phrasescore tune``: find the weights that make the best translations of the n-best lists."""

import shlex
from typing import Any

import click
from click.core import ParameterSource

from phrasescore.cli import from_settings, options, tune_options
from phrasescore.cli.decode import decode
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import FeedForwardScoring
from phrasescore.workflows.search_settings import SearchSettings

# The parameters of the engine that rescores lists.
OF_ENGINE = ("engine", "workers", "ray_address", "allow_unlike")
_COLUMNS = ("models", "language_models", "lexicons", "reverse_lexicons", "features")


@click.command(cls=Verb)
@options.argument("lists", metavar="[NBEST]...", nargs=-1)
@tune_options.own_options
@heading("Networks and features")
@from_settings.of(FeedForwardScoring)
@heading("Output")
@options.output
@options.report_format
@heading("Method")
@options.seed
@from_settings.of(Compute, only=("device", "threads"))
@options.verbosity
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> None:
    """Find feature weights that raise BLEU on NBEST, Moses' n-best lists of a development set.

    Lists of several files are pooled. The weights found are never worse on them than those given.
    They are written as 'Name= value' lines, which rerank and Moses' tools read. With --decoder
    the lists are made in rounds, as by mert-moses.pl. The last line on stderr has the BLEU reached.

    Without lists, --weights FILE --moses-ini INI --moses-ini-out FILE puts the weights into the
    moses.ini, and tunes nothing.
    """
    decoder = given["decoder"]
    if _only_merges(ctx):
        from phrasescore.workflows.tune.lists import merge_weights

        merge_weights(given["start"], given["moses_ini"], given["moses_ini_out"])
    elif decoder is None:
        from phrasescore.workflows.tune.lists import tune as tune_lists

        wanted = options.arguments_of(tune_lists, given)
        options.refuse_others(ctx, {*wanted, "device"}, "only with --decoder")
        tune_lists(**wanted, progress=show_progress)
    else:
        from phrasescore.workflows.tune.loop import tune_with_decoder

        engine = from_settings.take(Compute, {n: given[n] for n in OF_ENGINE})
        wanted = {**options.arguments_of(tune_with_decoder, given), "engine": engine}
        others = {f"rescore_{name}" for name in _COLUMNS} | {"decoder_flags", *OF_ENGINE}
        options.refuse_others(ctx, {*wanted, *others}, "not with --decoder")
        flags = given["decoder_flags"]
        wanted["decoder"] = (
            _search_settings(flags) if decoder == "embedded" else f"{decoder} {flags}".strip()
        )
        wanted["columns"] = [
            options.column_spec(name, value)
            for name in _COLUMNS
            for value in given[f"rescore_{name}"]
        ]
        tune_with_decoder(**wanted, progress=show_progress)


def _only_merges(ctx: click.Context) -> bool:
    """Return whether the weights of a file are put into a moses.ini, and nothing is tuned.

    :raises click.UsageError: if the parameters are neither for this nor for one kind of tuning.
    """
    given = options.given_flags(ctx).keys()
    merged = {"start", "moses_ini", "moses_ini_out"}
    inputs = {"lists", "features", "scores", "references", "decoder"}
    kinds = "give one of NBEST, --features with --scores, and --decoder"
    if merged <= given and not inputs & given:
        if given - {*merged, "seed", "device", "threads"}:
            raise click.UsageError(
                f"{kinds}; without them, --weights, --moses-ini and --moses-ini-out alone put "
                "weights into a moses.ini"
            )
        return True
    if ("lists" in given) + bool({"features", "scores"} & given) + ("decoder" in given) != 1:
        raise click.UsageError(kinds)
    missing = [name for name in ("source", "references") if name not in given]
    if "decoder" in given and missing:
        raise click.UsageError(f"--decoder needs --{missing[0]}")
    return False


def _search_settings(flags: str) -> SearchSettings:
    """Return the settings of the embedded search that options of ``decode`` give.

    :raises click.UsageError: if one is not of decode, or is not the user's to set here.
    """
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise click.UsageError(f"--decoder-flags: cannot split them: {error}") from error
    for flag in words:
        if flag.partition("=")[0] in ("--config", "-f", "--help", "-h"):
            raise click.UsageError(f"--decoder-flags: expected options of a search, found {flag}")
    with decode.make_context("--decoder-flags", [*words, "--config", "-", "--", "-"]) as context:
        settings = SearchSettings(**options.arguments_of(SearchSettings, context.params))
        for param in decode.params:
            name = param.name or ""
            is_set = name in context.params.keys() - {"source", "config"}
            is_given = context.get_parameter_source(name) != ParameterSource.DEFAULT
            if is_set and is_given and not hasattr(settings, name):
                raise click.UsageError(f"--decoder-flags: the loop sets {param.opts[0]} itself")
        return settings
