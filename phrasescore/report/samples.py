"""Targets that a network draws for source phrases, with no table (Cho et al., 2014, table 3)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from phrasescore.generation.sampling import CountedSample
from phrasescore.report.blocks import Cell, Section, Table
from phrasescore.report.shown_text import shown
from phrasescore.report.table_choice import SourcePhrase

# Targets drawn for a source phrase, and those shown.
SAMPLES, TOP = 50, 5

_LEAD = """\
For the source phrases of the tables above, targets that the network draws word by word, each word \
with its probability: what it would say itself. Of 50 draws the five with the highest \
log-probabilities are shown, with how often each was drawn, ln p, and "new" where the table does \
not have it. Draws that find no end within twice the words of the source and 10 are left out."""


class ModelSamples(NamedTuple):
    """What a network drew."""

    # Of the model, as the report calls it.
    name: str
    # By source phrase: distinct targets, by falling log-probability.
    drawn: Sequence[Sequence[CountedSample]]


def sample_section(
    frequent: Sequence[SourcePhrase], rare: Sequence[SourcePhrase], models: Sequence[ModelSamples]
) -> Section | None:
    """Return a table for frequent and one for rare source phrases, or None where there are none.

    :param models: with samples for all frequent source phrases, and after them all rare ones.
    """
    blocks = []
    start = 0
    for name, sources in (("frequent", frequent), ("rare", rare)):
        if sources:
            parts = [
                ModelSamples(model.name, model.drawn[start : start + len(sources)])
                for model in models
            ]
            blocks.append(_table(name, sources, parts))
        start += len(sources)
    if not blocks:
        return None
    return Section("samples", "What the network draws", _LEAD, tuple(blocks))


def _table(name: str, sources: Sequence[SourcePhrase], models: Sequence[ModelSamples]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for number, source in enumerate(sources):
        known = {target.pair.target for target in source.targets}
        cells = [
            "\n".join(_line(sample, known) for sample in model.drawn[number][:TOP])
            for model in models
        ]
        rows.append((shown(source.source), *cells))
    columns = ("source phrase", *(f"{model.name} draws" for model in models))
    title = f"Samples for long, {name} source phrases"
    return Table(f"samples-{name}", title, columns, tuple(rows))


def _line(sample: CountedSample, known: Collection[tuple[str, ...]]) -> str:
    target = sample.target
    new = "" if target.words in known else ", new"
    return f"{shown(target.words)} (× {sample.times}, {target.log_prob:.2f}{new})"
