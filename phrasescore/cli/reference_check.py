"""Whether references can be those of translations: of wrong ones no figure says anything."""

import logging
from collections.abc import Sequence

import numpy as np

from phrasescore.analysis.sentences import Sentences
from tuning.bleu import Bleu

_logger = logging.getLogger(__name__)

# In fewer sentences chance decides.
_MIN_SENTENCES = 10
# Matched words, with a sentence's own reference over those with another's. Measured on two tasks:
# real translations 3.8 and 5.3, the same with 85% of the words replaced 3.4 and 5.1; references in
# the source language 1.6 and 1.7 (names, punctuation); shuffled ones, 0.98 to 1.06.
_SAME_AS_OTHERS = 1.2
_LITTLE_MORE_THAN_OTHERS = 2.0
# Where there is hardly any BLEU (0 to 1), little more is too little.
_LOW_BLEU = 0.01


def warn_of_texts(systems: Sequence[Sentences], references: Sequence[Sentences]) -> None:
    """Warn of translations and references that are not there, or do not belong together.

    :param systems: of the same number of lines as the references.
    """
    for system in systems:
        if system.num_empty:
            _logger.warning("%s has %s empty lines", system.path, f"{system.num_empty:,}")
    words = [sentences.words for sentences in references]
    missing = sum(not any(sentence) for sentence in zip(*words, strict=True))
    if missing:
        paths = ", ".join(sentences.path for sentences in references)
        _logger.warning("%s: %s lines are empty: no reference is there", paths, f"{missing:,}")
    for system in systems:
        problem = doubt(words, system.words, "the translations")
        if problem is not None:
            _logger.warning("%s: %s", system.path, problem)


def doubt(
    references: Sequence[Sequence[Sequence[str]]], hypotheses: Sequence[Sequence[str]], what: str
) -> str | None:
    """Return why the references cannot well be those of these translations, None if they can.

    A bad system is no reason: even its words are nearer to its own references than to others.

    :param references: by reference file and segment.
    :param hypotheses: a translation of each segment, such as the decoder's own choice.
    :param what: they are, for the message.
    """
    num = len(hypotheses)
    if num < _MIN_SENTENCES:
        return None
    metric = Bleu(references)
    segments = np.arange(num)
    sums = metric.statistics(hypotheses, segments).sum(axis=0)
    bleu = float(metric.score(sums))
    own = sums[0]
    other = metric.statistics(hypotheses, (segments + 1) % num)[:, 0].sum()
    enough = _LITTLE_MORE_THAN_OTHERS if bleu < _LOW_BLEU else _SAME_AS_OTHERS
    if own > 0 and own >= enough * other:
        return None
    return (
        f"{what} have BLEU {100 * bleu:.2f}, {own:,.0f} words in common "
        f"with their references and {other:,.0f} with those of the sentences after them: check "
        "that the references are of the same text in the same order, in the language of the "
        "translations, and tokenised and cased as they are"
    )
