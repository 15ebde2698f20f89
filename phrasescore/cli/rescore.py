"""``phrasescore rescore``: add the networks' scores to n-best lists."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, tee
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from phrasescore.cli import options
from phrasescore.cli.columns import check_columns
from phrasescore.cli.rescore_columns import (
    Column,
    check_names,
    column_values,
    make_columns,
    with_normalized,
)
from phrasescore.cli.rescore_networks import load_models, network_scores, open_cache
from phrasescore.errors import PhrasescoreError
from phrasescore.records import HypothesisList

if TYPE_CHECKING:
    from moses_integration.nbest import NbestList
    from phrasescore.features.sentences import ListScores, SentenceScores

_logger = logging.getLogger(__name__)


class Item(NamedTuple):
    """A list with what scoring needs of it."""

    found: "NbestList"
    source: tuple[str, ...]
    # The words of each distinct hypothesis, by its field.
    distinct: dict[bytes, tuple[str, ...]]


@click.command(cls=options.OrderedColumns)
@click.argument("nbest", metavar="NBEST")
@click.option("--source", metavar="SRC", required=True, help="What was translated, tokenised.")
@options.models
@options.features
@options.language_models
@options.lexicons
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    show_default="LSTM0, Attention0, RNN0, GrConv0, KenLM0, UnknownWords0 and so on",
    help="Name of a new feature: once for each column in the order of the options, and for the "
    "ensemble.",
)
@click.option(
    "--ensemble",
    is_flag=True,
    help="One more column: the models' probabilities, averaged at each word. They should have one "
    "shortlist: a smaller one gives <unk> more probability than a larger one any one rare word.",
)
@click.option(
    "--normalize",
    is_flag=True,
    help="For each network one more column, NAMENorm: its score divided by predicted words and "
    "end symbol.",
)
@click.option(
    "--word-scores", metavar="FILE", help="Write the log-probability of each predicted word."
)
@click.option(
    "--replace", is_flag=True, help="Remove features that have a new one's name, where they are."
)
@click.option(
    "--allow-missing", is_flag=True, help="Let source sentences have no hypotheses at all."
)
@click.option(
    "--cache", "cache_file", metavar="FILE", help="Keep scores here, and take them from here."
)
@click.option(
    "--cache-size",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000_000,
    show_default=True,
    help="Scores that the cache keeps, of about 65 bytes each; beyond, the oldest go.",
)
@options.output
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def rescore(
    ctx: click.Context,
    nbest: str,
    source: str,
    models: tuple[str, ...],
    features: tuple[str, ...],
    language_models: tuple[str, ...],
    lexicons: tuple[str, ...],
    reverse_lexicons: tuple[str, ...],
    names: tuple[str, ...],
    ensemble: bool,
    normalize: bool,
    word_scores: str | None,
    replace: bool,
    allow_missing: bool,
    cache_file: str | None,
    cache_size: int,
    output: str,
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """Add features to the hypotheses of NBEST, an n-best list as Moses writes it.

    A model's is the natural logarithm of p(hypothesis | source), end symbol included, or of the
    reverse. Each goes to the end of field 3; every other byte stays.
    """
    from moses_integration.nbest import read_nbest, with_sources

    order = options.column_order(
        ctx,
        models=models,
        features=features,
        language_models=language_models,
        lexicons=lexicons,
        reverse_lexicons=reverse_lexicons,
    )
    check_columns(order, of_phrases=False)
    if ensemble and len(models) < 2:
        raise click.UsageError("--ensemble averages at least two models")
    if not models and (normalize or word_scores is not None or cache_file is not None):
        raise click.UsageError("--normalize, --word-scores and --cache are of a --model's scores")
    read = (nbest, source, *language_models, *lexicons, *reverse_lexicons)
    _check_files(read, cache_file, output, word_scores)
    checkpoints = load_models(models, device)
    columns = make_columns(order, checkpoints, names, ensemble=ensemble)
    if normalize:
        columns = with_normalized(columns)
    new_names = check_names([column.name for column in columns])
    lists = read_nbest(nbest, () if replace else new_names)
    items = _items(with_sources(lists, source, allow_missing=allow_missing))
    first = next(items)  # what is wrong with the files is often seen here, before the long work
    with ExitStack() as stack:
        scores = None
        if checkpoints:
            scores = network_scores(
                checkpoints,
                device,
                open_cache(stack, cache_file, cache_size, word_scores),
                precision=precision,
                threads=threads,
                ensemble=ensemble,
                words=word_scores is not None,
            )
        _write(chain([first], items), columns, scores, output, word_scores, replace=replace)
    if scores is not None:
        _logger.info("%s", scores.summary())
    for column in columns:
        if column.feature is not None:
            _logger.info("%s: %s", column.name, column.feature.summary())


def _check_files(
    read: Sequence[str], cache_file: str | None, output: str, word_scores: str | None
) -> None:
    """Check that no file is in another's way, before anything is written."""
    from phrasescore.text import same_file

    if read.count("-") > 1 or (output, word_scores) == ("-", "-"):
        raise click.UsageError("two files cannot share stdin or stdout")
    if cache_file == "-":
        raise click.UsageError("--cache needs a file: a stream cannot be a cache")
    written = [output, word_scores, cache_file]
    for place, out in enumerate(written):
        for other in (*read, *written[:place]):
            if out is not None and other is not None and same_file(out, other):
                raise PhrasescoreError(f"{out}: would overwrite another file; name another one")


def _items(lists: "Iterable[tuple[NbestList, tuple[str, ...]]]") -> Iterator[Item]:
    for found, source in lists:
        yield Item(found, source, found.distinct())


def _write(
    items: Iterable[Item],
    columns: list[Column],
    scores: "SentenceScores | None",
    output: str,
    word_scores: str | None,
    *,
    replace: bool,
) -> None:
    """Write the lists with their new features, and the words' scores, with progress."""
    from phrasescore.cli.progress import Progress
    from phrasescore.text import open_output

    items, ahead = tee(items)
    # Each list is read once, and held until its scores are there.
    wanted = (HypothesisList(item.source, list(item.distinct.values())) for item in ahead)
    results: Iterable[ListScores | None] = (None for _ in wanted)
    if scores is not None:
        results = scores.values(wanted)
    names = [column.name for column in columns]
    with ExitStack() as stack:
        target = stack.enter_context(open_output(output))
        words = None if word_scores is None else stack.enter_context(open_output(word_scores))
        progress = stack.enter_context(Progress("rescore", unit="hypotheses"))
        for item, result in zip(items, results, strict=True):
            found = item.found.without_features(names) if replace else item.found
            target.write(found.with_features(_texts(item, result, columns)))
            if words is not None and result is not None:
                _write_words(words, item, result, columns)
            progress.update(len(found.raws))


def _texts(item: Item, result: "ListScores | None", columns: list[Column]) -> dict[bytes, bytes]:
    """Return what is added to the lines of each distinct hypothesis."""
    from moses_integration.nbest import format_features

    hypotheses = list(item.distinct.values())
    values = [column_values(column, item.source, hypotheses, result) for column in columns]
    names = [column.name for column in columns]
    return {
        field: format_features(zip(names, row, strict=True))
        for field, *row in zip(item.distinct, *values, strict=True)
    }


def _write_words(target: BinaryIO, item: Item, result: "ListScores", columns: list[Column]) -> None:
    """Write a line for each hypothesis: its id, and a field of ``word=log p`` for each network."""
    from moses_integration.nbest import format_value

    assert result.words is not None
    networks = [
        column for column in columns if column.network is not None and not column.normalized
    ]
    lines = {}
    for place, (field, hypothesis) in enumerate(item.distinct.items()):
        parts = [str(item.found.id).encode()]
        for column in networks:
            predicted = item.source if column.reverse else hypothesis
            assert column.network is not None
            log_probs = result.words[column.network][place].tolist()
            parts.append(
                b" ".join(
                    b"%s=%s" % (word.encode(), format_value(log_prob))
                    for word, log_prob in zip((*predicted, "</s>"), log_probs, strict=True)
                )
            )
        lines[field] = b" ||| ".join(parts) + b"\n"
    target.writelines(lines[field] for field in item.found.hypotheses)
