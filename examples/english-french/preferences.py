"""What a network prefers against what the phrase table prefers (Cho et al., 2014, table 2)."""

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count

MIN_WORDS = 4  # of a source phrase in the comparison: long ones, as in the paper
MIN_TARGETS = 3
TOP = 3
TARGET_SCORE = 2  # p(e|f) in Moses' order: p(f|e) lex(f|e) p(e|f) lex(e|f)


class Target(NamedTuple):
    """One target phrase of a source phrase."""

    text: str
    # p(target | source) of the phrase table: counted.
    table: float
    # p(target | source) of the network, its ``</s>`` counted.
    network: float
    # How often the pair was extracted.
    times: float


Targets = Mapping[str, Sequence[Target]]


def read_targets(path: str) -> dict[str, list[Target]]:
    """Return the targets of each source phrase of at least 4 words, in the table's order.

    :param path: a phrase table with Moses' four scores and the network's as the last one.
    """
    found = defaultdict(list)
    for line in read_phrase_table(path):
        if len(line.pair.source) >= MIN_WORDS:
            scores = [float(score) for score in line.raw.split(b"|||")[2].split()]
            found[" ".join(line.pair.source)].append(
                Target(
                    " ".join(line.pair.target),
                    scores[TARGET_SCORE],
                    scores[-1],
                    joint_count(line.raw),
                )
            )
    return dict(found)


def frequent_sources(targets: Targets, how_many: int) -> list[str]:
    """Return the sources of at least 3 targets that were extracted most often.

    One that holds another one, or is held by it, is left out: it would say the same again.
    """
    chosen: list[str] = []
    for source in sorted(_contested(targets), key=lambda name: _rank(name, targets[name])):
        words = f" {source} "
        if not any(f" {other} " in words or words in f" {other} " for other in chosen):
            chosen.append(source)
    return chosen[:how_many]


def rare_sources(targets: Targets, how_many: int) -> list[str]:
    """Return sources of at least 3 targets of which each was extracted once.

    They are taken at equal distances from all there are, in the order of the alphabet.
    """
    once = sorted(
        source
        for source in _contested(targets)
        if all(target.times == 1 for target in targets[source])
    )
    num = min(how_many, len(once))
    return [once[(2 * place + 1) * len(once) // (2 * num)] for place in range(num)]


def _contested(targets: Targets) -> list[str]:
    return [source for source, found in targets.items() if len(found) >= MIN_TARGETS]


def _rank(source: str, found: Sequence[Target]) -> tuple[float, int, str]:
    # Of equally frequent ones the shortest, which the longer ones hold.
    return -_count(found), len(source.split(" ")), source


def _count(found: Sequence[Target]) -> float:
    return sum(target.times for target in found)


def preference_table(targets: Targets, sources: Sequence[str]) -> str:
    """Return, for each source, the table's 3 best targets beside the network's 3 best.

    Equal ones stay in the order of the phrase table. Moses' escapes, such as ``&apos;``, are
    shown as the characters they stand for.
    """
    rows = []
    for source in sources:
        found = targets[source]
        head = f"{html.unescape(source)}  (seen {_count(found):g} times, {len(found)} targets)"
        by_table = sorted(found, key=lambda target: -target.table)[:TOP]
        by_network = sorted(found, key=lambda target: -target.network)[:TOP]
        cells = [
            (_probability(one.table), html.unescape(one.text),
             _probability(other.network), html.unescape(other.text))
            for one, other in zip(by_table, by_network, strict=True)
        ]  # fmt: skip
        rows.append((head, cells))
    header = ("p(e|f)", "the table prefers", "p(e|f)", "the network prefers")
    width = max(len(cell[1]) for _, cells in rows for cell in [header, *cells])
    lines = [_row(header, width)]
    for head, cells in rows:
        lines += ["", head, *(_row(cell, width) for cell in cells)]
    return "\n".join(lines)


def _row(cells: tuple[str, str, str, str], width: int) -> str:
    return f"  {cells[0]:>6}  {cells[1]:<{width}}  {cells[2]:>6}  {cells[3]}"


def _probability(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def agreement(targets: Targets) -> str:
    """Return how often the two have the same first choice, and how often chance would.

    Over the sources of several targets of which the table prefers one alone.
    """
    same = chance = 0.0
    num = 0
    for found in targets.values():
        best = max(target.table for target in found)
        first = [target for target in found if target.table == best]
        if len(found) > 1 and len(first) == 1:
            num += 1
            same += max(found, key=lambda target: target.network) == first[0]
            chance += 1 / len(found)
    if not num:
        return "The table prefers one target of several nowhere."
    return (
        f"Of {num:,} source phrases of {MIN_WORDS} words or more where the table prefers one of "
        f"several targets,\nthe network has the same first choice for {same / num:.0%}; "
        f"by chance it would be {chance / num:.0%}."
    )
