"""The names that kinds of networks, presets, features and keys had in version 0.3.

What this version wrote is still read: the kind in the ``config.toml`` of a model, the features in
n-best lists and weights, the keys in a ``system.toml``. A name that fits exactly always wins; an
old name is tried only if a feature has no weight otherwise. Lists keep their bytes. What a user
wrote, such as ``train --preset small``, is refused, and the error names the new name.
"""

import re
from collections.abc import Iterable

from phrasescore.records import Weights

# New names by old names.
KINDS = {"attention": "rnnsearch"}
PRESETS = {"attention-small": "rnnsearch-small", "small": "encoder-decoder-small"}
# The names of features in lists, without the prefixes and the number.
FEATURES = {"Attention": "RNNsearch", "RNN": "EncoderDecoder", "TargetUnknownWords": "UnknownWords"}
# Keys of the features of lists in a ``system.toml``, and names of features there.
KEYS = {"scores_command": "command"}
NAMED = {"target_unknown_words": "unknown_words"}
# The successors of keys that are gone, by the first name of their table; a column has none.
GONE_KEYS = {
    ".normalize": "the weight of the feature target_length, or of a word penalty, does it",
    "data.lexicon": "name the file in a table [features.lexicon], by the same key",
    "data.lm": "name the file in a table [features.lm], by the same key",
    "data.reverse_lexicon": "name the file in a table [features.reverse_lexicon], by the same key",
    "data.scores": "add the column by annotate --scores, and name its moses.ini as moses_ini",
    "engine.nplm": "export the network before the experiment, and name its moses.ini as moses_ini",
    "features.text": "its settings stand in the table of the feature",
    "models.xbleu": 'objective = "bleu" does it, or train --objective bleu, and path',
    "search.buffer-size": "it changed only the speed",
    "tuning.start": "a row starts from the best earlier row with some of its features",
}
# Keys of a row of an experiment.
ROW_KEYS = {"rescore": "lists"}
# The names of the models in the rows of an experiment that need no table of their own.
MODELS = {"attention": "rnnsearch", "rnn": "encoder-decoder"}

_BOTH_WAYS = FEATURES | {new: old for old, new in FEATURES.items()}
_FEATURE = re.compile(
    rf"(?P<direction>(Reverse)?(RightToLeft)?)(?P<name>{'|'.join(_BOTH_WAYS)})(?P<number>\d+(Norm)?)"
)


def other_name(feature: str) -> str | None:
    """Return the old name of a feature with a new name, or the other way round; None for others.

    >>> other_name("RightToLeftAttention0"), other_name("EncoderDecoder1Norm"), other_name("LM0")
    ('RightToLeftRNNsearch0', 'RNN1Norm', None)
    """
    match = _FEATURE.fullmatch(feature)
    if match is None:
        return None
    return match["direction"] + _BOTH_WAYS[match["name"]] + match["number"]


def weights_for(features: Iterable[str], weights: Weights) -> Weights:
    """Return the weights, with the names that the features have.

    A weight gets the other name of its feature if the feature with this name has no weight
    otherwise.

    >>> weights_for(["LM0", "RNNsearch0"], {"LM0": (0.5,), "Attention0": (0.2,)})
    {'LM0': (0.5,), 'RNNsearch0': (0.2,)}
    """
    names = set(features)
    others = {other_name(name): name for name in names - weights.keys()}
    changed = {old: new for old, new in others.items() if old in weights and old not in names}
    return {changed.get(name, name): values for name, values in weights.items()}
