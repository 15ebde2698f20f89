"""``phrasescore evaluate``, ``perplexity`` and ``select``: measure texts, and choose from them."""

import json
import logging
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.cli.options import Verb, heading
from phrasescore.cli.progress import show_progress
from phrasescore.errors import show_controls
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import Evaluating, Selecting

_logger = logging.getLogger(__name__)


@click.command(cls=Verb)
@options.argument("hypotheses", metavar="[HYP]...", nargs=-1)
@heading("Input")
@options.files(
    "--references",
    "Reference translations, one per line; NAME may stand for NAME0, NAME1, ... Repeat the option "
    "for another set of references.",
    required=True,
)
@options.file(
    "--nbest",
    "Also measure the oracle of these n-best lists: the choice of hypotheses with the highest "
    "BLEU.",
    "NBEST",
)
@options.file("--source", "The source sentences, for --by-length and --by-unknown.")
@options.of(Evaluating)
@heading("Output")
@options.file("--plot", "Draw the figures into a file; its name ends in .png, .svg or .pdf.")
@options.output
@options.report_format
@options.verbosity
def evaluate(**given: Any) -> None:
    """Measure the translations HYP against references; all files have a sentence per line.

    Every figure of sacrebleu has its signature. The figures of groups and of n-best lists are
    computed as by multi-bleu: words are separated by spaces, and nothing is smoothed.
    """
    from phrasescore.workflows.evaluate import evaluate as run

    given["settings"] = options.take(Evaluating, given)
    run(**given, progress=show_progress)


@click.command(cls=Verb)
@options.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@heading("Networks and features")
@options.file("--model", "A trained language model (kind cslm).", "MODEL")
@options.file(
    "--lm",
    "An n-gram model: an ARPA file, also in .gz, or a KenLM binary. With --model, it also predicts "
    "the words outside the network's shortlist.",
)
@options.file(
    "--mix-on",
    "Also report the mixture of both models, with the weight that is best for this text.",
    "DEV",
)
@heading("Output")
@options.flag(
    "--log-z",
    "Report how far the network's log Z is from 0, as scoring with --unnormalized omits log Z.",
)
@options.report_format
@options.of(Compute, only=("precision", "device", "threads"))
@options.verbosity
def perplexity(texts: tuple[str, ...], report_format: str, **given: Any) -> None:
    """Print the perplexity of each TEXT, a tokenised sentence per line, under language models.

    The models predict the words and the end of each sentence. As in KenLM's query, there are two
    figures: with unknown words, which have the probability of <unk>, and without them. A network
    without --lm has one <unk> for all words outside its shortlist, which makes its perplexity low.
    With --lm, the n-gram model distributes this probability among these words, so that both models
    predict the same words and their figures can be compared.
    """
    from phrasescore.workflows.perplexity import perplexity as run

    given["compute"] = options.take(Compute, given)
    figures = run(texts, **given, progress=show_progress).texts
    if report_format == "json":
        click.echo(json.dumps([text.to_dict() for text in figures], indent=1))
    else:
        click.echo(show_controls("\n\n".join(text.to_text() for text in figures)))


@click.command(cls=Verb)
@options.argument("text", metavar="TEXT")
@options.argument("target", metavar="[TARGET]", required=False)
@heading("Networks and features")
@options.file("--in-domain", "An n-gram model of in-domain text.", "LM")
@options.file("--general", "An n-gram model of text such as TEXT.", "LM")
@options.file("--in-domain-target", "An n-gram model of in-domain text, for TARGET.", "LM")
@options.file("--general-target", "An n-gram model of text such as TARGET.", "LM")
@options.of(Selecting)
@heading("Output")
@options.file("--scores differences", "Write the difference of each line.")
@options.output
@options.file("--target-output", "Write the selected lines of TARGET.")
@options.verbosity
def select(text: str, output: str, **given: Any) -> None:
    """Keep the lines of TEXT, tokenised sentences, that are most similar to in-domain text.

    Lines are ranked by the difference of their cross-entropies under two n-gram models (Moore and
    Lewis, 2010). TARGET is the other side of parallel text: pairs stay together, and if there are
    models of both sides, their differences are added (Axelrod et al., 2011). The selected lines
    stay unchanged and in order.
    """
    from phrasescore.workflows.select import select as run

    given["settings"] = options.take(Selecting, given)
    done = run(text, output, **given, progress=show_progress)
    kept = f"select: kept {done.kept:,} of {done.lines:,} lines"
    if done.highest_difference is not None:
        kept += f"; differences up to {done.highest_difference:.4f}"
    _logger.info("%s", kept)
