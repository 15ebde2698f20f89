"""``phrasescore combine`` and ``rerank``: merge n-best lists, and rerank them."""

import logging
from typing import Any

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.declaration import grouped
from phrasescore.settings.tuning import Reranking

_logger = logging.getLogger(__name__)


@options.verb(
    "Merge the n-best lists of several systems", "combine nbest.gz nbest.other.gz -o nbest.all.gz"
)
@options.argument("lists", metavar="NBEST...", nargs=-1, required=True)
@heading("Votes")
@options.flag(
    "--votes",
    "Add the features Votes0, the number of files that contain a hypothesis, and NgramVotes1 to "
    "NgramVotes4: for each n-gram of a hypothesis, the number of other files whose best hypothesis "
    "contains it.",
)
@options.output
def combine(lists: tuple[str, ...], output: str, votes: bool) -> None:
    """Merge the n-best lists NBEST from several systems into one list per sentence.

    The first file must be the decoder's. A hypothesis that occurs in several files is taken from
    the first of them. The features Made0, Made1 and so on show which files contain a hypothesis. A
    hypothesis that lacks the decoder's features gets their values from the decoder's hypothesis
    with the lowest total.
    """
    from phrasescore.workflows.combine import combine as run

    done = run(lists, output, votes=votes, progress=show_progress)
    for path, name, count in zip(lists, done.features, done.hypotheses, strict=True):
        _logger.info("%s: %s hypotheses of %s", name, f"{count:,}", path)
    if done.filled:
        _logger.info(
            "hypotheses that lack these features got the decoder's values: %s",
            ", ".join(done.filled),
        )
    if done.left_out:
        text = "left out, because the first file lacks them: %s; rescore adds them to all files"
        _logger.info(text, ", ".join(done.left_out))
    next_step.suggest()


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
@options.output
def rerank(nbest: str, output: str, **given: Any) -> None:
    """Order the hypotheses in NBEST by a new score, and write the best one from each list.

    The output has one line per source sentence, in order. Hypotheses with equal scores keep the
    decoder's order. Scores are natural logarithms; with --mbr the new score is the expected BLEU or
    chrF.
    """
    from phrasescore.workflows.rerank import rerank as run

    done = run(nbest, output, **grouped(run, given), progress=show_progress)
    text = "the best hypothesis changed in %s of %s sentences"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info("ignored features, which have no weight: %s", ", ".join(done.unweighted))
    next_step.suggest()
