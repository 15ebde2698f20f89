"""Read the lines that given sentences need from the phrase table and the reordering table."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from moses_integration.alignments import Affiliations, affiliate_phrase, check_links
from moses_integration.decoder import configuration as kinds
from moses_integration.decoder.configuration import DecoderConfiguration, FeatureSlot
from moses_integration.source_text import lines_of_pairs, lines_of_phrases
from moses_integration.table_line import FLOAT32_OVERFLOW, LOWEST_LOG
from phrasescore.errors import DataError
from phrasescore.io.text import NUMBER, decode, shorten
from phrasescore.records import join_words

_NUMBER = NUMBER.encode()
_NUMBERS = re.compile(rb"[ \t]*(?:" + _NUMBER + rb"[ \t\r]+)*" + _NUMBER + rb"[ \t\r]*")


class PhrasePairs(NamedTuple):
    """Phrase pairs grouped by source phrase, in file order within each group."""

    sources: list[bytes]  # each source phrase once, UTF-8, with single spaces between words
    starts: Any  # int64 (sources + 1,): where the pairs of each source begin
    targets: list[bytes]  # the target phrase of each pair, in the same form
    log_probs: Any  # float64 (pairs, scores): natural logarithms, at least -100
    alignments: list[bytes]  # word alignments as in the file, "0-0 1-2"; empty for none
    # The source word that each target word is affiliated with; None if not requested.
    affiliations: list[Affiliations] | None = None


class PhraseTables(NamedTuple):
    """The unweighted scores in the tables for the phrases of given sentences."""

    pairs: PhrasePairs  # the last groups are unknown words, with one pair each
    num_known: int  # the number of groups that are in the phrase table; they come first
    reordering: Any  # float64 (pairs, 6): natural logarithms


def read_tables(
    configuration: DecoderConfiguration, sentences: Iterable[Sequence[str]], aligned: bool = False
) -> PhraseTables:
    """Read the lines that the sentences need from the phrase table and the reordering table.

    A word that is not a source phrase is unknown. It is copied to the target, or dropped with
    ``[drop-unknown]`` (TranslationOptionCollection::ProcessOneUnknownWord).
    """
    sentences = list(sentences)
    slot, longest = configuration.slot(kinds.PHRASE_TABLE), configuration.search.max_phrase_length
    path = slot.arguments["path"]
    lines = lines_of_phrases(path, sentences, longest)
    pairs = read_phrase_pairs(path, lines, len(slot.weights), aligned=aligned)
    words = {word.encode() for sentence in sentences for word in sentence}
    num_known = len(pairs.sources)
    pairs = with_unknown_words(configuration, pairs, words - set(pairs.sources))
    order = configuration.find(kinds.REORDERING)
    if order is None:
        return PhraseTables(pairs, num_known, no_reordering(pairs))
    path, keys = order.arguments["path"], keys_of(pairs)
    scores = read_reordering(path, keys, default_reordering(order), lines_of_pairs(path, keys))
    return PhraseTables(pairs, num_known, scores)


def with_unknown_words(
    configuration: DecoderConfiguration, pairs: PhrasePairs, words: Iterable[bytes]
) -> PhrasePairs:
    """Return the pairs with a pair for each word that is not a source phrase."""
    unknown = sorted(words)
    targets, alignments, affiliations = [], [], []
    for word in unknown:
        dropped = configuration.search.drop_unknown and re.search(b"[0-9]", word) is None
        targets.append(b"" if dropped else word)
        alignments.append(b"" if dropped else b"0-0")
        affiliations.append(() if dropped else (0,))
    known = pairs.affiliations
    zeros = np.zeros((len(unknown), pairs.log_probs.shape[1]))
    return PhrasePairs(
        [*pairs.sources, *unknown],
        np.append(pairs.starts, pairs.starts[-1] + 1 + np.arange(len(unknown))),
        [*pairs.targets, *targets],
        np.concatenate([pairs.log_probs, zeros]),
        [*pairs.alignments, *alignments],
        None if known is None else [*known, *affiliations],
    )


def keys_of(pairs: PhrasePairs) -> list[tuple[bytes, bytes]]:
    """Return the source and the target of each pair."""
    rows = np.repeat(np.arange(len(pairs.sources)), np.diff(pairs.starts)).tolist()
    return list(zip((pairs.sources[row] for row in rows), pairs.targets, strict=True))


def no_reordering(pairs: PhrasePairs) -> Any:
    """Return the reordering scores of a model without a reordering table."""
    return np.zeros((len(pairs.targets), kinds.NUM_REORDERING_SCORES))


def default_reordering(order: FeatureSlot) -> list[float]:
    """Return the logarithms of the scores of pairs that are missing from a reordering table."""
    return [math.log(float(score)) for score in order.arguments["default-scores"].split(",")]


def read_phrase_pairs(
    path: str, lines: Iterable[tuple[int, bytes]], num_scores: int, *, aligned: bool = False
) -> PhrasePairs:
    """Read the pairs in lines of a phrase table, which are given by number and text."""
    group_of: dict[bytes, int] = {}
    groups: list[int] = []
    targets: list[bytes] = []
    alignments: list[bytes] = []
    scores: list[float] = []
    affiliations: list[Affiliations] = []
    affiliated: dict[tuple[bytes, int, int], Affiliations] = {}  # equal ones are shared
    known: dict[bytes, bytes] = {}
    known_alignments: dict[bytes, bytes] = {}
    for number, line in lines:
        fields = line.removesuffix(b"\r").split(b"|||", 4)
        if len(fields) < 3:
            problem = f"expected at least 3 fields separated by '|||', found {len(fields)}"
            raise DataError(path, number, f"{problem}: {shorten(line)}")
        source, target = map(join_words, fields[:2])
        alignment = join_words(fields[3]) if len(fields) > 3 else b""
        if not target:
            raise DataError(path, number, "expected a target phrase, found none")
        if b"|" in target:
            problem = f"expected words without factors, found {shorten(target)}"
            raise DataError(path, number, f"{problem}; write &#124; for '|' in a word")
        if target not in known:
            decode(path, number, target)
        scores += _parse_probabilities(path, number, fields[2], num_scores)
        targets.append(known.setdefault(target, target))
        if alignment not in known_alignments:
            check_links(alignment, path, number)
        alignments.append(known_alignments.setdefault(alignment, alignment))
        if aligned:
            key = (alignment, source.count(b" ") + 1, target.count(b" ") + 1)
            if key not in affiliated:
                affiliated[key] = affiliate_phrase(*key, path, number)
            affiliations.append(affiliated[key])
        groups.append(group_of.setdefault(source, len(group_of)))
    order = np.argsort(np.array(groups, np.int64), kind="stable")
    sizes = np.bincount(np.array(groups, np.int64), minlength=len(group_of))
    return PhrasePairs(
        list(group_of),
        np.concatenate([[0], np.cumsum(sizes)]),
        [targets[row] for row in order],
        log_of(np.array(scores).reshape(-1, num_scores))[order],
        [alignments[row] for row in order],
        [affiliations[row] for row in order] if aligned else None,
    )


def read_reordering(
    path: str,
    pairs: Sequence[tuple[bytes, bytes]],
    default: Sequence[float],
    lines: Iterable[tuple[int, bytes]],
) -> Any:
    """Return the reordering scores of phrase pairs, float64 (pairs, scores), natural logarithms.

    If a pair has several lines, the last one is used, as in Moses
    (LexicalReorderingTableMemory::LoadFromFile).

    :param pairs: source and target phrases, with single spaces between words; pairs may repeat.
    :param default: logarithms to use for pairs that are missing from the table.
    :param lines: the table's lines of these pairs, by number and text.
    """
    row_of: dict[tuple[bytes, bytes], int] = {}
    rows = [row_of.setdefault(pair, len(row_of)) for pair in pairs]
    log_probs = np.tile(np.array(default, np.float64), (len(row_of), 1))
    rows_read: list[int] = []
    scores: list[float] = []
    for number, line in lines:
        fields = line.split(b"|||")
        if len(fields) != 3:
            problem = "expected 'source ||| target ||| scores'"
            raise DataError(path, number, f"{problem}, found {shorten(line)}")
        source, target = map(join_words, fields[:2])
        values = _parse_probabilities(path, number, fields[2], len(default))
        row = row_of.get((source, target))
        if row is not None:  # None only on a hash collision between two phrase pairs
            scores += values
            rows_read.append(row)
    # With repeated rows, numpy does not guarantee which assignment wins.
    latest = {row: line for line, row in enumerate(rows_read)}
    if latest:
        logs = log_of(np.array(scores).reshape(-1, len(default)))
        log_probs[list(latest)] = logs[list(latest.values())]
    return log_probs[rows]


def _parse_probabilities(path: str, number: int, field: bytes, how_many: int) -> list[float]:
    if _NUMBERS.fullmatch(field) is None:
        raise DataError(path, number, f"expected numbers as scores, found {shorten(field)}")
    values = list(map(float, field.split()))
    if len(values) != how_many:
        raise DataError(path, number, f"expected {how_many} scores, found {len(values)}")
    if min(values) < 0 or max(values) >= FLOAT32_OVERFLOW:
        problem = "expected probabilities that are 0 or more and within the range of float32"
        raise DataError(path, number, f"{problem}; found {shorten(field.strip())}")
    return values


def log_of(probabilities: Any) -> Any:
    """Return natural logarithms as Moses computes them: from float32 numbers, floored at -100."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(probabilities.astype(np.float32).astype(np.float64))
    return np.maximum(logs, LOWEST_LOG)
