"""BLEU of systems, by length and by unknown words, and the sentences where systems differ.

The groups of sentences are those of :mod:`phrasescore.evaluation.breakdowns`; the figures follow
Cho et al. (2014b), figure 4, and Bahdanau et al. (2014), figure 2.
"""

from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.evaluation.breakdowns import Breakdown
from phrasescore.report.blocks import Cell, Lines, Points, Section, Series, Table
from phrasescore.report.shown_text import p_value_text

# Sentences listed at each end of a comparison.
TOP = 25

_LEAD = """\
BLEU is that of multi-bleu.perl, from 0 to 100: of text as it is split, without smoothing. Each \
group of sentences is measured as a corpus of its own; BLEU of a few sentences says little."""

_BARS = (
    "Bars: what 95% of samples of a group's own sentences, drawn with replacement, are in; of a "
    "few sentences they say little, of a single one nothing."
)

_DIFFERENCES_LEAD = """\
The sentences where two systems differ most, by smoothed sentence BLEU: one is added to the \
matching and to all n-grams for n from 2 to 4 (Lin and Och, 2004); a translation without a \
matching word has 0. Sentence BLEU is a rough guide to what to read, and no measure of a \
translation."""


class SystemScore(NamedTuple):
    """BLEU of a system, and how significant its difference from the first system is."""

    name: str
    # 0 to 100.
    bleu: float
    # Words of the translations, divided by those of the reference.
    length_ratio: float
    # Of the difference from the first system, by approximate randomization; None for the first.
    p_value: float | None = None
    # Half the width of the 95% interval of the bootstrap's samples; None for a single system.
    confidence: float | None = None


class GroupScores(NamedTuple):
    """BLEU of groups of sentences."""

    breakdown: Breakdown
    # 0 to 100, by system and group.
    bleu: list[list[float]]
    # Half the width of the 95% interval of a bootstrap's samples, by system and group.
    spread: list[list[float]]


class ComparedTexts(NamedTuple):
    """The texts shown beside the scores, by sentence."""

    # None where no source was given.
    sources: Sequence[str] | None
    # The first set of references.
    references: Sequence[str]
    # By system and sentence.
    translations: Sequence[Sequence[str]]


def translation_section(
    systems: Sequence[SystemScore], groups: Sequence[GroupScores], tests: str
) -> Section:
    """Return a table of the systems and one figure per way to group sentences.

    :param tests: a sentence that explains the p-values; empty for a single system.
    """
    blocks: list[Table | Lines] = [_systems_table(systems, tests)]
    for number, found in enumerate(groups, start=1):
        title, of = found.breakdown
        labels = tuple(group.label for group in of)
        sizes = ", ".join(f"{group.label}: {len(group.members):,}" for group in of)
        blocks.append(
            Lines(
                name=f"bleu-groups-{number}",
                title=f"BLEU by {title}",
                x_label=title,
                y_label="BLEU",
                series=tuple(
                    Series(system.name, labels, tuple(line), tuple(spread))
                    for system, line, spread in zip(systems, found.bleu, found.spread, strict=True)
                ),
                caption=f"Sentences in each group: {sizes}. {_BARS}",
            )
        )
    return Section("translations", "Translations", _LEAD, tuple(blocks))


def _systems_table(systems: Sequence[SystemScore], tests: str) -> Table:
    columns: tuple[str, ...] = (
        *("system", "BLEU", "± (95%)", "difference from the first", "p"),
        "length ratio",
    )
    first = systems[0].bleu
    rows: list[tuple[Cell, ...]] = []
    for place, system in enumerate(systems):
        confidence = system.confidence
        rows.append(
            (
                system.name,
                round(system.bleu, 2),
                None if confidence is None else round(confidence, 2),
                round(system.bleu - first, 2) if place else None,
                system.p_value,
                round(system.length_ratio, 3),
            )
        )
    if len(systems) == 1:  # compared with no other
        columns, rows = (*columns[:2], columns[-1]), [(*rows[0][:2], rows[0][-1])]
    return Table("bleu", "BLEU", columns, tuple(rows), tests)


def difference_section(
    systems: Sequence[SystemScore], scores: Sequence[Sequence[float]], texts: ComparedTexts
) -> Section:
    """Return the sentences in which each system differs most from the first one.

    :param systems: two or more.
    :param scores: smoothed sentence BLEU, 0 to 100, by system and sentence.
    """
    blocks: list[Table | Points] = []
    for place in range(1, len(systems)):
        blocks.append(_scatter(systems, place, scores, texts))
        blocks += _most_different(systems, place, scores, texts)
    return Section("differences", "Where systems differ", _DIFFERENCES_LEAD, tuple(blocks))


def _scatter(
    systems: Sequence[SystemScore],
    place: int,
    scores: Sequence[Sequence[float]],
    texts: ComparedTexts,
) -> Points:
    first, other = scores[0], scores[place]
    counts = [
        sum(one > two for one, two in zip(other, first, strict=True)),
        sum(one < two for one, two in zip(other, first, strict=True)),
    ]
    p_value = systems[place].p_value
    chance = "" if p_value is None else f" By BLEU of the whole text {p_value_text(p_value)}."
    shown = texts.references if texts.sources is None else texts.sources
    return Points(
        name=f"differences-{place}-sentences",
        title=f"{systems[place].name} against {systems[0].name}, sentence by sentence",
        x_label=f"sentence BLEU of {systems[0].name}",
        y_label=f"sentence BLEU of {systems[place].name}",
        x=tuple(round(value, 2) for value in first),
        y=tuple(round(value, 2) for value in other),
        labels=tuple(f"{number:,}: {text}" for number, text in enumerate(shown, start=1)),
        equal=True,
        caption=f"{systems[place].name} is better in {counts[0]:,} sentences, worse in "
        f"{counts[1]:,}, and as good in {len(first) - sum(counts):,}.{chance}",
    )


def _most_different(
    systems: Sequence[SystemScore],
    place: int,
    scores: Sequence[Sequence[float]],
    texts: ComparedTexts,
) -> list[Table]:
    """Return tables of a system's largest gains and largest losses."""
    gains = [after - before for before, after in zip(scores[0], scores[place], strict=True)]
    sides = [("reference", texts.references)]
    if texts.sources is not None:
        sides.insert(0, ("source", texts.sources))
    sides += [(systems[one].name, texts.translations[one]) for one in (0, place)]
    columns = ("sentence", "gain", *(name for name, _ in sides))
    found = []
    # sorted() is stable: of equal gains the earlier sentence comes first.
    better = sorted((at for at, gain in enumerate(gains) if gain > 0), key=lambda at: -gains[at])
    worse = sorted((at for at, gain in enumerate(gains) if gain < 0), key=lambda at: gains[at])
    for end, order in (("better", better), ("worse", worse)):
        rows: list[tuple[Cell, ...]] = [
            (at + 1, round(gains[at], 2), *(lines[at] for _, lines in sides)) for at in order[:TOP]
        ]
        title = f"Where {systems[place].name} is {end} than {systems[0].name}"
        caption = (
            f"Up to {TOP} sentences, by their gain: sentence BLEU of {systems[place].name} less "
            f"that of {systems[0].name}."
        )
        if rows:
            name = f"differences-{place}-{end}"
            found.append(Table(name, title, columns, tuple(rows), caption))
    return found
