"""``phrasescore generate``: translate with networks only, draw samples, augment a phrase table."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.foreign import ForeignText
from phrasescore.settings.compute import Compute
from phrasescore.settings.generation import Augmenting, BeamSearch, Generating

_logger = logging.getLogger(__name__)

# The parameters that each way to generate has: translating, CTranslate2, and augmenting.
_COMMON = {"model", "output", *from_settings.names_of(Compute)}
_OF_TEXT = {*_COMMON, "source", "nbest", "name", "beam"}
_TRANSLATING = {*_OF_TEXT, "augment", *from_settings.names_of(Generating)}
_FOREIGN = {*_OF_TEXT, "ctranslate2", "truecase_model", *from_settings.names_of(ForeignText)}
_AUGMENTING = {
    *(*_COMMON, "augment", "moses_ini", "moses_ini_out", "resume"),
    *from_settings.names_of(Augmenting),
}


@click.command(cls=Verb)
@options.argument("model", metavar="MODEL")
@options.argument("source", metavar="[SOURCE]", default="-", required=False)
@from_settings.of(Generating)
@heading("Output")
@options.option(
    "--nbest",
    "Write the N best of each line to FILE, too, as Moses does.",
    type=(str, click.IntRange(min=1)),
    metavar="FILE N",
)
@heading("Networks and features")
@options.flag(
    "--ctranslate2",
    "MODEL is the folder of a translation model that CTranslate2 has converted.",
)
@options.foreign_text
@options.file(
    "--truecase-model",
    "For --ctranslate2: of Moses' train-truecaser.perl, to truecase the translations by.",
)
@heading("New phrase pairs")
@options.file(
    "--augment",
    "Generate targets for the sources of a sorted phrase table, and write the table with the pairs "
    "that it lacks.",
    "TABLE",
)
@from_settings.of(Augmenting, without=from_settings.names_of(BeamSearch))
@options.file("--moses-ini", "The moses.ini that uses the table.", "IN")
@options.file("--moses-ini-out", "Where the moses.ini goes with the new column in it.", "OUT")
@heading("Long runs")
@options.flag("--resume", "Continue a run of --augment that was killed.")
@heading("Output")
@options.output
@from_settings.of(Compute)
@options.verbosity
@click.pass_context
def generate(ctx: click.Context, /, model: str, output: str, **given: Any) -> None:
    """Write the network MODEL's translation of each line of SOURCE, a tokenised text.

    It is the best translation that a beam search finds; --sample writes random ones instead, and
    --augment new pairs of a phrase table. Without SOURCE, stdin is read. A model that was trained
    with --reverse reads the target side and writes the source side.
    """
    compute = from_settings.take(Compute, given)
    text = from_settings.take(ForeignText, given)
    common: dict[str, Any] = {"compute": compute, "progress": show_progress}
    if given["ctranslate2"]:
        from phrasescore.workflows.generate_foreign import generate_foreign

        options.refuse_others(ctx, _FOREIGN - {"precision"}, "not with --ctranslate2")
        names = ("source", "nbest", "name", "beam", "truecase_model")
        wanted = {name: given[name] for name in names}
        generate_foreign(model=model, output=output, text=text, **wanted, **common)
        return
    options.refuse_foreign_text(ctx, "truecase_model")
    table = given["augment"]
    if table is None:
        from phrasescore.workflows.generate import generate as run

        options.refuse_others(ctx, _TRANSLATING, "only with --augment")
        settings = from_settings.take(Generating, given)
        run(given["source"], model, output, settings=settings, nbest=given["nbest"], **common)
        return
    from phrasescore.workflows.augment import augment as augment_table

    options.refuse_others(ctx, _AUGMENTING, "not with --augment")
    adding = from_settings.take(Augmenting, given)
    wanted = {name: given[name] for name in ("moses_ini", "moses_ini_out", "resume")}
    done = augment_table(table, model, output, settings=adding, **wanted, **common)
    _logger.info("%s", done.summary())
