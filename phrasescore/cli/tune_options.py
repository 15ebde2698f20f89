"""The command line's options of ``phrasescore tune``, in groups."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, get_args

import click

from phrasescore.cli.options import check_features
from tuning.settings import METHODS, METRICS, ReferenceLength

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


_option = partial(click.option, show_default=True)


def _file(*flags: str, text: str) -> Callable[[Any], Any]:
    return click.option(*flags, metavar="FILE", help=text)


def _files(*flags: str, text: str) -> Callable[[Any], Any]:
    return click.option(*flags, multiple=True, metavar="FILE", help=text)


def _count(*flags: str, default: int, text: str, least: int = 1) -> Callable[[Any], Any]:
    return _option(*flags, type=click.IntRange(min=least), default=default, help=text)


_OPTIONS = [
    # The lists, and the weights to start from.
    _files(
        *("--references", "--refs"),
        text="Reference translations, line by line; again for another set. FILE0, FILE1 "
        "and so on where there is no FILE, as in mert-moses.pl.",
    ),
    _files("--features", text="Features as Moses' extractor writes them, in place of NBEST."),
    _files("--scores", text="Their BLEU statistics, in place of references."),
    _file(
        *("--weights", "start"),
        text="Start weights, those the lists were made with: 'Name= value' lines, or a "
        "moses.ini. Features without a weight start at 0.",
    ),
    _file(
        "--ifile",
        text="Start weights as mert has them (init.opt): numbers in the order of --features.",
    ),
    _file(
        *("--moses-ini", "--config", "moses_ini"),
        text="The moses.ini to change; its weights are the start where --weights is not.",
    ),
    _file(
        "--moses-ini-out",
        text="Where it goes with the new weights; features that no list has keep theirs.",
    ),
    _file("--features-out", text="Write the pooled lists for Moses' mert and kbmira (--ffile)."),
    _file("--scores-out", text="Write their BLEU statistics (--scfile)."),
    _file("--ifile-out", text="Write the weights for Moses' mert (--ifile)."),
    # The method.
    _option(
        "--method",
        type=click.Choice(tuple(METHODS)),
        default="mert",
        help="mert for up to some twenty features; pro, mira and xbleu for many.",
    ),
    _option(
        "--metric",
        "metrics",
        multiple=True,
        default=("bleu",),
        callback=_parse_metrics,
        metavar="bleu|chrf[=WEIGHT]",
        help="What is raised; given twice, the weighted mean of both.",
    ),
    _option(
        "--reference-length",
        type=click.Choice(get_args(ReferenceLength)),
        default="closest",
        help="Of several references, whose length BLEU takes.",
    ),
    _count(
        *("--starts", "--random-restarts", "starts"),
        default=20,
        least=0,
        text="Of mert: random starts besides the given weights.",
    ),
    _option(
        "--plateau-smoothing",
        type=click.IntRange(min=0),
        metavar="N",
        default=0,
        help="Of mert: a weight is worth no more than the worst of the N intervals of its "
        "line on each side.",
    ),
    _count(
        "--replicas",
        default=1,
        text="Run with N seeds, report the spread, and average the weights.",
    ),
    _option(
        "--cross-validate",
        type=click.IntRange(min=2),
        metavar="K",
        help="Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
    ),
    _option(
        "--fix",
        "fixed",
        multiple=True,
        metavar="NAME",
        help="Leave the weights of this feature alone; NAME_0 for its first value.",
    ),
    # Rounds with a decoder; second names are those of mert-moses.pl.
    _option(
        "--decoder",
        metavar="COMMAND",
        help="Decode, pool and optimise in rounds. Moses' command, as 'moses -f "
        "moses.ini'; 'embedded', the search of phrasescore decode, with --config; or "
        "another's, with {nbest}, {weights} and {size} in it.",
    ),
    _option(
        "--decoder-flags",
        default="",
        show_default=False,
        metavar="FLAGS",
        help="More of that command; of embedded, options of phrasescore decode.",
    ),
    _file("--source", "--input", text="The text that is decoded."),
    _option(
        *("--working-dir", "folder"),
        metavar="DIR",
        default="mert-work",
        help="Where the loop keeps lists, logs, its state and the best moses.ini.",
    ),
    _count(
        *("--iterations", "--maximum-iterations", "iterations"), default=25, text="Rounds at most."
    ),
    _count(*("--nbest-size", "--nbest", "nbest_size"), default=100, text="Hypotheses per list."),
    _count(
        "--patience",
        default=5,
        text="Rounds without a better translation after which the loop ends.",
    ),
    _file(
        "--translations",
        text="Write the best round's translations of --source: its lists, reranked.",
    ),
    _option(
        "--rescore",
        "rescore_models",
        multiple=True,
        metavar="MODEL",
        help="Add this model's score to the lists of each round.",
    ),
    *(
        _files(
            f"--rescore-{flag}",
            f"rescore_{name}",
            text=f"Add {score} to them, as rescore --{flag} does.",
        )
        for flag, name, score in (
            ("lm", "language_models", "an n-gram model's score"),
            ("lexicon", "lexicons", "the score of Moses' lex.f2e"),
            ("reverse-lexicon", "reverse_lexicons", "the score of Moses' lex.e2f"),
        )
    ),
    _option(
        "--rescore-feature",
        "rescore_features",
        multiple=True,
        metavar="NAME[@N]",
        callback=check_features,
        help="Add this feature to them, as rescore --feature does.",
    ),
    click.option(
        *("--resume", "--continue", "resume"),
        is_flag=True,
        help="Go on with the run in --working-dir.",
    ),
    _file(
        "--report", text="Write each feature's weight, its contribution, and the metric without it."
    ),
]


def all_options(command: _Decorated) -> _Decorated:
    """Add the options of ``tune``, but for those that other verbs have as well."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
