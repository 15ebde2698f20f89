"""BLEU of systems, by length and by unknown words, and the sentences where systems differ.

The figures follow Cho et al. (2014b), figure 4, and Bahdanau et al. (2014), figure 2.
"""

from collections.abc import Sequence

from phrasescore.evaluation.comparison import SEED, TRIALS, Breakdown, Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.evaluation.significance import SAMPLES, p_value_text
from phrasescore.report.blocks import Cell, Lines, Points, Section, Series, Table, shown

# Sentences listed at each end of a comparison.
TOP = 25

_LEAD = """\
BLEU is that of multi-bleu.perl, from 0 to 100: of text as it is split, without smoothing. Each \
group of sentences is measured as a corpus of its own; BLEU of a few sentences says little."""

_TESTS = (
    "p: how often chance alone makes such a difference from the first system, by approximate "
    f"randomization over sentences ({TRIALS:,} trials, seed {SEED}). ±: of 95% of {SAMPLES:,} "
    "bootstrap samples."
)

_BARS = (
    "Bars: what 95% of samples of a group's own sentences, drawn with replacement, are in; of a "
    "few sentences they say little, of a single one nothing."
)

_DIFFERENCES_LEAD = """\
The sentences where two systems differ most, by smoothed sentence BLEU: one is added to the \
matching and to all n-grams for n from 2 to 4 (Lin and Och, 2004); a translation without a \
matching word has 0. Sentence BLEU is a rough guide to what to read, and no measure of a \
translation."""


def translation_section(
    comparison: Comparison, breakdowns: Sequence[Breakdown], seed: int
) -> Section:
    """Return a table of the systems, and one figure per breakdown, with bootstrapped intervals."""
    figures = [
        _group_lines(comparison, breakdown, f"bleu-groups-{number}", seed)
        for number, breakdown in enumerate(breakdowns, start=1)
    ]
    return Section("translations", "Translations", _LEAD, (_systems_table(comparison), *figures))


def _systems_table(comparison: Comparison) -> Table:
    scores = comparison.scores
    if len(scores) == 1:
        (only,) = scores
        row = (only.name, round(only.mean, 2), round(only.length_ratio, 3))
        return Table("bleu", "BLEU", ("system", "BLEU", "length ratio"), (row,))
    columns = ("system", "BLEU", "± (95%)", "difference from the first", "p", "length ratio")
    rows: list[tuple[Cell, ...]] = [
        (
            score.name,
            round(score.mean, 2),
            None if confidence is None else round(confidence, 2),
            None if score.difference is None else round(score.difference, 2),
            score.p_value,
            round(score.length_ratio, 3),
        )
        for score, confidence in zip(scores, comparison.confidences(), strict=True)
    ]
    return Table("bleu", "BLEU", columns, tuple(rows), _TESTS)


def _group_lines(comparison: Comparison, breakdown: Breakdown, name: str, seed: int) -> Lines:
    groups = comparison.score_groups(breakdown).groups
    labels = tuple(group.label for group in groups)
    sizes = ", ".join(f"{group.label}: {group.sentences:,}" for group in groups)
    bleu = zip(*(group.bleu for group in groups), strict=True)
    spreads = zip(*comparison.group_spreads(breakdown, seed), strict=True)
    return Lines(
        name=name,
        title=f"BLEU by {breakdown.title}",
        x_label=breakdown.title,
        y_label="BLEU",
        series=tuple(
            Series(system.name, labels, tuple(of_system), tuple(spread))
            for system, of_system, spread in zip(comparison.systems, bleu, spreads, strict=True)
        ),
        caption=f"Sentences in each group: {sizes}. {_BARS}",
    )


def difference_section(comparison: Comparison) -> Section:
    """Return the sentences in which each system differs most from the first one."""
    sentence_scores = comparison.sentence_scores()
    blocks: list[Table | Points] = []
    for index in range(1, len(comparison.systems)):
        both = (sentence_scores[0], sentence_scores[index])
        blocks.append(_scatter(comparison, index, *both))
        blocks += _most_different(comparison, index, *both)
    return Section("differences", "Where systems differ", _DIFFERENCES_LEAD, tuple(blocks))


def _scatter(
    comparison: Comparison, index: int, first: Sequence[float], other: Sequence[float]
) -> Points:
    """Return the sentence scores of a system against the first system's."""
    pairs = list(zip(first, other, strict=True))
    better = sum(after > before for before, after in pairs)
    worse = sum(after < before for before, after in pairs)
    baseline, system = comparison.scores[0], comparison.scores[index]
    assert system.p_value is not None
    texts = _plain_lines(comparison.source or comparison.references[0])
    return Points(
        name=f"differences-{index}-sentences",
        title=f"{system.name} against {baseline.name}, sentence by sentence",
        x_label=f"sentence BLEU of {baseline.name}",
        y_label=f"sentence BLEU of {system.name}",
        x=tuple(round(value, 2) for value in first),
        y=tuple(round(value, 2) for value in other),
        labels=tuple(f"{number:,}: {text}" for number, text in enumerate(texts, start=1)),
        equal=True,
        caption=f"{system.name} is better in {better:,} sentences, worse in {worse:,}, and as good "
        f"in {len(first) - better - worse:,}. By BLEU of the whole text "
        f"{p_value_text(system.p_value)}.",
    )


def _most_different(
    comparison: Comparison, index: int, first: Sequence[float], other: Sequence[float]
) -> list[Table]:
    """Return tables of a system's largest gains and largest losses."""
    baseline, system = comparison.systems[0], comparison.systems[index]
    gains = [after - before for before, after in zip(first, other, strict=True)]
    sides = [*comparison.sides.items(), (baseline.name, baseline.text), (system.name, system.text)]
    columns = ("sentence", "gain", *(name for name, _ in sides))
    texts = [_plain_lines(text) for _, text in sides]
    # sorted() is stable: of equal gains the earlier sentence comes first.
    better = sorted((at for at, gain in enumerate(gains) if gain > 0), key=lambda at: -gains[at])
    worse = sorted((at for at, gain in enumerate(gains) if gain < 0), key=lambda at: gains[at])
    caption = (
        f"Up to {TOP} sentences, by their gain: sentence BLEU of {system.name} less that of "
        f"{baseline.name}."
    )
    tables = []
    for end, order in (("better", better), ("worse", worse)):
        rows: list[tuple[Cell, ...]] = [
            (at + 1, round(gains[at], 2), *(lines[at] for lines in texts)) for at in order[:TOP]
        ]
        if rows:
            title = f"Where {system.name} is {end} than {baseline.name}"
            name = f"differences-{index}-{end}"
            tables.append(Table(name, title, columns, tuple(rows), caption))
    return tables


def _plain_lines(text: Sentences) -> list[str]:
    return [shown(words) for words in text.words]
