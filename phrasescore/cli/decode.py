"""``phrasescore decode``: translate a text by a Moses model, with either of two engines."""

from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.from_settings import take
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import FileName, Verb, heading
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute
from phrasescore.workflows.search_settings import SEARCH_FEATURES, SearchSettings

_OF_ENGINE = ("engine", "workers", "ray_address", "allow_unlike")


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
@from_settings.of(
    SearchSettings,
    features={"type": click.Choice(sorted(SEARCH_FEATURES))},
    models={"type": FileName()},
)
@heading("Networks and features")
@options.option(
    "--feature-weight feature_weights",
    "The weight of a feature, as CSLM0=0.1; goes before --weights.",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_weights,
)
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
@from_settings.of(Compute, only=_OF_ENGINE, engine={"default": "processes"})
@heading("Output")
@options.output
@options.verbosity
def decode(**given: Any) -> None:
    """Translate SOURCE, a tokenised sentence per line, by the model of a moses.ini.

    The translations come in the order of the text, one per line; an empty line stays one. Markup
    and factors are refused: '<', '>' and '|' are to be escaped, as Moses' tokenizer does.
    """
    from moses_integration.decoder.moses import NbestRequest
    from phrasescore.workflows.decode import decode as run

    engine = Compute(**{name: given.pop(name) for name in _OF_ENGINE})
    how = [given.pop(name) for name in ("distinct", "alignment", "segmentation")]
    if given["nbest"] is not None:
        given["nbest"] = NbestRequest(*given["nbest"], *how)
    elif any(how):
        raise ArgumentError("--distinct, --alignment and --segmentation go with --nbest")
    search = take(SearchSettings, given)
    run(**given, search=search, engine=engine, progress=show_progress)
