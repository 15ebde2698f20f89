"""``phrasescore rerank``: put n-best lists in a new order, or take the best of each."""

import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from tuning.settings import METRICS

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("nbest", metavar="NBEST")
@heading("Method")
@options.file(
    "--weights",
    "Order by the sum of weight times value: a moses.ini, or a text of 'Name= value' lines.",
)
@options.option(
    "--average",
    "Order by the mean of the decoder's total and this feature; of all, if given repeatedly.",
    multiple=True,
    metavar="NAME",
)
@options.flag(
    "--mbr", "Take the hypothesis with the highest expected BLEU or chrF (minimum Bayes risk)."
)
@options.option(
    "--mbr-scale",
    "Factor of the model scores before they become probabilities, for --mbr.",
    type=click.FloatRange(min=0, min_open=True),
    show_default="1",
)
@options.choice("--mbr-metric", "What --mbr expects.", METRICS, show_default="bleu")
@heading("Output")
@options.flag(
    "--nbest as_lists",
    "Write all lines in their new order, with the new score as total, not the best text.",
)
@heading("Input")
@options.flag("--ignore-missing", "Take 0 for a feature with weights that is not there.")
@options.flag("--ignore-unweighted", "Take 0 for the weights of features that have none.")
@options.count(
    "--num-sentences", "How many sentences there are: notices lists that are missing at the end."
)
@options.flag("--allow-missing", "Write an empty line for a sentence without a list.")
@heading("Output")
@options.output
@options.verbosity
def rerank(nbest: str, output: str, **settings: Any) -> None:
    """Order the hypotheses of NBEST by a new score, and write the best of each list.

    The output has one line per source sentence, in order. Hypotheses of equal score stay in the
    decoder's order. Scores are natural logarithms; with --mbr the new score is expected BLEU or
    chrF.
    """
    from phrasescore.workflows.rerank import rerank as run

    done = run(nbest, output, **settings, progress=show_progress)
    text = "%s of %s sentences have another best hypothesis"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info("features without weights: %s", ", ".join(done.unweighted))
