"""The features behind the columns that a user asks for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moses_integration.lexicon import read_lexicon
from phrasescore.features import OF_SHORTLISTS, Feature, load_feature
from phrasescore.features.column_spec import ColumnSpec
from phrasescore.features.lexicon import LexicalScore, Lexicon

if TYPE_CHECKING:  # torch comes with it, and a feature needs none
    from phrasescore.models.checkpoint import Checkpoint

# In what an unfinished run of version 0.1 says of its columns.
_NAMES_OF_0_1 = {
    "lm": "language_models",
    "lexicon": "lexicons",
    "reverse_lexicon": "reverse_lexicons",
}


def make_feature(wanted: ColumnSpec, checkpoints: "Sequence[Checkpoint]") -> Feature:
    """Return the feature of a column that is not a network's.

    :raises DataError: if its file is not what it should be.
    """
    path = wanted.value
    if wanted.kind == "lm":
        feature: Feature = load_feature("language_model")(path)
    elif wanted.kind in ("lexicon", "reverse_lexicon"):
        lexicon = Lexicon.from_entries(path, read_lexicon(path))
        feature = LexicalScore(lexicon, reverse=wanted.kind == "reverse_lexicon")
    elif wanted.value in OF_SHORTLISTS:
        feature = load_feature(wanted.value).from_checkpoints(_shortlists(wanted, checkpoints))
    else:
        feature = load_feature(wanted.value)()
    return feature


def fingerprint(wanted: ColumnSpec, feature: Feature, checkpoints: "Sequence[Checkpoint]") -> str:
    """Return what a feature's values depend on: equal texts, equal values."""
    name = wanted.value if wanted.kind == "feature" else _NAMES_OF_0_1[wanted.kind]
    parts = [checkpoint.fingerprint for checkpoint in _shortlists(wanted, checkpoints)]
    of_file = getattr(feature, "fingerprint", None)
    return " ".join([name, *parts, *([of_file] if of_file else [])])


def _shortlists(wanted: ColumnSpec, checkpoints: "Sequence[Checkpoint]") -> "list[Checkpoint]":
    """Return the models whose shortlists a feature depends on."""
    if wanted.value not in OF_SHORTLISTS:
        return []
    return [checkpoints[wanted.model - 1]] if wanted.model is not None else list(checkpoints)
