"""The command line's options of ``phrasescore tune``, in groups."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from phrasescore.cli.options import check_features
from phrasescore.cli.tune_options import METHODS, METRICS, REFERENCE_LENGTHS

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _parse_metrics(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        name, separator, share = value.partition("=")
        try:
            weight = float(share) if separator else 1.0
        except ValueError:
            weight = 0.0
        if name not in METRICS or not 0 < weight < float("inf") or name in found:
            problem = f"expected {' or '.join(METRICS)} once, or bleu=WEIGHT, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
        found[name] = weight
    return found


def _apply(command: _Decorated, decorators: list[Callable[[Any], Any]]) -> _Decorated:
    for decorator in decorators[::-1]:
        command = decorator(command)
    return command


def _other_columns() -> Iterator[Callable[[Any], Any]]:
    """Yield the options for what rescore adds beside networks, under the names it has there."""
    for flag, name, what in (
        ("--lm", "lms", "an n-gram model's score"),
        ("--lexicon", "lexicons", "the score of Moses' lex.f2e"),
        ("--reverse-lexicon", "reverse_lexicons", "the score of Moses' lex.e2f"),
    ):
        yield click.option(
            f"--rescore{flag[1:]}",
            f"rescore_{name}",
            multiple=True,
            metavar="FILE",
            help=f"Add {what} to them, as rescore {flag} does.",
        )
    yield click.option(
        "--rescore-feature",
        "rescore_features",
        multiple=True,
        metavar="NAME[@N]",
        callback=check_features,
        help="Add this feature to them, as rescore --feature does.",
    )


def inputs(command: _Decorated) -> _Decorated:
    """Add what is tuned on, and the weights to start from."""
    return _apply(
        command,
        [
            click.option(
                "--references",
                "--refs",
                multiple=True,
                metavar="FILE",
                help="Reference translations, line by line; again for another set. FILE0, FILE1 "
                "and so on where there is no FILE, as in mert-moses.pl.",
            ),
            click.option(
                "--features",
                multiple=True,
                metavar="FILE",
                help="Features as Moses' extractor writes them, in place of NBEST.",
            ),
            click.option(
                "--scores",
                multiple=True,
                metavar="FILE",
                help="Their BLEU statistics, in place of references.",
            ),
            click.option(
                "--weights",
                metavar="FILE",
                help="Start weights, those the lists were made with: 'Name= value' lines, or a "
                "moses.ini. Features without a weight start at 0.",
            ),
            click.option(
                "--ifile",
                metavar="FILE",
                help="Start weights as mert has them (init.opt): numbers in the order of "
                "--features.",
            ),
            click.option(
                "--moses-ini",
                "--config",
                "moses_ini",
                metavar="FILE",
                help="The moses.ini to change; its weights are the start where --weights is not.",
            ),
            click.option(
                "--moses-ini-out",
                metavar="FILE",
                help="Where it goes with the new weights; features that no list has keep theirs.",
            ),
            click.option(
                "--features-out",
                metavar="FILE",
                help="Write the pooled lists for Moses' mert and kbmira (--ffile).",
            ),
            click.option(
                "--scores-out", metavar="FILE", help="Write their BLEU statistics (--scfile)."
            ),
            click.option(
                "--ifile-out", metavar="FILE", help="Write the weights for Moses' mert (--ifile)."
            ),
        ],
    )


def search(command: _Decorated) -> _Decorated:
    """Add how weights are looked for."""
    return _apply(
        command,
        [
            click.option(
                "--method",
                type=click.Choice(METHODS),
                default="mert",
                show_default=True,
                help="mert for up to some twenty features; pro, mira and xbleu for many.",
            ),
            click.option(
                "--metric",
                "metrics",
                multiple=True,
                default=("bleu",),
                show_default=True,
                callback=_parse_metrics,
                metavar="bleu|chrf[=WEIGHT]",
                help="What is raised; given twice, the weighted mean of both.",
            ),
            click.option(
                "--reference-length",
                type=click.Choice(REFERENCE_LENGTHS),
                default="closest",
                show_default=True,
                help="Of several references, whose length BLEU takes.",
            ),
            click.option(
                "--starts",
                "--random-restarts",
                "starts",
                type=click.IntRange(min=0),
                default=20,
                show_default=True,
                help="Of mert: random starts besides the given weights.",
            ),
            click.option(
                "--plateau-smoothing",
                type=click.IntRange(min=0),
                metavar="N",
                default=0,
                show_default=True,
                help="Of mert: a weight is worth no more than the worst of the N intervals of its "
                "line on each side.",
            ),
            click.option(
                "--replicas",
                type=click.IntRange(min=1),
                default=1,
                show_default=True,
                help="Run with so many seeds, report the spread, and average the weights.",
            ),
            click.option(
                "--cross-validate",
                type=click.IntRange(min=2),
                metavar="K",
                help="Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
            ),
            click.option(
                "--fix",
                "fixed",
                multiple=True,
                metavar="NAME",
                help="Leave the weights of this feature alone; NAME_0 for its first value.",
            ),
        ],
    )


# Of the loop, and not refused by `TuneOptions` for what they hold, since they have a default.
_LOOP = ("iterations", "nbest_size", "patience", "working_dir")


def check_loop(ctx: click.Context) -> None:
    """Refuse options of the loop where there is none.

    :raises click.UsageError: if there is one on the command line.
    """
    given = [
        param.opts[0]
        for param in ctx.command.params
        if param.name in _LOOP and ctx.get_parameter_source(param.name) != ParameterSource.DEFAULT
    ]
    if given and ctx.params["decoder"] is None:
        raise click.UsageError(f"{', '.join(given)}: with --decoder")


def loop(command: _Decorated) -> _Decorated:
    """Add the loop with a decoder; the second names are those of mert-moses.pl."""
    return _apply(
        command,
        [
            click.option(
                "--decoder",
                metavar="COMMAND",
                help="Decode, pool and optimise in rounds. Moses' command, as 'moses -f "
                "moses.ini'; 'embedded', the search of phrasescore decode, with --config; or "
                "another's, with {nbest}, {weights} and {size} in it.",
            ),
            click.option(
                "--decoder-flags",
                default="",
                metavar="FLAGS",
                help="More of that command; of embedded, options of phrasescore decode.",
            ),
            click.option("--source", "--input", metavar="FILE", help="What is decoded."),
            click.option(
                "--working-dir",
                metavar="DIR",
                default="mert-work",
                show_default=True,
                help="Where the loop keeps lists, logs, its state and the best moses.ini.",
            ),
            click.option(
                "--iterations",
                "--maximum-iterations",
                "iterations",
                type=click.IntRange(min=1),
                default=25,
                show_default=True,
                help="Rounds at most.",
            ),
            click.option(
                "--nbest-size",
                "--nbest",
                "nbest_size",
                type=click.IntRange(min=1),
                default=100,
                show_default=True,
                help="Hypotheses in a list.",
            ),
            click.option(
                "--patience",
                type=click.IntRange(min=1),
                default=5,
                show_default=True,
                help="Rounds without a better translation after which the loop ends.",
            ),
            click.option(
                "--translations",
                metavar="FILE",
                help="Write the best round's translations of --source: its lists, reranked.",
            ),
            click.option(
                "--rescore",
                multiple=True,
                metavar="MODEL",
                help="Add this model's score to the lists of each round.",
            ),
            *_other_columns(),
            click.option(
                "--resume",
                "--continue",
                "resume",
                is_flag=True,
                help="Go on with the run in --working-dir.",
            ),
        ],
    )
