"""Moses' extract, sort, score, consolidate and lexical-reordering-score on lines of text.

Slow and plain: every extracted pair is a line, lines are sorted by their bytes, and numbers are
formatted by Python.
"""

import struct
from collections import Counter
from itertools import groupby

Links = set[tuple[int, int]]
Sentence = tuple[list[str], list[str], Links]


def extract(sentence: Sentence, length: int) -> list[tuple[int, int, int, int]]:
    """Return the boxes (source from, to, target from, to; inclusive) that no link leaves."""
    source, target, links = sentence
    boxes = []
    for left in range(len(source)):
        for right in range(left, min(left + length, len(source))):
            for top in range(len(target)):
                for bottom in range(top, min(top + length, len(target))):
                    inside = [
                        (left <= first <= right, top <= second <= bottom) for first, second in links
                    ]
                    if (True, True) in inside and all(one == other for one, other in inside):
                        boxes.append((left, right, top, bottom))
    return boxes


def orientations(sentence: Sentence, box: tuple[int, int, int, int]) -> list[int]:
    """Return the word-based orientations to the previous and to the next phrase."""
    source, target, links = sentence
    left, right, top, bottom = box
    framed = links | {(-1, -1), (len(source), len(target))}
    numbers = []
    for row, near, far in ((top - 1, left - 1, right + 1), (bottom + 1, right + 1, left - 1)):
        is_monotone, is_swapped = (near, row) in framed, (far, row) in framed
        if is_monotone == is_swapped:
            numbers.append(2)
        else:
            numbers.append(0 if is_monotone else 1)
    return numbers


def lexicons(corpus: list[Sentence]) -> tuple[dict[tuple[str, str], float], ...]:
    """Return p(target | source) and p(source | target), with seven decimals."""
    pairs: Counter[tuple[str, str]] = Counter()
    for source, target, links in corpus:
        pairs.update((source[first], target[second]) for first, second in links)
        firsts, seconds = {first for first, _ in links}, {second for _, second in links}
        pairs.update((word, "NULL") for at, word in enumerate(source) if at not in firsts)
        pairs.update(("NULL", word) for at, word in enumerate(target) if at not in seconds)
    sides = []
    for side in range(2):
        totals: Counter[str] = Counter()
        for pair, count in pairs.items():
            totals[pair[side]] += count
        sides.append(
            {pair: float(f"{count / totals[pair[side]]:.7f}") for pair, count in pairs.items()}
        )
    return tuple(sides)


def weight(
    explained: list[str],
    others: list[str],
    links: Links,
    table: dict[tuple[str, str], float],
    is_inverse: bool,
) -> float:
    product = 1.0
    for index, word in enumerate(explained):
        partners = [others[other] for other in sorted(o for w, o in links if w == index)] or [
            "NULL"
        ]
        total = 0.0
        for other in partners:
            total += table[(word, other) if is_inverse else (other, word)]
        product *= total / len(partners)
    return product


def single(value: float) -> float:
    """Round to float32, as Moses' score does."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def best(alignments: Counter[frozenset[tuple[int, int]]], side: int, length: int) -> Links:
    """Return the most frequent alignment; of several, the one that is last in Moses' order."""

    def rank(links: frozenset[tuple[int, int]]) -> tuple[int, list[list[int]]]:
        words = [[link for link in links if link[side] == word] for word in range(length)]
        return alignments[links], [sorted(link[1 - side] for link in row) for row in words]

    chosen: frozenset[tuple[int, int]] = max(alignments, key=rank)
    return set(chosen)


def tables(corpus: list[Sentence], length: int) -> tuple[list[bytes], list[bytes]]:
    """Return the lines of the phrase table and of the bidirectional reordering table."""
    lines = []
    for sentence in corpus:
        source, target, links = sentence
        for box in extract(sentence, length):
            left, right, top, bottom = box
            inside = frozenset(
                (s - left, t - top) for s, t in links if left <= s <= right and top <= t <= bottom
            )
            text = " ".join(source[left : right + 1]), " ".join(target[top : bottom + 1])
            lines.append(
                (f"{text[0]} ||| {text[1]} |||".encode(), text, inside, orientations(sentence, box))
            )
    sources, targets = Counter(line[1][0] for line in lines), Counter(line[1][1] for line in lines)
    forward, backward = lexicons(corpus)
    phrases, orders = [], []
    for key, group in groupby(sorted(lines, key=lambda line: line[0]), key=lambda line: line[0]):
        rows = list(group)
        one, other = (text.split(" ") for text in rows[0][1])
        counts = Counter(row[2] for row in rows)
        straight, inverse = best(counts, 1, len(other)), best(counts, 0, len(one))
        numbers = targets[rows[0][1][1]], sources[rows[0][1][0]], len(rows)
        scores = (
            single(numbers[2] / numbers[0]),
            single(weight(one, other, inverse, backward, is_inverse=True)),
            single(numbers[2] / numbers[1]),
            single(weight(other, one, {(t, s) for s, t in straight}, forward, is_inverse=False)),
        )
        shown = " ".join(f"{s}-{t}" for s, t in sorted(straight, key=lambda link: link[::-1]))
        fields = " ".join(f"{score:g}" for score in scores), shown, " ".join(map(str, numbers))
        phrases.append(key + f" {' ||| '.join(fields)} ||| |||".encode())
        values = []
        for side in range(2):
            seen = Counter(row[3][side] for row in rows)
            smoothed = [seen[number] + 0.5 for number in range(3)]
            values += [f"{value / sum(smoothed):g}" for value in smoothed]
        orders.append(key + f" {' '.join(values)}".encode())
    return phrases, orders
