"""``phrasescore decode``: translate a text by a Moses model, with either of two engines."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

if TYPE_CHECKING:
    from phrasescore.workflows.search_settings import SearchSettings

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_COUNT = click.IntRange(min=0)
# How far a search goes, by the sections of moses.ini: a field of `SearchSettings`, its type and its
# help.
LIMITS: dict[str, tuple[str, "click.ParamType[Any]", str]] = {
    "stack": ("stack_size", _COUNT, "Hypotheses per stack; 0 for no limit."),
    "beam-threshold": (
        *("beam_threshold", click.FloatRange(0, 1)),
        "Relative to a stack's best; 0 for no limit.",
    ),
    "distortion-limit": (
        *("distortion_limit", click.IntRange(min=-1)),
        "Words; 0 for monotone, -1 for no limit.",
    ),
    "max-phrase-length": ("max_phrase_length", click.IntRange(min=1), "Source words."),
    "search-algorithm": (
        *("algorithm", click.Choice(("normal", "cube"))),
        "Stacks, or cube pruning.",
    ),
    "cube-pruning-pop-limit": (
        *("pop_limit", click.IntRange(min=1)),
        "Of cube pruning: hypotheses taken per stack.",
    ),
    "cube-pruning-diversity": (
        *("diversity", _COUNT),
        "Of cube pruning: hypotheses made of each coverage, at least.",
    ),
    "n-best-factor": (
        *("nbest_factor", _COUNT),
        "Of --distinct: paths looked at for each hypothesis; 0 for 1000.",
    ),
    "stack-diversity": ("stack_diversity", _COUNT, "Hypotheses kept of each coverage."),
}


def _limits(command: _Decorated) -> _Decorated:
    for name, (field, kind, text) in reversed(LIMITS.items()):
        flags = ["--stack", "--stack-size"] if name == "stack" else [f"--{name}"]
        command = click.option(*flags, field, type=kind, show_default="as in moses.ini", help=text)(
            command
        )
    return command


def _parse_weights(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found = {}
    for value in values:
        name, _, number = value.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not name or not abs(weight) < float("inf") or name in found:
            problem = f"expected NAME=VALUE, each name once, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
        found[name] = weight
    return found


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--config",
    "-f",
    metavar="INI",
    required=True,
    help="The moses.ini; its paths begin at the working folder, as in Moses.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Other weights than those of moses.ini: 'Name= value' lines, or a moses.ini.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    type=click.Choice(["cslm"]),
    help="One more feature in the search, CSLM0 in lists; needs a --model.",
)
@click.option(
    "--model", "models", multiple=True, metavar="MODEL", help="Of the --feature, in its order."
)
@click.option(
    "--feature-weight",
    "feature_weights",
    multiple=True,
    callback=_parse_weights,
    metavar="NAME=VALUE",
    help="The weight of a feature, as CSLM0=0.1; goes before --weights.",
)
@options.cslm
@click.option(
    "--nbest",
    nargs=2,
    type=(str, click.IntRange(min=1)),
    metavar="FILE N",
    help="Write the N best translations of each sentence, in Moses' format.",
)
@click.option("--distinct", is_flag=True, help="Only different translations, for --nbest.")
@click.option("--alignment", is_flag=True, help="With word alignments, for --nbest.")
@click.option(
    "--decoder",
    type=click.Choice(("embedded", "moses")),
    default="embedded",
    show_default=True,
    help="The search of this package, or Moses itself.",
)
@click.option("--moses-bin", metavar="DIR", help="Where Moses' programs are, for --decoder moses.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    show_default="all cores",
    help="That translate at the same time; threads of Moses.",
)
@_limits
@click.option(
    "--ignore",
    multiple=True,
    metavar="NAME",
    help="Leave out a feature of moses.ini that the embedded search does not have.",
)
@click.option(
    "--buffer-size",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Requests of the search to a network that are scored together; changes speed only.",
)
@options.output
@options.device
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="cores / processes",
    help="CPU threads of the networks in each process.",
)
@options.verbosity
def decode(
    source: str, config: str, output: str, nbest: tuple[str, int] | None, **given: Any
) -> None:
    """Translate SOURCE, a tokenised sentence per line, by the model of a moses.ini.

    The translations come in the order of the text, one per line; an empty line stays one. Markup
    and factors are refused: '<', '>' and '|' are to be escaped, as Moses' tokenizer does.
    """
    from phrasescore.workflows.decode import decode as run

    names = ("weights", "feature_weights", "distinct", "alignment", "decoder", "moses_bin")
    run(
        source,
        config,
        output,
        nbest=nbest,
        **{name: given[name] for name in names},
        search=search_settings(given),
        progress=show_progress,
    )


def search_settings(given: Mapping[str, Any]) -> "SearchSettings":
    """Return the settings of the search among the parameters of ``decode``."""
    from dataclasses import fields

    from phrasescore.workflows.search_settings import SearchSettings

    return SearchSettings(**{field.name: given[field.name] for field in fields(SearchSettings)})
