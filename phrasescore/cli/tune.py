"""``phrasescore tune``: find the weights that make the best translations of the n-best lists."""

import shlex
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from phrasescore.cli import options, tune_options
from phrasescore.cli.progress import show_progress

if TYPE_CHECKING:
    from phrasescore.workflows.search_settings import SearchSettings

# The search of this package, as --decoder names it.
EMBEDDED = "embedded"
# Parameters for n-best lists alone, for rounds with a decoder alone, and for both.
_OF_LISTS = (
    *("nbest", "features", "scores", "ifile", "features_out", "scores_out", "ifile_out"),
    *("replicas", "cross_validate"),
)
_COLUMNS = {
    "rescore": "models",
    "rescore_lms": "language_models",
    "rescore_lexicons": "lexicons",
    "rescore_reverse_lexicons": "reverse_lexicons",
    "rescore_features": "features",
}
_OF_LOOP = (
    *("decoder_flags", "source", "working_dir", "iterations", "nbest_size", "patience"),
    *("translations", *_COLUMNS, "backoff_lm", "unnormalized", "resume", "device"),
)
_OF_BOTH = (
    *("method", "metrics", "reference_length", "starts", "plateau_smoothing", "fixed"),
    *("moses_ini", "moses_ini_out", "report", "report_format", "seed", "threads"),
)
_MERGED = ("weights", "moses_ini", "moses_ini_out")
# Parameters of decode that the loop sets itself.
_SET_BY_LOOP = (
    *("weights", "nbest", "distinct", "alignment", "decoder", "moses_bin"),
    *("feature_weights", "output"),
)


@click.command()
@click.argument("nbest", metavar="[NBEST]...", nargs=-1)
@tune_options.all_options
@click.option(
    "--report",
    metavar="FILE",
    help="Write each feature's weight, its contribution, and the metric without it.",
)
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
    if _only_merges(ctx):
        from phrasescore.workflows.tune.lists import merge_weights

        merge_weights(*(given[name] for name in _MERGED))
        return
    _check_kind(ctx)
    common = {name: given[name] for name in _OF_BOTH}
    if given["decoder"] is None:
        from phrasescore.workflows.tune.lists import tune as tune_lists

        of_lists = {name: given[name] for name in _OF_LISTS if name != "nbest"}
        tune_lists(
            given["nbest"],
            given["references"],
            given["weights"],
            given["output"],
            **common,
            **of_lists,
        )
        return
    from phrasescore.workflows.tune.loop import tune_with_decoder

    taken = ("source", "working_dir", "device", *_COLUMNS)
    of_loop = {name: given[name] for name in _OF_LOOP if name not in taken}
    decoder = given["decoder"]
    tune_with_decoder(
        _search_settings(given["decoder_flags"]) if decoder == EMBEDDED else decoder,
        given["source"],
        given["references"],
        given["weights"],
        given["working_dir"],
        output=given["output"],
        columns=[
            options.column_spec(option, value)
            for name, option in _COLUMNS.items()
            for value in given[name]
        ],
        device=given["device"],
        progress=show_progress,
        **common,
        **of_loop,
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
    """Return whether the weights of a file are put into a moses.ini, and nothing is tuned."""
    given = _given(ctx)
    inputs = {"nbest", "features", "scores", "references", "decoder"}
    if not set(_MERGED) <= given.keys() or inputs & given.keys():
        return False
    if given.keys() - {*_MERGED, "seed", "device", "threads"}:
        raise click.UsageError(
            "give one of NBEST, --features with --scores, and --decoder; without them, "
            "--weights, --moses-ini and --moses-ini-out alone put weights into a moses.ini"
        )
    return True


def _check_kind(ctx: click.Context) -> None:
    """Check that there is one kind of input, and that all options are for it.

    :raises click.UsageError: if not.
    """
    given = _given(ctx)
    extracted = "features" in given or "scores" in given
    if ("nbest" in given) + extracted + ("decoder" in given) != 1:
        raise click.UsageError("give one of NBEST, --features with --scores, and --decoder")
    if "decoder" in given:
        if wrong := [flag for name, flag in given.items() if name in _OF_LISTS]:
            raise click.UsageError(f"{', '.join(wrong)}: not with --decoder")
        if "source" not in given:
            raise click.UsageError("--decoder needs --source, the text to translate")
        if "references" not in given:
            raise click.UsageError("--references is needed")
    elif wrong := [flag for name, flag in given.items() if name in _OF_LOOP and name != "device"]:
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
        for param in decode.params:
            is_given = context.get_parameter_source(param.name or "") != ParameterSource.DEFAULT
            if is_given and param.name in _SET_BY_LOOP:
                raise click.UsageError(f"--decoder-flags: the loop sets {param.opts[0]} itself")
        return search_settings(context.params)
