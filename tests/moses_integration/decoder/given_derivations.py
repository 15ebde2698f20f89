"""The values of derivations that a test names: an oracle beside the search."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moses_integration.decoder.options import SentenceOptions
from moses_integration.decoder.search import Derivation, StackDecoder

# Source words from .. to, and their translation.
Segment = tuple[int, int, Sequence[str]]


def score_derivation(
    decoder: StackDecoder, tokens: Sequence[str], segments: Sequence[Segment]
) -> Derivation:
    """Return a derivation with its values and its score.

    :param segments: in the order of the target, covering the source.
    """
    if not segments:
        return decoder.translate(())
    options = decoder._table.sentence(tokens)
    chosen = np.array([_find(decoder, options, *segment) for segment in segments], np.int32)
    phrases = [
        options.target[options.offsets[option] : options.offsets[option + 1]] for option in chosen
    ]
    words, offsets = np.concatenate(phrases), np.cumsum([0, *map(len, phrases)])
    ends = np.arange(len(chosen)) == len(chosen) - 1
    added = []
    for cache, _ in decoder.caches:
        context = cache.feature.context
        padded = np.concatenate([np.full(context, -1), [1], words])
        histories = np.array([padded[place + 1 : place + 1 + context] for place in offsets[:-1]])
        scores = cache.feature.scores(histories.astype(np.int32), words, offsets, ends, None)
        added.append(scores.sum())
    places = np.array([0, len(chosen)], np.int64)
    return decoder._translations(options, places, chosen, np.array([added]))[0]


def values_by_name(decoder: StackDecoder, found: Derivation) -> dict[str, tuple[float, ...]]:
    names = [slot.name for slot in decoder._configuration.slots]
    return dict(zip(names, found.values, strict=False))


def _find(
    decoder: StackDecoder, options: SentenceOptions, start: int, end: int, words: Sequence[str]
) -> Any:
    for option in np.flatnonzero((options.start == start) & (options.end == end)):
        target = options.target[options.offsets[option] : options.offsets[option + 1]]
        if [decoder._table.words[word] for word in target] == [*words]:
            return option
    raise AssertionError(f"no option {start}..{end} -> {' '.join(words)}")
