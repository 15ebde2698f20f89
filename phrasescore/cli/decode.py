"""``phrasescore decode``: translate a text by a Moses model, with either of two engines."""

from functools import partial
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.compute import Compute, SearchCompute
from phrasescore.settings.scoring import FeedForwardScoring
from phrasescore.workflows.search_settings import SEARCH_FEATURES, SearchSettings

# Of a limit of the search.
_FROM_INI = "as in moses.ini"
_limit = partial(options.count, show_default=_FROM_INI)


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


@click.command(cls=Verb)
@options.argument("source", metavar="SOURCE")
@heading("Input")
@options.file(
    "--config -f",
    "The moses.ini; its paths begin at the working folder, as in Moses.",
    "INI",
    required=True,
)
@options.file(
    "--weights", "Other weights than those of moses.ini: 'Name= value' lines, or a moses.ini."
)
@heading("Networks and features")
@options.choice(
    "--feature features",
    "One more feature in the search, CSLM0 or Joint0 in lists; needs a --model.",
    sorted(SEARCH_FEATURES),
    multiple=True,
)
@options.files("--model models", "Of the --feature, in its order.", "MODEL")
@options.option(
    "--feature-weight feature_weights",
    "The weight of a feature, as CSLM0=0.1; goes before --weights.",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_weights,
)
@from_settings.of(FeedForwardScoring)
@heading("Output")
@options.option(
    "--nbest",
    "Write the N best translations of each sentence, in Moses' format.",
    type=(str, click.IntRange(min=1)),
    metavar="FILE N",
)
@options.flag("--distinct", "Only different translations, for --nbest.")
@options.flag("--alignment", "With word alignments, for --nbest.")
@options.flag("--segmentation", "With the phrases of each hypothesis, for --nbest.")
@heading("Search")
@options.choice(
    "--decoder",
    "The search of this package, or Moses itself.",
    ("embedded", "moses"),
    default="embedded",
)
@options.file("--moses-bin", "Where Moses' programs are, for --decoder moses.", "DIR")
@heading("Speed")
@options.count(
    "--processes", "Processes that translate; threads of Moses.", show_default="all cores"
)
@from_settings.of(SearchCompute, only=("engine", "workers", "ray_address", "allow_unlike"))
# How far a search goes: fields of `SearchSettings`, by the sections of moses.ini.
@heading("Search")
@_limit("--stack --stack-size stack_size", "Hypotheses per stack; 0 for no limit.", least=0)
@options.option(
    "--beam-threshold",
    "Relative to a stack's best; 0 for no limit.",
    type=click.FloatRange(0, 1),
    show_default=_FROM_INI,
)
@_limit("--distortion-limit", "Words; 0 for monotone, -1 for no limit.", least=-1)
@_limit("--max-phrase-length", "Source words.")
@options.choice(
    "--search-algorithm algorithm",
    "Stacks, or cube pruning.",
    ("normal", "cube"),
    show_default=_FROM_INI,
)
@_limit("--cube-pruning-pop-limit pop_limit", "Of cube pruning: hypotheses taken per stack.")
@_limit(
    "--cube-pruning-diversity diversity",
    "Of cube pruning: hypotheses made of each coverage, at least.",
    least=0,
)
@_limit(
    "--n-best-factor nbest_factor",
    "Of --distinct: paths looked at for each hypothesis; 0 for 1000.",
    least=0,
)
@_limit("--stack-diversity", "Hypotheses kept of each coverage.", least=0)
@options.option(
    "--ignore",
    "Leave out a feature of moses.ini that the embedded search does not have.",
    multiple=True,
    metavar="NAME",
)
@heading("Speed")
@options.count(
    "--buffer-size",
    "Requests of the search to a network that are scored together; changes speed only.",
    default=4096,
)
@heading("Output")
@options.output
@heading("Speed")
@from_settings.of(Compute, only=("device",))
@options.count(
    "--threads", "CPU threads of the networks in each process.", show_default="cores / processes"
)
@options.verbosity
def decode(**given: Any) -> None:
    """Translate SOURCE, a tokenised sentence per line, by the model of a moses.ini.

    The translations come in the order of the text, one per line; an empty line stays one. Markup
    and factors are refused: '<', '>' and '|' are to be escaped, as Moses' tokenizer does.
    """
    from phrasescore.workflows.decode import decode as run

    names = ("engine", "workers", "ray_address", "allow_unlike")
    engine = Compute(**{name: given.pop(name) for name in names})
    search = SearchSettings(**options.arguments_of(SearchSettings, given))
    run(**options.arguments_of(run, given), search=search, engine=engine, progress=show_progress)
