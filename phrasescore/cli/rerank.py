"""``phrasescore rerank``: put n-best lists in a new order, or take the best of each."""

import logging
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.from_settings import take
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.settings.tuning import Reranking

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("nbest", metavar="NBEST")
@heading("Method")
@options.file(
    "--weights",
    "Order by the sum of weight times value: a moses.ini, or a text of 'Name= value' lines.",
)
@from_settings.of(Reranking)
@heading("Output")
@options.output
@options.verbosity
def rerank(nbest: str, output: str, weights: str | None, **given: Any) -> None:
    """Order the hypotheses of NBEST by a new score, and write the best of each list.

    The output has one line per source sentence, in order. Hypotheses of equal score stay in the
    decoder's order. Scores are natural logarithms; with --mbr the new score is expected BLEU or
    chrF.
    """
    from phrasescore.workflows.rerank import rerank as run

    settings = take(Reranking, given)
    done = run(nbest, output, weights=weights, settings=settings, progress=show_progress)
    text = "%s of %s sentences have another best hypothesis"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info("features without weights: %s", ", ".join(done.unweighted))
