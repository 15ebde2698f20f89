"""Scores of a network against those of the table (Cho et al., 2014, figure 3)."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from phrasescore.report.blocks import Cell, Points, Section, Table
from phrasescore.report.shown_text import shown, whole
from phrasescore.report.table_choice import TablePair

# Pairs listed at each end of the differences.
TOP = 25
# Moses' floor of a logarithm (LOWEST_SCORE in moses/TypeDef.h): a probability of 0 can be drawn.
_LOWEST = -100.0

_LEAD = """\
Each point is a phrase pair, drawn from the whole table with equal chance. Both scores are natural \
logarithms of p(target | source), or of p(source | target) for a network that predicts the source; \
on the diagonal they agree. A network spreads its probability over all texts there are, the table \
over the targets that it has, so most points are below the diagonal.

Pairs that were extracted once stand in columns: a source phrase that was seen n times gives them \
1/n. How often they came was left out of the network's training on purpose."""


def score_section(
    pairs: Sequence[TablePair],
    models: Sequence[tuple[str, Sequence[float], int]],
    num_pairs: int,
) -> Section:
    """Return a plot per model, and tables of the pairs with the largest differences.

    :param models: per model its name, its log-probabilities of the pairs (natural logarithms), and
        the index of the table's score of the same probability, from 0.
    :param num_pairs: number of pairs of the whole table.
    """
    labels = tuple(f"{shown(pair.source)} → {shown(pair.target)}" for pair, _, _ in pairs)
    groups = tuple(_group(pair.times) for pair in pairs)
    blocks: list[Points | Table] = []
    for number, (name, scores, column) in enumerate(models, start=1):
        table = [max(_log(pair.scores[column]), _LOWEST) for pair in pairs]
        caption = f"{len(pairs):,} of {num_pairs:,} pairs. {_correlations(table, scores)}"
        title = f"Scores of {name} and of the table"
        blocks.append(
            Points(
                name=f"scores-{number}",
                title=title,
                x_label=f"ln p of the table (score {column + 1})",
                y_label=f"ln p of {name}",
                x=tuple(table),
                y=tuple(scores),
                labels=labels,
                groups=groups,
                equal=True,
                caption=caption,
            )
        )
        blocks += _disagreements(number, name, pairs, table, scores)
    return Section("scores", "Network scores against table scores", _LEAD, tuple(blocks))


def _group(times: float) -> str:
    """Return the name of a pair's group, by how often the pair was extracted."""
    if times >= 10:
        return "extracted 10 times or more"
    return "extracted 2 to 9 times" if times >= 2 else "extracted once"


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


def _correlations(table: Sequence[float], scores: Sequence[float]) -> str:
    """Return a sentence with Pearson's and Spearman's coefficients, empty where undefined."""
    if len(table) < 3 or len(set(table)) == 1 or len(set(scores)) == 1:
        return ""
    values = (
        float(np.corrcoef(table, scores)[0, 1]),
        float(np.corrcoef(rankdata(table), rankdata(scores))[0, 1]),
    )
    return f"Correlation {values[0]:.2f} (Pearson), {values[1]:.2f} of their ranks (Spearman)."


def _disagreements(
    number: int,
    name: str,
    pairs: Sequence[TablePair],
    table: Sequence[float],
    scores: Sequence[float],
) -> list[Table]:
    """Return tables of the pairs that the network scores farthest above and below the table."""
    differences = np.subtract(scores, table)
    order = np.argsort(-differences, kind="stable").tolist()
    ends = {
        "above": [place for place in order if differences[place] > 0][:TOP],
        "below": [place for place in reversed(order) if differences[place] < 0][:TOP],
    }
    columns = ("source phrase", "target phrase", "times extracted", "table", "network")
    found = []
    for end, places in ends.items():
        rows: list[tuple[Cell, ...]] = []
        for place in places:
            pair, _, times = pairs[place]
            row: list[Cell] = [shown(pair.source), shown(pair.target), whole(times)]
            rows.append((*row, table[place], scores[place], float(differences[place])))
        caption = (
            f"Of the pairs above, up to {TOP} for which ln p of the network is farthest {end} that "
            "of the table. Nothing is divided by length."
        )
        if rows:
            name_of_block = f"scores-{number}-{end}"
            title = f"Where {name} is farthest {end} the table"
            found.append(
                Table(name_of_block, title, (*columns, "difference"), tuple(rows), caption)
            )
    return found
