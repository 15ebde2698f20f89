"""``phrasescore rerank``: put n-best lists in a new order, or take the best of each."""

import logging

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("nbest", metavar="NBEST")
@click.option(
    "--weights",
    metavar="FILE",
    help="Order by the sum of weight times value: a moses.ini, or a text of 'Name= value' lines.",
)
@click.option(
    "--average",
    multiple=True,
    metavar="NAME",
    help="Order by the mean of the decoder's total and this feature; of all, if given repeatedly.",
)
@click.option(
    "--mbr",
    is_flag=True,
    help="Take the hypothesis with the highest expected BLEU (minimum Bayes risk).",
)
@click.option(
    "--mbr-scale",
    type=click.FloatRange(min=0, min_open=True),
    show_default="1",
    help="Factor of the model scores before they become probabilities, for --mbr.",
)
@click.option(
    "--nbest",
    "as_lists",
    is_flag=True,
    help="Write all lines in their new order, with the new score as total, not the best text.",
)
@click.option(
    "--ignore-missing", is_flag=True, help="Take 0 for a feature with weights that is not there."
)
@click.option(
    "--ignore-unweighted", is_flag=True, help="Take 0 for the weights of features that have none."
)
@click.option(
    "--num-sentences",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many sentences there are: notices lists that are missing at the end.",
)
@click.option(
    "--allow-missing", is_flag=True, help="Write an empty line for a sentence without a list."
)
@options.output
@options.verbosity
def rerank(
    nbest: str,
    weights: str | None,
    average: tuple[str, ...],
    mbr: bool,
    mbr_scale: float | None,
    as_lists: bool,
    ignore_missing: bool,
    ignore_unweighted: bool,
    num_sentences: int | None,
    allow_missing: bool,
    output: str,
) -> None:
    """Order the hypotheses of NBEST by a new score, and write the best of each list.

    The output has one line per source sentence, in order. Hypotheses of equal score stay in the
    decoder's order. Scores are natural logarithms; with --mbr the new score is expected BLEU.
    """
    from phrasescore.workflows.rerank import rerank as run

    done = run(
        nbest,
        output,
        weights=weights,
        average=average,
        mbr=mbr,
        mbr_scale=mbr_scale,
        as_lists=as_lists,
        ignore_missing=ignore_missing,
        ignore_unweighted=ignore_unweighted,
        num_sentences=num_sentences,
        allow_missing=allow_missing,
        progress=show_progress,
    )
    text = "%s of %s sentences have another best hypothesis"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info("features without weights: %s", ", ".join(done.unweighted))
