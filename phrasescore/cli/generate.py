"""``phrasescore generate``: translate with networks alone, draw samples, augment a phrase table."""

import logging

import click

from phrasescore.cli import generate_options, options
from phrasescore.cli.generate_options import (
    AugmentOptions,
    GenerateOptions,
    check_options,
)

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("source", metavar="[SOURCE]", default="-", required=False)
@generate_options.search
@generate_options.sampling
@generate_options.augmenting
@options.seed
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def generate(ctx: click.Context, /, **values: object) -> None:
    """Write what the network MODEL makes of each line of SOURCE, a tokenised text.

    That is the best translation that a beam search finds; with --sample random ones, with --augment
    new pairs for a phrase table. SOURCE is stdin where it is not given. A model that was trained
    with --reverse reads the target side and writes the source side.
    """
    wanted = GenerateOptions.from_values(values)
    augment = AugmentOptions.from_values(values)
    check_options(ctx, wanted, augment)
    # torch is imported only now: a wrong command line is said at once.
    if augment is not None:
        from phrasescore.cli.generate_table import augment_table

        augment_table(wanted, augment)
    elif wanted.sample is not None:
        from phrasescore.cli.generate_text import write_samples

        write_samples(wanted)
    else:
        from phrasescore.cli.generate_text import write_translations

        write_translations(wanted)
