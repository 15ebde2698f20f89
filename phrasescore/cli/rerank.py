"""``phrasescore rerank``: put n-best lists in a new order, or take the best of each."""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from phrasescore.cli import options
from phrasescore.errors import DataError

if TYPE_CHECKING:
    from moses_integration.nbest import NbestList
    from moses_integration.reranking import ModelScore, Values, WeightedSum

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
    help="What model scores are multiplied with before they become probabilities, for --mbr.",
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

    The output has one line a source sentence, in its order. Hypotheses of equal score stay in the
    decoder's order. Scores are natural logarithms; with --mbr the new score is expected BLEU.
    """
    from moses_integration.nbest import read_nbest
    from moses_integration.reranking import EvenAverage, WeightedSum
    from moses_integration.weights import read_weights
    from phrasescore.cli.progress import show_progress
    from phrasescore.io.file_names import check_files
    from phrasescore.io.output import open_output
    from phrasescore.progress import Meter

    if (weights is None) == (not average):
        raise click.UsageError("one of --weights and --average is needed, and not both (--mbr too)")
    if (ignore_missing or ignore_unweighted) and weights is None:
        raise click.UsageError("--ignore-missing and --ignore-unweighted go with --weights")
    if mbr_scale is not None and not mbr:
        raise click.UsageError("--mbr-scale goes with --mbr")
    if as_lists and (allow_missing or num_sentences is not None):
        raise click.UsageError("--num-sentences and --allow-missing do not go with --nbest")
    if (nbest, weights) == ("-", "-"):
        raise click.UsageError("NBEST and the weights cannot share stdin")
    check_files((nbest, weights), (output,))
    score: ModelScore
    if weights is None:
        score = EvenAverage(list(dict.fromkeys(average)))
    else:
        score = WeightedSum(read_weights(weights), ignore_missing, ignore_unweighted)
    scale = (mbr_scale or 1.0) if mbr else None
    lists: Iterable[NbestList | None] = read_nbest(nbest)
    if not as_lists:
        lists = _aligned(read_nbest(nbest), nbest, num_sentences, allow_missing)
    sentences = moved = 0
    with open_output(output) as stream, Meter("rerank", "hypotheses", show_progress) as progress:
        for found in lists:
            sentences += 1
            if found is None:
                stream.write(b"\n")
                continue
            scores = score(found)
            if scale is not None:
                scores = _expected_bleu(found, scores, scale)
            # The same text may stand in a list several times.
            moved += found.hypotheses[int(scores.argmax())] != found.hypotheses[0]
            stream.write(_sorted_lines(found, scores) if as_lists else _best_text(found, scores))
            progress.update(len(found.raws))
    _logger.info("%s of %s sentences have another best hypothesis", f"{moved:,}", f"{sentences:,}")
    if isinstance(score, WeightedSum):
        _report_ignored(score)


def _aligned(
    lists: "Iterable[NbestList]", path: str, num_sentences: int | None, allow_missing: bool
) -> "Iterator[NbestList | None]":
    """Yield the lists, and None for each sentence that has none.

    :param num_sentences: how many sentences there are; None for as many as the last id says.
    :raises DataError: if a list is missing and must not be, or there are too many.
    """
    expected = 0
    for found in lists:
        if num_sentences is not None and found.id >= num_sentences:
            problem = f"id {found.id} is beyond the last of {num_sentences:,} sentences"
            raise DataError(path, found.first_line, f"{problem}, {num_sentences - 1}")
        if found.id > expected and not allow_missing:
            problem = f"expected id {expected}, found {found.id}: no list of that sentence"
            cure = "--allow-missing writes an empty line for it"
            raise DataError(path, found.first_line, f"{problem} ({cure})")
        yield from [None] * (found.id - expected)
        yield found
        expected = found.id + 1
    if num_sentences is not None and expected < num_sentences:
        if not allow_missing:
            problem = f"expected lists of {num_sentences:,} sentences, the last has id"
            cure = "--allow-missing writes empty lines"
            raise DataError(path, None, f"{problem} {expected - 1} ({cure})")
        yield from [None] * (num_sentences - expected)


def _expected_bleu(found: "NbestList", scores: "Values", scale: float) -> "Values":
    """Return the expected smoothed BLEU of each hypothesis; identical ones have the same."""
    import numpy as np

    from tuning.minimum_bayes_risk import expected_gains, posterior

    words = found.distinct()
    places = {hypothesis: place for place, hypothesis in enumerate(words)}
    which = np.array([places[hypothesis] for hypothesis in found.hypotheses])
    probabilities = np.bincount(which, posterior(scores, scale)).astype(np.float64)
    gains = expected_gains(list(words.values()), probabilities)
    return np.asarray(gains[which])


def _best_text(found: "NbestList", scores: "Values") -> bytes:
    """Return the best hypothesis as a line; of equally good ones the first."""
    from phrasescore.io.text import decode

    best = int(scores.argmax())
    decode(found.path, found.first_line + best, found.raws[best])
    return found.hypotheses[best].strip(b" ") + b"\n"


def _sorted_lines(found: "NbestList", scores: "Values") -> bytes:
    """Return all lines by falling score, which is their new total."""
    from moses_integration.reranking import with_total

    order = (-scores).argsort(kind="stable")
    lines = (with_total(found.raws[at], found.ends[at], float(scores[at])) for at in order)
    return b"".join(line + b"\n" for line in lines)


def _report_ignored(score: "WeightedSum") -> None:
    unused = [name for name in score.weights if name not in score.used]
    if unused:
        _logger.warning("no hypothesis has these features with weights: %s", ", ".join(unused))
    if score.unweighted:
        _logger.info("features without weights: %s", ", ".join(sorted(score.unweighted)))
