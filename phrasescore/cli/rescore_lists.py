"""How lists get their new features: for ``rescore``, and in each round of ``tune --decoder``."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import tee
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from moses_integration.nbest import NbestList, format_features, format_value
from phrasescore.cli.progress import show_progress
from phrasescore.cli.rescore_columns import Column, column_values
from phrasescore.io.output import open_output
from phrasescore.progress import Meter
from phrasescore.records import HypothesisList

if TYPE_CHECKING:
    from phrasescore.features.sentences import ListScores, SentenceScores


class Item(NamedTuple):
    """A list with what scoring needs of it."""

    found: NbestList
    source: tuple[str, ...]
    # The words of each distinct hypothesis, by its field.
    distinct: dict[bytes, tuple[str, ...]]


def read_items(lists: Iterable[tuple[NbestList, tuple[str, ...]]]) -> Iterator[Item]:
    """Yield each list with its source and its distinct hypotheses."""
    for found, source in lists:
        yield Item(found, source, found.distinct())


def write_lists(
    items: Iterable[Item],
    columns: list[Column],
    scores: "SentenceScores | None",
    output: str,
    word_scores: str | None,
    *,
    replace: bool,
) -> None:
    """Write the lists with their new features, and the words' scores, with progress."""
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
        progress = stack.enter_context(Meter("rescore", "hypotheses", show_progress))
        for item, result in zip(items, results, strict=True):
            found = item.found.without_features(names) if replace else item.found
            target.write(found.with_features(_texts(item, result, columns)))
            if words is not None and result is not None:
                _write_words(words, item, result, columns)
            progress.update(len(found.raws))


def _texts(item: Item, result: "ListScores | None", columns: list[Column]) -> dict[bytes, bytes]:
    """Return what is added to the lines of each distinct hypothesis."""
    hypotheses = list(item.distinct.values())
    values = [column_values(column, item.source, hypotheses, result) for column in columns]
    names = [column.name for column in columns]
    return {
        field: format_features(zip(names, row, strict=True))
        for field, *row in zip(item.distinct, *values, strict=True)
    }


def _write_words(target: BinaryIO, item: Item, result: "ListScores", columns: list[Column]) -> None:
    """Write a line for each hypothesis: its id, and a field of ``word=log p`` for each network."""
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
