"""The features behind the columns that a user asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moses_integration.phrase_table import read_lexicon
from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError
from phrasescore.features import (
    ENSEMBLE_NAME,
    NORMALIZED,
    OF_SHORTLISTS,
    ColumnSpec,
    Feature,
    column_name,
    load_feature,
    network_name,
)
from phrasescore.features.lexicon import LexicalScore, Lexicon
from phrasescore.records import PhrasePair
from phrasescore.workflows.given_scores import GivenScores

if TYPE_CHECKING:  # torch comes with them, and a feature needs none
    from phrasescore.features.list_scoring import ListScores
    from phrasescore.models.checkpoint import Checkpoint


def make_feature(wanted: ColumnSpec, checkpoints: Sequence[Checkpoint]) -> Feature:
    """Return the feature of a column that is not a network's.

    :raises DataError: if its file is not what it should be.
    """
    path = wanted.value
    if wanted.kind == "lm":
        feature: Feature = load_feature("language_model")(path)
    elif wanted.kind == "ctranslate2":
        feature = load_feature("ctranslate2")(path, wanted.foreign)
    elif wanted.kind in ("lexicon", "reverse_lexicon"):
        lexicon = Lexicon.from_entries(path, read_lexicon(path))
        feature = LexicalScore(lexicon, reverse=wanted.kind == "reverse_lexicon")
    elif wanted.value in OF_SHORTLISTS:
        feature = load_feature(wanted.value).from_checkpoints(_shortlists(wanted, checkpoints))
    else:
        feature = load_feature(wanted.value)()
    return feature


def fingerprint(wanted: ColumnSpec, feature: Feature, checkpoints: Sequence[Checkpoint]) -> str:
    """Return what a feature's values depend on: equal texts, equal values."""
    name = wanted.value if wanted.kind == "feature" else wanted.kind
    parts = [checkpoint.fingerprint for checkpoint in _shortlists(wanted, checkpoints)]
    of_file = getattr(feature, "fingerprint", None)
    return " ".join([name, *parts, *([of_file] if of_file else [])])


def _shortlists(wanted: ColumnSpec, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the models whose shortlists a feature depends on."""
    if wanted.value not in OF_SHORTLISTS:
        return []
    return [checkpoints[wanted.model - 1]] if wanted.model is not None else list(checkpoints)


# The columns of n-best lists


def check_of_networks(
    columns: Sequence[ColumnSpec],
    *,
    word_scores: str | None,
    cache: str | None,
    normalize: bool = False,
) -> None:
    """Raise an ArgumentError if what is for networks is wanted without one, or the cache is -."""
    kinds = {column.kind for column in columns}
    wanted = {"normalize": normalize, "word_scores": word_scores, "cache": cache}
    for name, value in wanted.items():
        if value and "model" not in kinds and not (name == "cache" and "ctranslate2" in kinds):
            raise ArgumentError(f"{flag(name)} is for the scores of a model, and there is none")
    if cache == "-":
        raise ArgumentError("--cache needs a file: a stream cannot be a cache")


class AddedFeature(NamedTuple):
    """A feature that hypotheses get."""

    name: str
    # Its number among the networks' columns; None where a feature gives the values.
    network: int | None = None
    feature: Feature | None = None
    # Of a network: whether it predicts the source; whether its scores are divided by length.
    reverse: bool = False
    normalized: bool = False
    # Scores of lines that another program has made: neither a network's nor a feature's.
    given: GivenScores | None = None

    def values(
        self,
        source: tuple[str, ...],
        hypotheses: Sequence[tuple[str, ...]],
        scores: ListScores | None,
    ) -> list[float]:
        """Return the value of each hypothesis of a source, in order; not of given scores.

        :param scores: the networks' of these hypotheses; None where there are no networks.
        """
        if self.feature is not None:
            pairs = (PhrasePair._make((source, words)) for words in hypotheses)
            return list(self.feature.values(pairs))
        assert self.network is not None
        assert scores is not None
        values: list[float] = scores.columns[self.network].tolist()
        if not self.normalized:
            return values
        predicted = [source] * len(values) if self.reverse else hypotheses
        return [value / (len(words) + 1) for value, words in zip(values, predicted, strict=True)]


def added_features(
    specs: Sequence[ColumnSpec],
    checkpoints: Sequence[Checkpoint],
    names: Sequence[str],
    *,
    ensemble: bool,
    normalize: bool,
) -> list[AddedFeature]:
    """Return the features that hypotheses get, in the order of the columns, the ensemble's last.

    :param checkpoints: the models of the columns, in their order.
    :param names: one per column and for the ensemble; none at all for the usual ones. Columns of
        given scores bring their own names.
    :param normalize: whether a network's is followed by its variant divided by length.
    :raises ArgumentError: if there are names, but not one per column.
    :raises DataError: if a file that a feature needs is not what it should be.
    """
    expected = sum(spec.kind != "scores" for spec in specs) + ensemble
    if names and len(names) != expected:
        problem = f"expected one for each of {expected} columns, got {len(names)}"
        raise ArgumentError(f"--name: {problem}")
    usual: Counter[str] = Counter()
    given = iter(names)

    def name(prefix: str) -> str:
        usual[prefix] += 1
        return next(given, f"{prefix}{usual[prefix] - 1}")

    added = []
    networks = 0
    for spec in specs:
        if spec.kind == "model":
            checkpoint = checkpoints[networks]
            prefix = network_name(
                checkpoint.config.kind,
                reverse=checkpoint.reverse,
                right_to_left=checkpoint.right_to_left,
            )
            added.append(AddedFeature(name(prefix), networks, reverse=checkpoint.reverse))
            networks += 1
        elif spec.name is not None:
            added.append(AddedFeature(spec.name, given=GivenScores(spec.value)))
        else:
            prefix = column_name(spec.kind, spec.value)
            added.append(AddedFeature(name(prefix), feature=make_feature(spec, checkpoints)))
    if ensemble:
        added.append(AddedFeature(name(ENSEMBLE_NAME), networks, reverse=checkpoints[0].reverse))
    return list(_with_normalized(added)) if normalize else added


def _with_normalized(features: Iterable[AddedFeature]) -> Iterator[AddedFeature]:
    """Yield the features, each network's followed by its variant divided by length."""
    for added in features:
        yield added
        if added.network is not None:
            yield added._replace(name=added.name + NORMALIZED, normalized=True)
