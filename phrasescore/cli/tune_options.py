"""The command line's options of ``phrasescore tune``, in groups."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from phrasescore.cli.options import check_features

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

# Those of tuning.methods, which imports what --help need not wait for.
METHODS = ("mert", "mira", "pro", "xbleu")
# Of these, the ones that find the same weights with every seed.
NOT_RANDOM = ("xbleu",)
METRICS = ("bleu", "chrf")
REFERENCE_LENGTHS = ("closest", "shortest", "average")


def parse_metrics(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """Return the weight of each metric.

    :raises click.BadParameter: if a value is no metric with a weight, or one comes twice.
    """
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


def _file(*flags: str, text: str) -> Callable[[Any], Any]:
    return click.option(*flags, metavar="FILE", help=text)


def _files(*flags: str, text: str) -> Callable[[Any], Any]:
    return click.option(*flags, multiple=True, metavar="FILE", help=text)


def _count(*flags: str, default: int, text: str, least: int = 1) -> Callable[[Any], Any]:
    number = click.IntRange(min=least)
    return click.option(*flags, type=number, default=default, show_default=True, help=text)


def _inputs() -> Iterator[Callable[[Any], Any]]:
    """Yield the options for the lists, and for the weights to start from."""
    yield _files(
        *("--references", "--refs"),
        text="Reference translations, line by line; again for another set. FILE0, FILE1 "
        "and so on where there is no FILE, as in mert-moses.pl.",
    )
    yield _files("--features", text="Features as Moses' extractor writes them, in place of NBEST.")
    yield _files("--scores", text="Their BLEU statistics, in place of references.")
    yield _file(
        "--weights",
        text="Start weights, those the lists were made with: 'Name= value' lines, or a "
        "moses.ini. Features without a weight start at 0.",
    )
    yield _file(
        "--ifile",
        text="Start weights as mert has them (init.opt): numbers in the order of --features.",
    )
    yield _file(
        *("--moses-ini", "--config", "moses_ini"),
        text="The moses.ini to change; its weights are the start where --weights is not.",
    )
    yield _file(
        "--moses-ini-out",
        text="Where it goes with the new weights; features that no list has keep theirs.",
    )
    yield _file(
        "--features-out", text="Write the pooled lists for Moses' mert and kbmira (--ffile)."
    )
    yield _file("--scores-out", text="Write their BLEU statistics (--scfile).")
    yield _file("--ifile-out", text="Write the weights for Moses' mert (--ifile).")


def _search() -> Iterator[Callable[[Any], Any]]:
    """Yield the options for the method."""
    yield click.option(
        "--method",
        type=click.Choice(METHODS),
        default="mert",
        show_default=True,
        help="mert for up to some twenty features; pro, mira and xbleu for many.",
    )
    yield click.option(
        "--metric",
        "metrics",
        multiple=True,
        default=("bleu",),
        show_default=True,
        callback=parse_metrics,
        metavar="bleu|chrf[=WEIGHT]",
        help="What is raised; given twice, the weighted mean of both.",
    )
    yield click.option(
        "--reference-length",
        type=click.Choice(REFERENCE_LENGTHS),
        default="closest",
        show_default=True,
        help="Of several references, whose length BLEU takes.",
    )
    yield _count(
        *("--starts", "--random-restarts", "starts"),
        default=20,
        least=0,
        text="Of mert: random starts besides the given weights.",
    )
    yield click.option(
        "--plateau-smoothing",
        type=click.IntRange(min=0),
        metavar="N",
        default=0,
        show_default=True,
        help="Of mert: a weight is worth no more than the worst of the N intervals of its "
        "line on each side.",
    )
    yield _count(
        "--replicas",
        default=1,
        text="Run with N seeds, report the spread, and average the weights.",
    )
    yield click.option(
        "--cross-validate",
        type=click.IntRange(min=2),
        metavar="K",
        help="Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
    )
    yield click.option(
        "--fix",
        "fixed",
        multiple=True,
        metavar="NAME",
        help="Leave the weights of this feature alone; NAME_0 for its first value.",
    )


def _loop() -> Iterator[Callable[[Any], Any]]:
    """Yield the options for rounds with a decoder; second names are those of mert-moses.pl."""
    yield click.option(
        "--decoder",
        metavar="COMMAND",
        help="Decode, pool and optimise in rounds. Moses' command, as 'moses -f "
        "moses.ini'; 'embedded', the search of phrasescore decode, with --config; or "
        "another's, with {nbest}, {weights} and {size} in it.",
    )
    yield click.option(
        "--decoder-flags",
        default="",
        metavar="FLAGS",
        help="More of that command; of embedded, options of phrasescore decode.",
    )
    yield _file("--source", "--input", text="The text that is decoded.")
    yield click.option(
        "--working-dir",
        metavar="DIR",
        default="mert-work",
        show_default=True,
        help="Where the loop keeps lists, logs, its state and the best moses.ini.",
    )
    yield _count(
        *("--iterations", "--maximum-iterations", "iterations"), default=25, text="Rounds at most."
    )
    yield _count(
        *("--nbest-size", "--nbest", "nbest_size"), default=100, text="Hypotheses per list."
    )
    yield _count(
        "--patience",
        default=5,
        text="Rounds without a better translation after which the loop ends.",
    )
    yield _file(
        "--translations",
        text="Write the best round's translations of --source: its lists, reranked.",
    )
    yield click.option(
        "--rescore",
        multiple=True,
        metavar="MODEL",
        help="Add this model's score to the lists of each round.",
    )
    for flag, name, score in (
        ("--lm", "lms", "an n-gram model's score"),
        ("--lexicon", "lexicons", "the score of Moses' lex.f2e"),
        ("--reverse-lexicon", "reverse_lexicons", "the score of Moses' lex.e2f"),
    ):
        text = f"Add {score} to them, as rescore {flag} does."
        yield _files(f"--rescore{flag[1:]}", f"rescore_{name}", text=text)
    yield click.option(
        "--rescore-feature",
        "rescore_features",
        multiple=True,
        metavar="NAME[@N]",
        callback=check_features,
        help="Add this feature to them, as rescore --feature does.",
    )
    yield click.option(
        *("--resume", "--continue", "resume"),
        is_flag=True,
        help="Go on with the run in --working-dir.",
    )


def all_options(command: _Decorated) -> _Decorated:
    """Add the options of ``tune``, but for those that other verbs have as well."""
    for option in reversed([*_inputs(), *_search(), *_loop()]):
        command = option(command)
    return command
