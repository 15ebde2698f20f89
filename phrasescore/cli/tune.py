"""``phrasescore tune``: find the weights that make the best translations of the n-best lists."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from phrasescore.cli import options, tune_options
from phrasescore.cli.progress import show_progress

if TYPE_CHECKING:
    from phrasescore.workflows.search_settings import SearchSettings

# Parameters for n-best lists alone, for rounds with a decoder alone, and for both.
_OF_LISTS = (
    *("lists", "features", "scores", "ifile", "features_out", "scores_out", "ifile_out"),
    *("replicas", "cross_validate"),
)
_OF_LOOP = (
    *("source", "folder", "iterations", "nbest_size", "patience"),
    *("translations", "backoff_lm", "unnormalized", "resume"),
)
_COLUMNS = ("models", "language_models", "lexicons", "reverse_lexicons", "features")
_OF_BOTH = (
    *("references", "start", "output", "method", "metrics", "reference_length", "starts"),
    *("plateau_smoothing", "fixed", "moses_ini", "moses_ini_out", "report", "report_format"),
    *("seed", "threads"),
)


@click.command()
@click.argument("lists", metavar="[NBEST]...", nargs=-1)
@tune_options.all_options
@options.cslm
@options.output
@options.report_format
@options.seed
@options.device
@options.threads
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

        tune_lists(
            **{name: given[name] for name in (*_OF_LISTS, *_OF_BOTH)}, progress=show_progress
        )
    else:
        from phrasescore.workflows.tune.loop import tune_with_decoder

        flags = given["decoder_flags"]
        tune_with_decoder(
            _search_settings(flags) if decoder == "embedded" else f"{decoder} {flags}".strip(),
            columns=[
                options.column_spec(name, value)
                for name in _COLUMNS
                for value in given[f"rescore_{name}"]
            ],
            device=given["device"],
            progress=show_progress,
            **{name: given[name] for name in (*_OF_LOOP, *_OF_BOTH)},
        )


def _given(ctx: click.Context) -> dict[str, str]:
    """Return the flags of the parameters on the command line, by the parameters' names."""
    return {
        param.name: param.opts[0]
        for param in ctx.command.params
        if param.name in ctx.params
        and ctx.get_parameter_source(param.name) != ParameterSource.DEFAULT
        and ctx.params[param.name] != ()
    }


def _only_merges(ctx: click.Context) -> bool:
    """Return whether the weights of a file are put into a moses.ini, and nothing is tuned.

    :raises click.UsageError: if the parameters are neither for this nor for one kind of tuning.
    """
    given = _given(ctx)
    merged = {"start", "moses_ini", "moses_ini_out"}
    inputs = {"lists", "features", "scores", "references", "decoder"}
    if not merged <= given.keys() or inputs & given.keys():
        _check_kind(given)
        return False
    if given.keys() - {*merged, "seed", "device", "threads"}:
        raise click.UsageError(
            "give one of NBEST, --features with --scores, and --decoder; without them, "
            "--weights, --moses-ini and --moses-ini-out alone put weights into a moses.ini"
        )
    return True


def _check_kind(given: Mapping[str, str]) -> None:
    """Check that there is one kind of input, and that all options are for it.

    :raises click.UsageError: if not.
    """
    extracted = "features" in given or "scores" in given
    if ("lists" in given) + extracted + ("decoder" in given) != 1:
        raise click.UsageError("give one of NBEST, --features with --scores, and --decoder")
    if "decoder" in given:
        if wrong := [flag for name, flag in given.items() if name in _OF_LISTS]:
            raise click.UsageError(f"{', '.join(wrong)}: not with --decoder")
        if "source" not in given:
            raise click.UsageError("--decoder needs --source, the text to translate")
        if "references" not in given:
            raise click.UsageError("--references is needed")
    elif wrong := [
        flag
        for name, flag in given.items()
        if name in (*_OF_LOOP, "decoder_flags") or name.startswith("rescore_")
    ]:
        raise click.UsageError(f"{', '.join(wrong)}: with --decoder")


def _search_settings(flags: str) -> "SearchSettings":
    """Return the settings of the embedded search that options of ``decode`` give.

    :raises click.UsageError: if one is not of decode, or is not the user's to set here.
    """
    from phrasescore.cli.decode import decode, search_settings

    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise click.UsageError(f"--decoder-flags: cannot split them: {error}") from error
    for flag in words:
        if flag.partition("=")[0] in ("--config", "-f", "--help", "-h"):
            raise click.UsageError(f"--decoder-flags: expected options of a search, found {flag}")
    with decode.make_context("--decoder-flags", [*words, "--config", "-", "--", "-"]) as context:
        settings = search_settings(context.params)
        for param in decode.params:
            name = param.name or ""
            is_set = name in context.params.keys() - {"source", "config"}
            is_given = context.get_parameter_source(name) != ParameterSource.DEFAULT
            if is_set and is_given and not hasattr(settings, name):
                raise click.UsageError(f"--decoder-flags: the loop sets {param.opts[0]} itself")
        return settings
