"""``phrasescore select``: keep the training text that is like the text to be translated."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import click

from phrasescore.cli import options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.language_models.selection import CrossEntropyDifference, Differences

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_logger = logging.getLogger(__name__)

# Lines that a process gets at once.
_LINES = 5_000
# The share of tokens known to one model alone that is worth a warning.
_MANY_DIFFER = 0.01

# The words of a line: one side, or two.
_Sides = tuple[tuple[str, ...], ...]


class _Limit(NamedTuple):
    """How much is kept: one of them."""

    share: float | None
    lines: int | None
    threshold: float | None


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
@click.option("--lines", type=click.IntRange(min=1), help="Keep so many lines, the best ones.")
@click.option(
    "--threshold",
    type=float,
    help="Keep lines with a difference below this, in nats a token; 0 is where both models agree.",
)
@click.option(
    "--random",
    "at_random",
    is_flag=True,
    help="Keep as many lines by lot: what a selection has to beat. Needs no models.",
)
@options.seed
@click.option("--scores", metavar="FILE", help="Write each line's difference, one a line.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    show_default="all cores",
    help="That score at the same time.",
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
    scores: str | None,
    processes: int | None,
    output: str,
    target_output: str | None,
) -> None:
    """Keep those lines of TEXT, tokenised sentences, that are most like an in-domain text.

    The difference of the cross-entropies under two n-gram models decides (Moore and Lewis, 2010).
    With TARGET, the other side of parallel text, pairs stay together, and the models of both sides
    add up where they are given (Axelrod et al., 2011). Lines stay as they are, in their order.
    """
    from phrasescore.devices import usable_threads
    from phrasescore.io.file_names import check_files
    from phrasescore.io.output import check_output
    from phrasescore.io.text import is_stream, same_file

    limit = _Limit(share, lines, threshold)
    models = [("--in-domain", in_domain, "--general", general)]
    models += [("--in-domain-target", in_domain_target, "--general-target", general_target)]
    _check_usage(limit, models, at_random, (target, target_output), scores)
    texts = (text,) if target is None else (text, target)
    if any(map(is_stream, texts)):
        raise click.UsageError("a text is read twice and cannot be stdin or another stream")
    lm_paths = [path for _, one, _, other in models for path in (one, other)]
    outputs = (output, target_output, scores)
    check_files((*texts, *lm_paths), outputs)
    _check_models(models)
    if target is not None and same_file(text, target):
        raise click.UsageError("TEXT and TARGET are one file: expected a text and a translation")
    for name in outputs:
        if name is not None:
            check_output(name)
    values = None
    if at_random:
        chosen = _drawn(sum(1 for _ in _lines(texts)), limit, seed)
    else:
        sides = [(one, other) if one and other else None for _, one, _, other in models]
        values = _values(texts, sides, usable_threads(processes))
        chosen = _chosen(values, limit)
    with ExitStack() as stack:
        _write(stack, texts, (output, target_output), chosen)
        if scores is not None and values is not None:
            _write_scores(stack, scores, values)
    kept = "" if values is None else f"; differences up to {values[chosen].max():.4f}"
    _logger.info("select: kept %s of %s lines%s", f"{chosen.sum():,}", f"{len(chosen):,}", kept)


def _check_usage(
    limit: _Limit,
    models: Sequence[tuple[str, str | None, str, str | None]],
    at_random: bool,
    target: tuple[str | None, str | None],
    scores: str | None,
) -> None:
    """Refuse a command line that says too little or too much.

    :param models: for each side, the options and what they have.
    :param target: the other side of parallel text, and where it goes.
    """
    if sum(value is not None for value in limit) != 1:
        raise click.UsageError("expected one of --share, --lines and --threshold")
    for one_name, one, other_name, other in models:
        if (one is None) != (other is None):
            raise click.UsageError(f"{one_name} and {other_name} go together")
    given = [one is not None for _, one, _, _ in models]
    if at_random and (any(given) or scores is not None or limit.threshold is not None):
        raise click.UsageError("--random takes no models, --scores or --threshold")
    if not at_random and not any(given):
        raise click.UsageError("expected --in-domain and --general, or --random")
    if (target[0] is None) != (target[1] is None):
        raise click.UsageError("TARGET and --target-output go together")
    if target[0] is None and given[1]:
        raise click.UsageError("--in-domain-target is a model of TARGET, which is not there")


def _check_models(models: Sequence[tuple[str, str | None, str, str | None]]) -> None:
    """Refuse two models of a side that are one, whose differences are all 0; warn of two sides'."""
    from phrasescore.io.text import same_file

    for one_name, one, other_name, other in models:
        if one is not None and other is not None and same_file(one, other):
            raise click.UsageError(f"{one_name} and {other_name} are one file: expected two models")
    (in_name, in_domain, general_name, general), target = models
    for name, path, other_name, other in (
        (in_name, in_domain, *target[:2]),
        (general_name, general, *target[2:]),
    ):
        if path is not None and other is not None and same_file(path, other):
            _logger.warning("%s and %s are one file, for two languages", name, other_name)


class _Line(NamedTuple):
    """A line: its bytes on each side, and its words."""

    raw: tuple[bytes, ...]
    sides: _Sides


def _lines(texts: Sequence[str]) -> Iterator[_Line]:
    """Yield the lines of a text, or of parallel text.

    :raises DataError: on reading.
    """
    from phrasescore.io.corpora import read_monolingual_text, read_parallel_text

    if len(texts) == 1:
        for line in read_monolingual_text(texts[0]):
            yield _Line((line.raw,), (line.words,))
        return
    for both in read_parallel_text(*texts):
        yield _Line(tuple(both.raw.split(b"\n")), (both.pair.source, both.pair.target))


class _Work:
    """Scores some lines: by the models of each side that has some."""

    def __init__(self, models: Sequence["CrossEntropyDifference | None"]) -> None:
        self._models = models

    def __call__(self, lines: Sequence[_Sides]) -> "list[Differences]":
        found = []
        for model, sentences in zip(self._models, zip(*lines, strict=True), strict=False):
            if model is not None:
                found.append(model.differences(sentences))
        return found


def _values(
    texts: Sequence[str], models: Sequence[tuple[str, str] | None], processes: int
) -> "Floats":
    """Return the difference of each line, the sum over its sides."""
    import numpy as np

    from phrasescore.cli.progress import show_progress
    from phrasescore.engines.ordered_work import in_order
    from phrasescore.language_models.selection import CrossEntropyDifference
    from phrasescore.progress import Meter

    work = _Work([None if paths is None else CrossEntropyDifference(*paths) for paths in models])
    values, tokens, differing = [], 0, 0
    with Meter("select", "lines", show_progress) as progress:
        for found in in_order(work, _blocks(texts), processes):
            values.append(np.sum([each.values for each in found], axis=0))
            tokens += sum(each.tokens for each in found)
            differing += sum(each.known_to_one for each in found)
            progress.update(len(values[-1]))
    if differing > _MANY_DIFFER * tokens:
        _logger.warning(
            "%.1f%% of the words are known to one of two models only, whose <unk> then stands "
            "against a word: make both with one vocabulary (lmplz --limit_vocab_file)",
            100 * differing / tokens,
        )
    return np.concatenate(values)


def _blocks(texts: Sequence[str]) -> Iterator[list[_Sides]]:
    lines = _lines(texts)
    while block := [line.sides for line in islice(lines, _LINES)]:
        yield block


def _count(limit: _Limit, total: int) -> int:
    """Return how many lines are kept: at least one, and at most all of them."""
    if limit.lines is not None:
        return min(limit.lines, total)
    assert limit.share is not None
    return max(1, round(limit.share * total))


def _drawn(total: int, limit: _Limit, seed: int) -> "Flags":
    from phrasescore.language_models.selection import any_of

    return any_of(total, _count(limit, total), seed)


def _chosen(values: "Floats", limit: _Limit) -> "Flags":
    """Return which lines are kept.

    :raises PhrasescoreError: if there is none.
    """
    from phrasescore.errors import PhrasescoreError
    from phrasescore.language_models.selection import best

    if limit.threshold is None:
        return best(values, _count(limit, len(values)))
    chosen: Flags = values < limit.threshold
    if not chosen.any():
        problem = f"no line has a difference below {limit.threshold:g}; the lowest is"
        raise PhrasescoreError(f"--threshold: {problem} {values.min():.4f}")
    return chosen


def _write(
    stack: ExitStack, texts: Sequence[str], outputs: Sequence[str | None], chosen: "Flags"
) -> None:
    """Write the chosen lines as they are.

    :raises PhrasescoreError: if the text has become another one.
    """
    from phrasescore.errors import PhrasescoreError
    from phrasescore.io.output import open_output

    streams = [stack.enter_context(open_output(name)) for name in outputs if name is not None]
    number = 0
    for number, line in enumerate(_lines(texts), start=1):
        if number <= len(chosen) and chosen[number - 1]:
            for stream, raw in zip(streams, line.raw, strict=True):
                stream.write(raw + b"\n")
    if number != len(chosen):
        problem = f"has changed while it was read: {len(chosen):,} lines, then {number:,}"
        raise PhrasescoreError(f"{texts[0]}: {problem}")


def _write_scores(stack: ExitStack, path: str, values: "Floats") -> None:
    from phrasescore.io.output import open_output

    stream = stack.enter_context(open_output(path))
    for value in values.tolist():
        stream.write(f"{value:.7g}\n".encode())
