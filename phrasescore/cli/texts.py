"""``phrasescore evaluate``, ``perplexity``, ``select`` and ``rerank``: work on texts and lists."""

import json
import logging
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.messages import print_text
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.evaluation import Evaluating, Selecting

_logger = logging.getLogger(__name__)


@options.verb(
    "Measure BLEU and other metrics, and compare systems",
    "evaluate baseline.fr translations.fr --references test.fr --paired approximate",
    main="--references --metric --paired --lists --source -o --format",
)
@options.argument("hypotheses", metavar="[HYP]...", nargs=-1)
@heading("Input")
@options.references(required=True)
@options.file(
    "--lists",
    "Also measure the oracle for these n-best lists: the hypotheses chosen for the highest BLEU.",
    "NBEST",
)
@options.file("--source", "The source sentences, for --by-length, --by-unknown and programs.")
@options.of(Evaluating)
@heading("Output")
@options.output
@options.report_format
def evaluate(**given: Any) -> None:
    """Measure the translations HYP against references; all files have one sentence per line.

    Each sacrebleu figure is printed with its signature. The figures for groups and n-best lists are
    computed as in multi-bleu: words are separated by spaces, and counts are not smoothed.
    """
    from phrasescore.workflows.evaluate import evaluate as run

    if to_terminal := given["output"] == "-" and given["report_format"] == "text":
        given["output"] = None
    measured = run(**grouped(run, given), progress=show_progress)
    if to_terminal:
        print_text(measured.to_text())
    next_step.suggest()


@options.verb(
    "Measure the perplexity of text",
    "perplexity test.fr --model cslm --lm lm.fr.arpa.gz",
    main="--model --lm --format --device --threads",
)
@options.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@heading("Input")
@options.file("--model", "A trained language model (kind cslm).", "MODEL")
@options.file(
    "--lm",
    "An n-gram model: an ARPA file (also .gz) or a KenLM binary. With --model, it also predicts "
    "the words outside the network's shortlist.",
)
@heading("Output")
@options.report_format
@options.of(Compute, only=("precision", "device", "threads"))
def perplexity(texts: tuple[str, ...], report_format: str, **given: Any) -> None:
    """Print the perplexity of each TEXT (one tokenised sentence per line) under language models.

    The models predict the words and the end of each sentence. As in KenLM's query, there are two
    figures: one includes unknown words, scored as <unk>, and one excludes them. Without --lm, a
    network scores all words outside its shortlist as <unk>, which makes its perplexity low. With
    --lm, the n-gram model distributes the probability of <unk> among the words that it replaces.
    Both models then predict the same words, and their figures can be compared.
    """
    from phrasescore.workflows.perplexity import perplexity as run

    figures = run(texts, **grouped(run, given), progress=show_progress)
    if report_format == "json":
        click.echo(json.dumps([text.to_dict() for text in figures], indent=1))
    else:
        print_text("\n\n".join(text.to_text() for text in figures))


@options.verb(
    "Select the text that is most similar to a domain",
    "select general.en general.fr --in-domain domain.en.arpa --general general.en.arpa "
    "--share 0.2 -o selected.en --target-output selected.fr",
    main="--in-domain --general --in-domain-target --general-target --share -o --target-output",
)
@options.argument("text", metavar="TEXT")
@options.argument("target", metavar="[TARGET]", required=False)
@heading("Input")
@options.file("--in-domain", "An n-gram model of in-domain text.", "LM")
@options.file("--general", "An n-gram model of general text, such as TEXT.", "LM")
@options.file(
    "--in-domain-target", "An n-gram model of in-domain text in the language of TARGET.", "LM"
)
@options.file("--general-target", "An n-gram model of general text, such as TARGET.", "LM")
@options.of(Selecting)
@heading("Output")
@options.output
@options.file("--target-output", "Write the selected lines of TARGET.")
def select(text: str, output: str, **given: Any) -> None:
    """Select the lines of TEXT (tokenised sentences) that are most similar to in-domain text.

    Lines are ranked by the difference between their cross-entropies under two n-gram models (Moore
    and Lewis, 2010). TARGET is the other side of parallel text: pairs are kept together, and with
    models for both sides their differences are added (Axelrod et al., 2011). The selected lines are
    written unchanged and in their original order.
    """
    from phrasescore.workflows.select import select as run

    done = run(text, output, **grouped(run, given), progress=show_progress)
    _logger.info(
        f"select: kept {done.kept:,} of {done.lines:,} lines, whose cross-entropy differences are "
        f"at most {done.highest_difference:.4f}"
    )
    next_step.suggest()


@options.verb(
    "Write the best hypothesis of each n-best list",
    "rerank nbest.new.gz --weights weights -o translations.fr",
    main="--weights -o --nbest",
)
@options.argument("nbest", metavar="NBEST")
@heading("Order of the hypotheses")
@options.file(
    "--weights",
    "Order by the weighted sum of the features, with the weights in this file: 'Name= value' "
    "lines, or a moses.ini.",
    required=True,
)
@heading("Input")
@options.flag("--allow-missing", "Write an empty line for sentences without an n-best list.")
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

    done = run(nbest, output, lists=nbest_file, **given, progress=show_progress)
    text = "the best hypothesis changed in %s of %s sentences"
    _logger.info(text, f"{done.moved:,}", f"{done.sentences:,}")
    if done.unweighted:
        _logger.info(
            "ignored sparse features, which have no weight: %s", ", ".join(done.unweighted)
        )
    next_step.suggest()
