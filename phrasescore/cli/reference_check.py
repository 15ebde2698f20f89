"""Whether references can be those of translations: of wrong ones no figure says anything."""

from collections.abc import Sequence

import numpy as np

from tuning.bleu import Bleu

# In fewer sentences chance decides.
_MIN_SENTENCES = 10
# The most that are looked at: more say the same.
_MAX_SENTENCES = 2000
# Matched words, with a sentence's own reference over those with another's. Measured on two tasks:
# real translations 3.8 and 5.3, the same with 85% of the words replaced by words that match nothing
# 3.4 and 5.1; references in the source language 1.6 and 1.7 (names, punctuation); shuffled ones,
# 0.98 to 1.06.
_SAME_AS_OTHERS = 1.2
_LITTLE_MORE_THAN_OTHERS = 2.0
# Where there is hardly any BLEU (0 to 1) in some number of sentences, little more is too little.
_LOW_BLEU = 0.01
_SENTENCES_FOR_BLEU = 100
# How far away the other sentence is, in parts of all: a source may have several references, in as
# many lines beside each other.
_DISTANCE = 0.382
# Words of a reference, below which the text is not split into words.
_SPLIT = 2.0


def doubt(
    references: Sequence[Sequence[Sequence[str]]], hypotheses: Sequence[Sequence[str]], what: str
) -> str | None:
    """Return why the references cannot well be those of these translations, None if they can.

    A bad system is hardly a reason: even its words are nearer to its own references than to others.
    Text that is not split into words is not looked at.

    :param references: by reference file and segment.
    :param hypotheses: a translation of each segment, such as the decoder's own choice.
    :param what: they are, for the message.
    """
    num = min(len(hypotheses), _MAX_SENTENCES)
    references = [sentences[:num] for sentences in references]
    hypotheses = hypotheses[:num]
    if num < _MIN_SENTENCES or sum(map(len, references[0])) < _SPLIT * num:
        return None
    metric = Bleu(references)
    segments = np.arange(num)
    sums = metric.statistics(hypotheses, segments).sum(axis=0)
    bleu = float(metric.score(sums))
    own = sums[0]
    elsewhere = (segments + max(1, int(_DISTANCE * num))) % num
    other = metric.statistics(hypotheses, elsewhere)[:, 0].sum()
    is_low = bleu < _LOW_BLEU and num >= _SENTENCES_FOR_BLEU
    enough = _LITTLE_MORE_THAN_OTHERS if is_low else _SAME_AS_OTHERS
    if own > 0 and own >= enough * other:
        return None
    return (
        f"{what} have BLEU {100 * bleu:.2f}, {own:,.0f} words in common "
        f"with their references and {other:,.0f} with those of other sentences: check "
        "that the references are of the same text in the same order, in the language of the "
        "translations, and tokenised and cased as they are"
    )
