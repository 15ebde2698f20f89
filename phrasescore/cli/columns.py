"""The columns that ``rescore`` and ``annotate`` make, as the command line asks for them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from phrasescore.cli.options import WantedColumn
from phrasescore.features import NOT_OF_PHRASES, OF_SHORTLISTS, load_feature

if TYPE_CHECKING:
    from phrasescore.features import Feature
    from phrasescore.models.checkpoint import Checkpoint


def check_columns(wanted: Sequence[WantedColumn], *, of_phrases: bool) -> None:
    """Check what is asked for, before a file is read.

    :param of_phrases: whether the columns are a phrase table's.
    :raises click.UsageError: if there is nothing, a model is missing, or a feature says nothing of
        phrases.
    """
    models = sum(column.option == "models" for column in wanted)
    if not wanted:
        raise click.UsageError("nothing to add: give a --model, or another option that adds")
    for column in wanted:
        if column.option != "features":
            continue
        if column.value in OF_SHORTLISTS and not models:
            problem = "at least one --model is needed: it brings a shortlist"
            raise click.UsageError(f"--feature {column.value}: {problem}")
        if column.model is not None and column.model > models:
            problem = f"there are {models} models" if models > 1 else "there is one model"
            raise click.UsageError(f"--feature {column.value}@{column.model}: {problem}")
        if of_phrases and column.value in NOT_OF_PHRASES:
            reason = NOT_OF_PHRASES[column.value]
            raise click.UsageError(f"--feature {column.value} is for rescore alone: {reason}")


def make_feature(wanted: WantedColumn, checkpoints: "Sequence[Checkpoint]") -> "Feature":
    """Return the feature of a column that is not a network's.

    :raises DataError: if its file is not what it should be.
    """
    from moses_integration.lexicon import read_lexicon

    path = wanted.value
    if wanted.option == "language_models":
        feature: Feature = load_feature("language_model")(path)
    elif wanted.option in ("lexicons", "reverse_lexicons"):
        from phrasescore.features.lexicon import LexicalScore, Lexicon

        lexicon = Lexicon.from_entries(path, read_lexicon(path))
        feature = LexicalScore(lexicon, reverse=wanted.option == "reverse_lexicons")
    elif wanted.value in OF_SHORTLISTS:
        feature = load_feature(wanted.value).from_checkpoints(_shortlists(wanted, checkpoints))
    else:
        feature = load_feature(wanted.value)()
    return feature


def fingerprint(
    wanted: WantedColumn, feature: "Feature", checkpoints: "Sequence[Checkpoint]"
) -> str:
    """Return what a feature's values depend on: equal texts, equal values."""
    name = wanted.value if wanted.option == "features" else wanted.option
    parts = [checkpoint.fingerprint for checkpoint in _shortlists(wanted, checkpoints)]
    of_file = getattr(feature, "fingerprint", None)
    return " ".join([name, *parts, *([of_file] if of_file else [])])


def _shortlists(wanted: WantedColumn, checkpoints: "Sequence[Checkpoint]") -> "list[Checkpoint]":
    """Return the models whose shortlists a feature depends on."""
    if wanted.value not in OF_SHORTLISTS:
        return []
    return [checkpoints[wanted.model - 1]] if wanted.model is not None else list(checkpoints)
