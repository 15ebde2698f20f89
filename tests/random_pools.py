"""Pools for tests of tuning: random features, and BLEU statistics that depend on them."""

import numpy as np

from phrasescore.records import FeatureLabel
from tuning.pool import Pool

WORDS = 12  # of every hypothesis and reference


def random_pool(
    seed: int, num_segments: int = 12, size: int = 15, quality: tuple[float, ...] = (0.2, 1.0, -0.6)
) -> Pool:
    """Return hypotheses whose quality is a noisy sum of the features: there is something to find.

    :param quality: a weight a feature. The first is called LM, the others TM.
    """
    random = np.random.default_rng(seed)
    names = [("LM", 0), *(("TM", place) for place in range(len(quality) - 1))]
    features = random.normal(size=(num_segments * size, len(quality)))
    sums = features @ np.array(quality) + random.normal(size=len(features)) / 2
    totals = WORDS - np.arange(4.0)
    share = 1 / (1 + np.exp(-sums[:, None] - [1, 0, -0.5, -1]))
    matches = np.floor(totals * share)
    rest = [np.broadcast_to(totals, matches.shape), np.full((len(features), 1), WORDS)]
    stats = np.concatenate([matches, *rest], axis=1)
    labels = tuple(FeatureLabel(*name) for name in names)
    return Pool(labels, features, stats, np.arange(num_segments + 1) * size)
