"""``phrasescore perplexity``: how well language models predict a text."""

import json
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.progress import show_progress
from phrasescore.cli.subjects import Verb, heading
from phrasescore.errors import show_controls
from phrasescore.settings.compute import Compute


@click.command(cls=Verb)
@options.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@heading("Networks and features")
@options.file("--model", "A trained language model: of the kind cslm.", "MODEL")
@options.file(
    "--lm",
    "An n-gram model, ARPA (.gz, too) or a KenLM binary; with --model also the one that the "
    "words outside its shortlist are backed off to.",
)
@options.file(
    "--mix-on",
    "One more row: the mixture of both models, with the weight that suits this text best.",
    "DEV",
)
@heading("Output")
@options.flag(
    "--log-z",
    "Tell how far the network's log Z is from 0; scoring with --unnormalized leaves it out.",
)
@options.report_format
@from_settings.of(Compute, only=("precision", "device", "threads"))
@options.verbosity
def perplexity(texts: tuple[str, ...], report_format: str, **settings: Any) -> None:
    """Print the perplexity of each TEXT, a tokenised sentence per line, under language models.

    Words and the end of each sentence are predicted; unknown words are counted with the probability
    of <unk>, and left out, as KenLM's query does. A network alone has one <unk> for all words
    outside its shortlist, which makes its perplexity low; with --lm it shares their probability out
    by the n-gram model, and both predict the same words: those figures can be compared.
    """
    from phrasescore.workflows.perplexity import perplexity as run

    settings["compute"] = from_settings.take(Compute, settings)
    found = run(texts, **settings, progress=show_progress).texts
    if report_format == "json":
        click.echo(json.dumps([each.to_dict() for each in found], indent=1))
    else:
        click.echo(show_controls("\n\n".join(each.to_text() for each in found)))
