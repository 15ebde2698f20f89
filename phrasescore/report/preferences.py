"""What a network prefers against what the phrase table prefers (Cho et al., 2014, table 2)."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phrasescore.records import PhrasePair
from phrasescore.report.blocks import Cell, Section, Table
from phrasescore.report.shown_text import shown, whole
from phrasescore.report.table_choice import MIN_TARGETS, SourcePhrase

# Targets of a source phrase that are shown.
TOP = 3

_LEAD = """\
For some source phrases the targets that the table gives the highest p(target | source), from the \
best one, beside those that a network gives the highest, with that p. The network chooses among \
the targets that the table has. Its probabilities are those of a whole phrase with its </s>, and \
need not sum to one over the table's targets.

The table counts: of a frequent phrase it knows much. Of a rare phrase it knows next to nothing, \
and its best targets are often those that the word alignment cut badly."""


class ModelScores(NamedTuple):
    """What a network says of phrase pairs."""

    # Of the model, as the report calls it.
    name: str
    # Natural logarithms of p(target | source), ``</s>`` included.
    log_probs: Mapping[PhrasePair, float]


def preferences(
    frequent: Sequence[SourcePhrase],
    rare: Sequence[SourcePhrase],
    models: Sequence[ModelScores],
    column: int,
    long: int,
) -> Section | None:
    """Return the two tables of the paper, or None where no source phrase can be shown.

    :param models: with scores of every target of every source phrase.
    :param column: of the table's p(target | source), from 0.
    :param long: words that the source phrases have at least.
    """
    kind = f"of {long} words or more and of {MIN_TARGETS} targets or more"
    captions = {
        "frequent": f"The most frequent ones {kind}; of those that contain one another, one.",
        "rare": f"Drawn from those {kind}, all of whose pairs were extracted once.",
    }
    blocks = [
        _table(name, captions[name], sources, models, column)
        for name, sources in (("frequent", frequent), ("rare", rare))
        if sources
    ]
    if not blocks:
        return None
    return Section("preferences", "What the table and the network prefer", _LEAD, tuple(blocks))


def _table(
    name: str,
    caption: str,
    sources: Sequence[SourcePhrase],
    models: Sequence[ModelScores],
    column: int,
) -> Table:
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{model.name} prefers" for model in models]
    rows: list[tuple[Cell, ...]] = []
    for source in sources:
        by_table = {target.pair: target.scores[column] for target in source.targets}
        cells = [_best(by_table)]
        for model in models:
            by_model = {pair: math.exp(model.log_probs[pair]) for pair in by_table}
            cells.append(_best(by_model))
        counts = (whole(source.times), len(source.targets))
        rows.append((shown(source.source), *counts, *cells))
    title = f"Long, {name} source phrases"
    return Table(f"preferences-{name}", title, tuple(columns), tuple(rows), caption)


def _best(probabilities: Mapping[PhrasePair, float]) -> str:
    """Return the best targets, one a line; equal ones stay in the table's order."""
    best = sorted(probabilities.items(), key=lambda entry: -entry[1])[:TOP]
    return "\n".join(f"{shown(pair.target)} ({_text(value)})" for pair, value in best)


def _text(probability: float) -> str:
    return f"{probability:.3f}" if probability >= 0.0005 else "< 0.001"
