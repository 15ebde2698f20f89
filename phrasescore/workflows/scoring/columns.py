"""The features behind the columns that a user asks for."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from moses_integration.phrase_table import read_lexicon
from phrasescore.arguments import PrecisionName
from phrasescore.errors import ArgumentError, ModelError
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
from phrasescore.workflows.scoring.given_scores import GivenScores

if TYPE_CHECKING:  # torch comes with it, and a feature needs none
    from phrasescore.models.checkpoint import Checkpoint, ModelFolder


@dataclass(frozen=True)
class FeatureLoader:
    """Loads the features of some columns, here or on another machine.

    The networks come first; each of the other columns has its own feature.
    """

    # Without given scores.
    columns: tuple[ColumnSpec, ...]
    # The models of the columns, in this process or in folders.
    models: "tuple[Checkpoint | ModelFolder, ...]" = ()
    device: str = "cpu"
    precision: PrecisionName = "float32"
    # Number of threads of a process that score at the same time.
    callers: int = 1
    # Whether the blocks are a phrase table's.
    of_phrases: bool = False
    # See `phrasescore.features.networks.SentenceScore`.
    ensemble: bool = False
    words: bool = False
    unnormalized: bool = False
    backoff_lm: str | None = None

    def in_folders(self) -> "FeatureLoader":
        """Return an equal loader for other machines, which have the same folders."""
        from phrasescore.models.checkpoint import Checkpoint, ModelFolder

        columns = [
            column
            if column.kind == "feature"
            else replace(column, value=os.path.abspath(column.value))
            for column in self.columns
        ]
        models = [
            ModelFolder(os.path.abspath(each.folder), each.fingerprint)
            if isinstance(each, Checkpoint)
            else each
            for each in self.models
        ]
        backoff = None if self.backoff_lm is None else os.path.abspath(self.backoff_lm)
        return replace(self, columns=tuple(columns), models=tuple(models), backoff_lm=backoff)

    def load(self) -> list[Feature]:
        """Load models and files. Without a network, torch is not imported.

        :raises DataError: if a file is malformed.
        :raises ModelError: if a model cannot be loaded, or does not score phrase pairs.
        """
        features: list[Feature] = []
        checkpoints: list[Checkpoint] = []
        if self.models:
            import torch

            from phrasescore.features.networks import SentenceScore
            from phrasescore.features.neural import NeuralScore
            from phrasescore.language_models.word_scorer import CslmOptions
            from phrasescore.models.checkpoint import ModelFolder

            device = torch.device(self.device)
            for model in self.models:
                checkpoints.append(model.load() if isinstance(model, ModelFolder) else model)
            if self.of_phrases:
                for checkpoint in checkpoints:
                    try:
                        score = NeuralScore(checkpoint, device, precision=self.precision)
                    except ModelError as error:
                        raise ModelError(f"{checkpoint.folder}: {error}") from error
                    features.append(score)
            else:
                networks = SentenceScore(
                    checkpoints,
                    device,
                    precision=self.precision,
                    ensemble=self.ensemble,
                    words=self.words,
                    cslm=CslmOptions(normalized=not self.unnormalized, backoff=self.backoff_lm),
                )
                features.append(networks)
        others = (column for column in self.columns if column.kind != "model")
        return [*features, *(self._load_other(column, checkpoints) for column in others)]

    def _load_other(self, column: ColumnSpec, checkpoints: "Sequence[Checkpoint]") -> Feature:
        """Return the feature of a column that is not a network's."""
        path = column.value
        if column.kind == "lm":
            feature: Feature = load_feature("language_model")(path)
        elif column.kind == "ctranslate2":
            made = load_feature("ctranslate2")
            feature = made(path, column.foreign, device=self.device, threads=self.callers)
        elif column.kind in ("lexicon", "reverse_lexicon"):
            lexicon = Lexicon.from_entries(path, read_lexicon(path))
            feature = LexicalScore(lexicon, reverse=column.kind == "reverse_lexicon")
        elif column.value in OF_SHORTLISTS:
            chosen = checkpoints if column.model is None else [checkpoints[column.model - 1]]
            feature = load_feature(column.value).from_checkpoints(chosen)
            feature.fingerprints = (" ".join(each.fingerprint for each in chosen),)
        else:
            feature = load_feature(column.value)()
        name = column.value if column.kind == "feature" else column.kind
        if feature.highest is None:  # otherwise it is a name in caches
            feature.fingerprints = (f"{name} {feature.fingerprints[0]}".strip(),)
        return feature

    def rows(self) -> list[int]:
        """Return the row of each column among the values of all features."""
        networks = iter(range(len(self.models)))
        start = len(self.models) + self.ensemble
        others = iter(range(start, start + len(self.columns)))
        return [next(networks if column.kind == "model" else others) for column in self.columns]


class AddedColumn(NamedTuple):
    """A column that hypotheses get."""

    name: str
    # The column's row among all features' values; None for scores given in a file.
    row: int | None = None
    is_network: bool = False
    # For a network: whether it predicts the source; whether its scores are divided by length.
    reverse: bool = False
    normalized: bool = False
    given: GivenScores | None = None


def added_columns(
    specs: Sequence[ColumnSpec],
    loader: FeatureLoader,
    checkpoints: "Sequence[Checkpoint]",
    names: Sequence[str],
    *,
    normalize: bool,
) -> list[AddedColumn]:
    """Return the columns that hypotheses get, in the order of the specifications.

    The ensemble's column is the last one.

    :param loader: the loader of the same columns; ``checkpoints`` are its models.
    :param names: one name per column and for the ensemble; empty for the default names. Columns
        of given scores have their own names.
    :param normalize: whether a network's column is followed by one divided by length.
    :raises ArgumentError: if there are names, but not one per column.
    :raises DataError: if a file of given scores is malformed.
    """
    expected = sum(spec.kind != "scores" for spec in specs) + loader.ensemble
    if names and len(names) != expected:
        raise ArgumentError(
            f"--name: expected one for each of {expected} columns, got {len(names)}"
        )
    usual: Counter[str] = Counter()
    given, rows = iter(names), iter(loader.rows())
    models = iter(checkpoints)

    def name(prefix: str) -> str:
        usual[prefix] += 1
        return next(given, f"{prefix}{usual[prefix] - 1}")

    added: list[AddedColumn] = []

    def add_network(prefix: str, row: int, *, reverse: bool) -> None:
        column = AddedColumn(name(prefix), row, is_network=True, reverse=reverse)
        added.append(column)
        if normalize:
            added.append(column._replace(name=column.name + NORMALIZED, normalized=True))

    for spec in specs:
        if spec.kind == "model":
            model = next(models)
            prefix = network_name(
                model.config.kind, reverse=model.reverse, right_to_left=model.right_to_left
            )
            add_network(prefix, next(rows), reverse=model.reverse)
        elif spec.name is not None:
            added.append(AddedColumn(spec.name, given=GivenScores(spec.value)))
        else:
            added.append(AddedColumn(name(column_name(spec.kind, spec.value)), next(rows)))
    if loader.ensemble:
        add_network(ENSEMBLE_NAME, len(checkpoints), reverse=checkpoints[0].reverse)
    return added
