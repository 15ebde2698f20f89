"""The columns that ``phrasescore rescore`` adds: their names, and their values for a list."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from phrasescore.features.column_spec import ColumnSpec
from phrasescore.records import PhrasePair

if TYPE_CHECKING:
    from phrasescore.features import Feature
    from phrasescore.features.sentences import ListScores
    from phrasescore.models.checkpoint import Checkpoint

# What the names of columns begin with; a number from 0 follows, as in Moses' own.
NETWORK_NAMES = {
    "attention": "Attention",
    "cslm": "CSLM",
    "encoder-decoder": "RNN",
    "grconv": "GrConv",
    "lstm": "LSTM",
}
# Of the columns that have a file. A --feature is named after itself.
FILE_NAMES = {
    "lm": "KenLM",
    "lexicon": "Lexicon",
    "reverse_lexicon": "ReverseLexicon",
}
ENSEMBLE_NAME = "Ensemble"
NORMALIZED = "Norm"


class Column(NamedTuple):
    """A feature to be added."""

    name: str
    # Its number among the networks' columns; None where a feature gives the values.
    network: int | None = None
    feature: "Feature | None" = None
    # Of a network: whether it predicts the source; whether its scores are divided by length.
    reverse: bool = False
    normalized: bool = False


def make_columns(
    order: Sequence[ColumnSpec],
    checkpoints: "Sequence[Checkpoint]",
    names: Sequence[str],
    *,
    ensemble: bool,
) -> list[Column]:
    """Return the columns in the order of the options, the ensemble's last.

    :param order: each column but the ensemble's.
    :param names: for each column; none at all for the usual ones.
    :raises click.UsageError: if there are other than as many names as columns.
    :raises DataError: if a file that a feature needs is not what it should be.
    """
    wanted_names = len(order) + ensemble
    if names and len(names) != wanted_names:
        problem = f"expected a --name for each of {wanted_names} columns, got {len(names)}"
        raise click.UsageError(problem)
    usual: Counter[str] = Counter()
    given = iter(names)

    def name(prefix: str) -> str:
        usual[prefix] += 1
        return next(given, f"{prefix}{usual[prefix] - 1}")

    from phrasescore.workflows.columns import make_feature

    columns = []
    networks = 0
    for wanted in order:
        if wanted.kind == "model":
            checkpoint = checkpoints[networks]
            prefix = NETWORK_NAMES[checkpoint.config.kind]
            columns.append(Column(name(prefix), networks, reverse=checkpoint.reverse))
            networks += 1
        else:
            prefix = column_name(wanted.kind, wanted.value)
            columns.append(Column(name(prefix), feature=make_feature(wanted, checkpoints)))
    if ensemble:
        columns.append(Column(name(ENSEMBLE_NAME), networks, reverse=checkpoints[0].reverse))
    return columns


def column_name(option: str, value: str) -> str:
    """Return what the name of a column that is no network's begins with.

    :param option: the parameter of the command.

    >>> column_name("feature", "length_ratio")
    'LengthRatio'
    """
    return FILE_NAMES.get(option) or value.title().replace("_", "")


def with_normalized(columns: list[Column]) -> list[Column]:
    """Return the columns, each of a network followed by its variant divided by length."""
    found = []
    for column in columns:
        found.append(column)
        if column.network is not None:
            name = column.name + NORMALIZED
            found.append(column._replace(name=name, normalized=True))
    return found


def check_names(names: list[str]) -> list[str]:
    """Return the names of features, checked.

    :raises click.UsageError: if Moses would not take one for a dense feature, or one comes twice.
    """
    from moses_integration.nbest import FEATURE_NAME

    for name in names:
        if FEATURE_NAME.fullmatch(name) is None:
            raise click.UsageError(
                f"--name {name}: expected a letter, then letters and digits (Moses takes a name "
                "with '_' for a sparse feature)"
            )
        if names.count(name) > 1:
            raise click.UsageError(f"--name {name}: two new features have this name")
    return names


def column_values(
    column: Column,
    source: tuple[str, ...],
    hypotheses: Sequence[tuple[str, ...]],
    result: "ListScores | None",
) -> list[float]:
    """Return a column's value of each hypothesis of a source, in order.

    Natural logarithms and counts; a normalized one is divided by the number of predicted words
    and their ``</s>``.

    :param result: what the networks say of these hypotheses; None where there are no networks.
    """
    if column.feature is not None:
        return list(column.feature.values(PhrasePair(source, words) for words in hypotheses))
    assert column.network is not None
    assert result is not None
    scores: list[float] = result.columns[column.network].tolist()
    if not column.normalized:
        return scores
    predicted = [source] * len(scores) if column.reverse else hypotheses
    return [score / (len(words) + 1) for score, words in zip(scores, predicted, strict=True)]
