"""A request to score: the columns, and how they are computed."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from phrasescore.arguments import PrecisionName
from phrasescore.engines import callers, local_device
from phrasescore.errors import PhrasescoreError
from phrasescore.features.columns import Column
from phrasescore.features.feature import BlockScores, Feature, ScoreRow
from phrasescore.features.given_scores import GivenScores
from phrasescore.features.model import Network
from phrasescore.records import PhraseBlock
from phrasescore.settings.compute import Compute

if TYPE_CHECKING:  # imports torch, which many features do not need
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.models.checkpoint import Checkpoint, ModelFolder


class LoadedFeature(NamedTuple):
    """A feature, and the columns whose values are its first rows."""

    feature: Feature
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ScoringRequest:
    """What to score, as a value that is sent to workers; each of them loads it."""

    columns: tuple[Column, ...]
    # The models of the networks among the columns, in this process or in folders.
    models: "tuple[Checkpoint | ModelFolder, ...]" = ()
    device: str = "cpu"
    precision: PrecisionName = "float32"
    callers: int = 1  # number of threads per process that score at the same time
    of_phrases: bool = False  # whether the blocks are from a phrase table
    ensemble: bool = False  # see `phrasescore.features.networks.SentenceScore`

    @classmethod
    def of(cls, columns: Sequence[Column], compute: Compute, **options: Any) -> Self:
        """Return a request, whose models are loaded."""
        on_device = any(column.is_on_device for column in columns)
        models: list[Checkpoint] = []
        if any(isinstance(column, Network) for column in columns):
            from phrasescore.models.checkpoint import load_checkpoint

            models = [load_checkpoint(each.model) for each in columns if isinstance(each, Network)]
        return cls(
            tuple(columns),
            tuple(models),
            local_device(compute) if on_device else "cpu",
            compute.precision,
            callers(compute),
            **options,
        )

    @property
    def networks(self) -> "list[tuple[Network, Checkpoint]]":
        """The columns of networks with their models, which may be read from their folders."""
        columns = [column for column in self.columns if isinstance(column, Network)]
        return list(zip(columns, (model.load() for model in self.models), strict=True))

    @property
    def aligned(self) -> bool:
        """Whether a network reads alignments."""
        return any(model.config.network.is_aligned for _, model in self.networks)

    def checkpoints_of(self, folder: str | None) -> "list[Checkpoint]":
        """Return the model in a folder, or all models of the request."""
        networks = self.networks
        if folder is None:
            return [checkpoint for _, checkpoint in networks]
        found = [model for column, model in networks if column.model == folder]
        if not found:
            from phrasescore.models.checkpoint import load_checkpoint

            found = [load_checkpoint(folder)]
        return found[:1]

    def in_folders(self) -> "ScoringRequest":
        """Return a copy for workers on other machines, which have the same folders."""
        columns = tuple(column.with_paths(os.path.abspath) for column in self.columns)
        models = tuple(model.load().in_folder() for model in self.models)
        return replace(self, columns=columns, models=models)

    def load(self) -> list[LoadedFeature]:
        """Load models and files, except given scores; torch is imported only for networks.

        The networks that score sentences are one feature, because they share the texts.
        """
        request = replace(self, models=tuple(model.load() for model in self.models))
        loaded: list[LoadedFeature] = []
        for column in self.columns:
            if isinstance(column, Network) and not self.of_phrases:
                if not any(isinstance(each.columns[0], Network) for each in loaded):
                    loaded.append(request._load_networks())
            elif not isinstance(column, GivenScores):
                feature = column.load(request)
                (row,) = feature.rows
                if row.highest is None:  # the keys of cached values have the fingerprint alone
                    name = column.argument if column.kind() == "feature" else column.kind()
                    feature.rows = (ScoreRow(f"{name} {row.fingerprint}".strip()),)
                loaded.append(LoadedFeature(feature, (column,)))
        return loaded

    def _load_networks(self) -> LoadedFeature:
        import torch

        from phrasescore.features.networks import SentenceScore

        columns, checkpoints = zip(*self.networks, strict=True)
        feature = SentenceScore(
            checkpoints,
            torch.device(self.device),
            precision=self.precision,
            ensemble=self.ensemble,
            columns=columns,
        )
        return LoadedFeature(feature, columns)


class ScoringItem(NamedTuple):
    """A block to score, as sent to a worker."""

    block: PhraseBlock
    # The indices of the pairs to score, per feature; None for all pairs.
    missing: "tuple[NDArray[np.int64] | None, ...]"


@dataclass(frozen=True)
class ScoringWork:
    """The work of scoring blocks, for workers: a :class:`phrasescore.engines.Work`."""

    request: ScoringRequest
    rows: tuple[tuple[ScoreRow, ...], ...]
    # The loaded features; None on another machine, where they are loaded from the same files.
    features: Sequence[Feature] | None
    needed: tuple[int, ...] = ()  # indices of the features that are needed from the beginning

    @property
    def device(self) -> str:
        """The device that the features compute on."""
        return self.request.device

    def in_folders(self) -> "ScoringWork":
        """Return a copy for workers on other machines, which have the same folders."""
        return replace(self, request=self.request.in_folders(), features=None)

    def load(self) -> Callable[[ScoringItem], list[BlockScores]]:
        """Load the features, and return the function that scores an item.

        :raises PhrasescoreError: if they differ from the features in the process that started the
            run.
        """
        features = self.features
        if features is None:
            features = [each.feature for each in self.request.load()]
        for feature, expected in zip(features, self.rows, strict=True):
            if feature.rows != expected:
                problem = f"a worker has loaded a different feature: expected {expected},"
                raise PhrasescoreError(f"{problem} found {feature.rows}")
        for index in self.needed:
            features[index].prepare()
        return partial(_score_item, features)


def _score_item(features: Sequence[Feature], item: ScoringItem) -> list[BlockScores]:
    return [
        feature.score(item.block if missing is None else item.block.select(missing))
        for feature, missing in zip(features, item.missing, strict=True)
    ]
