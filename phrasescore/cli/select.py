"""``phrasescore select``: keep the training text that is like the text to be translated."""

import logging

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress

_logger = logging.getLogger(__name__)


@click.command()
@click.argument("text", metavar="TEXT")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--in-domain", metavar="LM", help="An n-gram model of text as it is wanted.")
@click.option("--general", metavar="LM", help="An n-gram model of text such as TEXT.")
@click.option("--in-domain-target", metavar="LM", help="Likewise for TARGET: both sides add up.")
@click.option("--general-target", metavar="LM", help="Likewise for TARGET.")
@click.option(
    "--share",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Keep this part of the lines, the best ones: 0.5 for half of them.",
)
@click.option("--lines", type=click.IntRange(min=1), help="Keep this many lines, the best ones.")
@click.option(
    "--threshold",
    type=float,
    help="Keep lines with a difference below this, in nats per token; at 0 both models agree.",
)
@click.option(
    "--random",
    "at_random",
    is_flag=True,
    help="Keep as many lines drawn at random, as a baseline. Needs no models.",
)
@options.seed
@click.option(
    "--scores",
    "differences",
    metavar="FILE",
    help="Write the difference of each line, one per line.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    show_default="all cores",
    help="How many processes score at the same time.",
)
@options.output
@click.option("--target-output", metavar="FILE", help="Where the lines of TARGET go.")
@options.verbosity
def select(
    text: str,
    target: str | None,
    in_domain: str | None,
    general: str | None,
    in_domain_target: str | None,
    general_target: str | None,
    share: float | None,
    lines: int | None,
    threshold: float | None,
    at_random: bool,
    seed: int,
    differences: str | None,
    processes: int | None,
    output: str,
    target_output: str | None,
) -> None:
    """Keep those lines of TEXT, tokenised sentences, that are most like an in-domain text.

    The difference of the cross-entropies under two n-gram models decides (Moore and Lewis, 2010).
    With TARGET, the other side of parallel text, pairs stay together, and the models of both sides
    add up where they are given (Axelrod et al., 2011). Lines stay as they are, in their order.
    """
    from phrasescore.workflows.select import select as run

    done = run(
        text,
        output,
        in_domain=in_domain,
        general=general,
        target=target,
        target_output=target_output,
        in_domain_target=in_domain_target,
        general_target=general_target,
        share=share,
        lines=lines,
        threshold=threshold,
        at_random=at_random,
        seed=seed,
        differences=differences,
        processes=processes,
        progress=show_progress,
    )
    kept = f"select: kept {done.kept:,} of {done.lines:,} lines"
    if done.highest_difference is not None:
        kept += f"; differences up to {done.highest_difference:.4f}"
    _logger.info("%s", kept)
