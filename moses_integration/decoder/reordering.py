"""Read of a lexicalised reordering table only the phrase pairs that a search may use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moses_integration.decoder.line_filter import LineFilter
from moses_integration.decoder.phrase_filter import log_of, parse_probabilities
from phrasescore.errors import DataError
from phrasescore.io.text import shorten


def read_reordering(
    path: str, pairs: Sequence[tuple[bytes, bytes]], num_scores: int, default: Sequence[float]
) -> Any:
    """Return the reordering scores of phrase pairs, float64 (pairs, scores), natural logarithms.

    Of several lines of a pair the last one counts, as in Moses
    (LexicalReorderingTableMemory::LoadFromFile).

    :param pairs: source and target, words with single spaces between them; may repeat.
    :param default: logarithms for a pair that the table lacks: zeros where moses.ini has no
        ``default-scores``.
    :raises DataError: if the file cannot be read, or a line of these pairs has not so many
        probabilities.
    """
    places: dict[tuple[bytes, bytes], int] = {}
    rows = [places.setdefault(pair, len(places)) for pair in pairs]
    log_probs = np.tile(np.array(default, np.float64), (len(places), 1))
    found: list[int] = []
    scores: list[float] = []
    for number, line in LineFilter.of_pairs(places).matching_lines(path):
        fields = line.split(b"|||")
        if len(fields) != 3:
            problem = "expected 'source ||| target ||| scores'"
            raise DataError(path, number, f"{problem}, found {shorten(line)}")
        source, target = (b" ".join(field.split()) for field in fields[:2])
        values = parse_probabilities(path, number, fields[2], num_scores)
        place = places.get((source, target))
        if place is not None:  # always, but for two phrase pairs of one hash
            scores += values
            found.append(place)
    # One by one, in the order of the file: numpy does not promise which of two equal places wins.
    latest = {place: row for row, place in enumerate(found)}
    if latest:
        logs = log_of(np.array(scores).reshape(-1, num_scores))
        log_probs[list(latest)] = logs[list(latest.values())]
    return log_probs[rows]
