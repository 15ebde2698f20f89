"""``phrasescore rerank``: rerank n-best lists."""

import logging
from typing import Any

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.declaration import grouped
from phrasescore.settings.tuning import Reranking

_logger = logging.getLogger(__name__)


@options.verb(
    "Write the best hypothesis of each n-best list",
    "rerank nbest.new.gz --weights weights -o translations.fr",
    main="--weights --average -o --nbest",
)
@options.argument("nbest", metavar="NBEST")
@heading("Order of the hypotheses")
@options.file(
    "--weights",
    "Order by the weighted sum of the features, with the weights in this file: 'Name= value' "
    "lines, or a moses.ini.",
)
@options.of(Reranking)
@heading("Output")
@options.file(
    "--nbest nbest_file",
    "Write the whole lists in their new order to this file, with the new score as total.",
)
@options.output
def rerank(nbest: str, output: str, nbest_file: str | None, **given: Any) -> None:
    """Order the hypotheses in NBEST by a new score, and write the best one from each list.

    The output has one line per source sentence, in order. Hypotheses with equal scores keep the
    decoder's order. Scores are natural logarithms.
    """
    from phrasescore.workflows.rerank import rerank as run

    own = grouped(run, given)
    done = run(nbest, output, lists=nbest_file, **own, progress=show_progress)
    text = "the best hypothesis changed in %s of %s sentences"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info("ignored features, which have no weight: %s", ", ".join(done.unweighted))
    next_step.suggest()
