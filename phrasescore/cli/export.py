"""``phrasescore export``: write a trained network for Moses' own search."""

import logging
from typing import Any, get_args

import click

from phrasescore.arguments import ModelFormat
from phrasescore.cli import options
from phrasescore.cli.subjects import Verb, heading

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("model", metavar="MODEL")
@heading("Output")
@options.choice(
    "--format model_format",
    "nplm: the text model of a Moses that is built with NPLM.",
    get_args(ModelFormat),
    default="nplm",
)
@options.output
@heading("Input")
@options.file("--moses-ini", "The moses.ini that gets a feature for the network.", "IN")
@heading("Output")
@options.file("--moses-ini-out", "Where it goes with that feature, at weight 0.", "OUT")
@options.verbosity
def export(model: str, output: str, **settings: Any) -> None:
    """Write the network MODEL, of the kind cslm or joint, as a file that Moses' own search loads.

    Moses scores without log Z: the network must be trained with
    --set model.self_normalization=0.1. The words of a joint go to
    OUTPUT.source_vocab and OUTPUT.target_vocab.
    """
    from phrasescore.workflows.export import export as run

    done = run(model, output, **settings)
    _logger.info(
        "%s%s: order %d, %s words; Moses will take %s MB for it",
        *(done.kind, f" {done.name}" if done.name else "", done.order),
        *(f"{done.input_words:,}", f"{done.num_bytes_in_moses / 1e6:,.0f}"),
    )
