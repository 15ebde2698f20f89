"""``phrasescore perplexity``: how well language models predict a text."""

import json

import click

from phrasescore.arguments import PrecisionName
from phrasescore.cli import options
from phrasescore.cli.progress import show_progress


@click.command()
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option("--model", metavar="MODEL", help="A trained language model: of the kind cslm.")
@click.option(
    "--lm",
    metavar="FILE",
    help="An n-gram model, ARPA (.gz, too) or a KenLM binary; with --model also the one that the "
    "words outside its shortlist are backed off to.",
)
@click.option(
    "--mix-on",
    metavar="DEV",
    help="One more row: the mixture of both models, with the weight that suits this text best.",
)
@click.option(
    "--log-z",
    is_flag=True,
    help="Tell how far the network's log Z is from 0; scoring with --unnormalized leaves it out.",
)
@options.report_format
@options.precision
@options.device
@options.threads
@options.verbosity
def perplexity(
    texts: tuple[str, ...],
    model: str | None,
    lm: str | None,
    mix_on: str | None,
    log_z: bool,
    report_format: str,
    precision: PrecisionName,
    device: str,
    threads: int | None,
) -> None:
    """Print the perplexity of each TEXT, a tokenised sentence per line, under language models.

    Words and the end of each sentence are predicted; unknown words are counted with the probability
    of <unk>, and left out, as KenLM's query does. A network alone has one <unk> for all words
    outside its shortlist, which makes its perplexity low; with --lm it shares their probability out
    by the n-gram model, and both predict the same words: those figures can be compared.
    """
    from phrasescore.workflows.perplexity import perplexity as run

    found = run(
        texts,
        model=model,
        lm=lm,
        mix_on=mix_on,
        log_z=log_z,
        precision=precision,
        device=device,
        threads=threads,
        progress=show_progress,
    ).texts
    if report_format == "json":
        click.echo(json.dumps([each.to_dict() for each in found], indent=1))
    else:
        click.echo("\n\n".join(each.to_text() for each in found))
