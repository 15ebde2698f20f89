"""Files that Moses' extractor made from n-best lists, and start weights for its mert."""

from itertools import chain

import numpy as np
from xopen import xopen

from phrasescore.records import FeatureLabel
from tuning.pool import Pool

BLEU_ORDER = [0, 4, 1, 5, 2, 6, 3, 7, 8]  # in Moses' files: a match, a total, and so on


def read_extracted(features: str, scores: str) -> Pool:
    """Return the distinct hypotheses in files of Moses' extractor, without sparse features."""
    names, values, starts = _read_blocks(features)
    _, found, _ = _read_blocks(scores)
    stats = np.empty_like(found)
    stats[:, BLEU_ORDER] = found
    labels = [name.rpartition("_") for name in names]
    return Pool(
        tuple(FeatureLabel(name, int(place)) for name, _, place in labels), values, stats, starts
    ).distinct()


def _read_blocks(path: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the names in the first header, all rows of numbers, and where each block begins."""
    headers: list[list[str]] = []
    rows: list[list[str]] = []
    with xopen(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if "_TXT_BEGIN_" in words[0]:
                headers.append(words)
            elif "_TXT_END_" not in words[0]:
                rows.append(words)
    values = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
    starts = np.cumsum([0, *(int(header[2]) for header in headers)], dtype=np.int64)
    return headers[0][4:], values.reshape(len(rows), -1), starts


def read_start(path: str) -> np.ndarray:
    """Return the weights in the first line; the other two say what may vary, and how far."""
    with open(path, encoding="ascii") as lines:
        return np.array([float(number) for number in lines.readline().split(" ")])
