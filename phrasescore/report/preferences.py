"""The targets that a network prefers and draws for source phrases, beside those of the table.

Cho et al. (2014), tables 2 and 3.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from phrasescore.generation.sampling import CountedSample
from phrasescore.records import PhrasePair
from phrasescore.report.blocks import Cell, Section, Table
from phrasescore.report.shown_text import shown, whole
from phrasescore.report.table_choice import MIN_TARGETS, SourcePhrase, TableChoice

# Targets that the table and the network prefer, shown per source phrase.
TOP = 3
# Targets that the network draws per source phrase, and those of them that are shown.
SAMPLES, TOP_SAMPLES = 50, 5

_LEAD = """\
For some source phrases the targets that the table gives the highest p(target | source), from the \
best one, beside those that a network gives the highest, with that p. The network chooses among \
the targets that the table has. Its probabilities are those of a whole phrase with its </s>, and \
need not sum to one over the table's targets.

The table counts: of a frequent phrase it knows much. Of a rare phrase it knows next to nothing, \
and its best targets are often those that the word alignment cut badly."""

_SAMPLES_LEAD = """\
For the source phrases of the tables above, targets that the network draws word by word, each word \
with its probability: what it would say itself. Of 50 draws the five with the highest \
log-probabilities are shown, with how often each was drawn, ln p, and "new" where the table does \
not have it. Draws that find no end within twice the words of the source and 10 are left out."""


def preference_section(
    choice: TableChoice,
    models: Mapping[str, Mapping[PhrasePair, float]],
    column: int,
    long: int,
) -> Section:
    """Return the two tables of the paper, each if there are source phrases for it.

    :param models: by name, the natural logarithms of p(target | source), ``</s>`` included, of all
        targets of the frequent and rare source phrases.
    :param column: index of the table's p(target | source), from 0.
    :param long: least number of words of the source phrases.
    """
    kind = f"of {long} words or more and of {MIN_TARGETS} targets or more"
    captions = {
        "frequent": f"The most frequent ones {kind}; of those that contain one another, one.",
        "rare": f"Drawn from those {kind}, all of whose pairs were extracted once.",
    }
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{name} prefers" for name in models]
    blocks = []
    for name, sources in _groups(choice):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            by_table = {target.pair: target.scores[column] for target in source.targets}
            cells = [_best(by_table)]
            for log_probs in models.values():
                cells.append(_best({pair: math.exp(log_probs[pair]) for pair in by_table}))
            counts = (whole(source.times), len(source.targets))
            rows.append((shown(source.source), *counts, *cells))
        title = f"Long, {name} source phrases"
        blocks.append(
            Table(f"preferences-{name}", title, tuple(columns), tuple(rows), captions[name])
        )
    return Section("preferences", "What the table and the network prefer", _LEAD, tuple(blocks))


def sample_section(
    choice: TableChoice, models: Mapping[str, Sequence[Sequence[CountedSample]]]
) -> Section:
    """Return tables of samples for frequent and for rare source phrases.

    :param models: by name, and by source phrase, the frequent ones before the rare ones: distinct
        targets that the model has drawn, by falling log-probability.
    """
    drawn = [iter(samples) for samples in models.values()]
    columns = ("source phrase", *(f"{name} draws" for name in models))
    blocks = []
    for name, sources in _groups(choice):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            known = {target.pair.target for target in source.targets}
            best = [next(samples)[:TOP_SAMPLES] for samples in drawn]
            cells = ["\n".join(_describe(sample, known) for sample in each) for each in best]
            rows.append((shown(source.source), *cells))
        title = f"Samples for long, {name} source phrases"
        blocks.append(Table(f"samples-{name}", title, columns, tuple(rows)))
    return Section("samples", "What the network draws", _SAMPLES_LEAD, tuple(blocks))


def _groups(choice: TableChoice) -> Iterator[tuple[str, Sequence[SourcePhrase]]]:
    """Yield the names and source phrases of the groups that are not empty."""
    for name, sources in (("frequent", choice.frequent), ("rare", choice.rare)):
        if sources:
            yield name, sources


def _best(probabilities: Mapping[PhrasePair, float]) -> str:
    """Return the best targets, one per line; equally good ones in the order of the table."""
    best = sorted(probabilities.items(), key=lambda entry: -entry[1])[:TOP]
    return "\n".join(f"{shown(pair.target)} ({_text(value)})" for pair, value in best)


def _text(probability: float) -> str:
    return f"{probability:.3f}" if probability >= 0.0005 else "< 0.001"


def _describe(sample: CountedSample, known: Collection[tuple[str, ...]]) -> str:
    target = sample.target
    new = "" if target.words in known else ", new"
    return f"{shown(target.words)} (× {sample.times}, {target.log_prob:.2f}{new})"
