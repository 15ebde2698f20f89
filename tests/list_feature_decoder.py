"""A decoder in memory whose search lacks the strongest feature, as Moses' lacks a network.

A translation is the reference with some words spoilt and some words added. The decoder knows two
features: ``Fluency0``, which tells good from bad somewhat and gives little for a word more, and
``Length0``, a word penalty. ``Network0`` stands in lists alone: it tells good from bad well, and
punishes every word, so that weights that go with it take to long translations.
"""

import random
from collections.abc import Sequence

import numpy as np

from phrasescore.records import FeatureLabel, Weights
from tuning.metrics import Bleu
from tuning.pool import Pool

FLUENCY, LENGTH, NETWORK = "Fluency0", "Length0", "Network0"
LABELS = tuple(FeatureLabel(name, 0) for name in (FLUENCY, LENGTH, NETWORK))
START: Weights = {FLUENCY: (0.9,), LENGTH: (-0.1,), NETWORK: (0.0,)}
SENTENCES, WORDS = 60, 12


class ListFeatureDecoder:
    """Translates 60 sentences; a `tuning.loop.Decode`.

    :param size: of a list.
    """

    def __init__(self, seed: int, size: int = 20) -> None:
        numbers = random.Random(seed)
        self._size = size
        vocabulary = [f"w{number}" for number in range(200)]
        references = [tuple(numbers.choices(vocabulary, k=WORDS)) for _ in range(SENTENCES)]
        self.metric = Bleu([references])
        self._texts = [[_translation(numbers, words) for _ in range(300)] for words in references]
        self._features = [
            np.array([_features(numbers, words, text) for text in texts])
            for words, texts in zip(references, self._texts, strict=True)
        ]

    def __call__(
        self, number: int, weights: Weights, segments: Sequence[int] | None = None
    ) -> Pool:
        assert number >= 1
        assert NETWORK not in weights
        own = np.array([weights.get(name, (0.0,))[0] for name in (FLUENCY, LENGTH)] + [0.0])
        return self._lists(own, self._size, segments or range(SENTENCES))

    def _lists(self, own: np.ndarray, size: int, segments: Sequence[int]) -> Pool:
        rows, texts, of = [], [], []
        for segment in segments:
            best = np.argsort(-(self._features[segment] @ own), kind="stable")[:size]
            rows.append(self._features[segment][best])
            texts += [self._texts[segment][at] for at in best]
            of += [segment] * len(best)
        starts = np.cumsum([0, *map(len, rows)])
        return Pool(LABELS, np.concatenate(rows), self.metric.statistics(texts, of), starts)


def _translation(numbers: random.Random, reference: tuple[str, ...]) -> tuple[str, ...]:
    words = list(reference)
    for place in numbers.sample(range(len(words)), k=numbers.randrange(7)):
        words[place] = numbers.choice(["xa", "xb", "xc"])
    middle = len(words) // 2
    dropped = numbers.choice([0, 0, 1, 2, 3, 4])
    added = numbers.choices(["ya", "yb"], k=numbers.choice([0, 0, 0, 1, 2, 3, 12, 25]))
    words[middle : middle + dropped] = added
    return tuple(words)


def _features(
    numbers: random.Random, reference: tuple[str, ...], text: tuple[str, ...]
) -> tuple[float, float, float]:
    right, length = len(set(reference) & set(text)), len(text)
    fluency = 0.3 * right - 0.25 * length + numbers.gauss(0, 0.5)
    return fluency, -float(length), 2.0 * right - 2.5 * length + numbers.gauss(0, 1.0)
