"""The requested columns: scores given in files, and the features that compute the others."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest_lines import LARGEST_VALUE, parse_number
from moses_integration.phrase_table import read_lexicon
from moses_integration.table_line import HIGHEST_LOG
from phrasescore import features
from phrasescore.arguments import PrecisionName
from phrasescore.engines import callers, local_device
from phrasescore.errors import ArgumentError, DataError, ModelError, shown_path
from phrasescore.features import ColumnSpec, Feature
from phrasescore.features.lexicon import LexicalScore, Lexicon
from phrasescore.io.journal import new_digest
from phrasescore.io.text import InputLines, count_lines, is_stream, read_blocks, read_lines, shorten
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import ProgramScoring
from phrasescore.workflows.text_checks import KnownWords, known_words

if TYPE_CHECKING:  # imports torch, which many features do not need
    from phrasescore.models.checkpoint import Checkpoint, ModelFolder

_Lines = TypeVar("_Lines", bound=InputLines)


class GivenScores:
    """Scores that another program computed, one per line of a file or stdin."""

    def __init__(self, path: str, highest: float) -> None:
        self._path = path
        self._values: NDArray[np.float64] = np.fromiter(self._read(highest), np.float64)
        self.fingerprint = new_digest(self._values.tobytes()).hexdigest()

    def __str__(self) -> str:
        return f"{len(self._values):,} scores from {shown_path(self._path)}"

    def of(self, lines: InputLines) -> NDArray[np.float64]:
        """Return the scores for the given lines."""
        return self._values[lines.before : lines.before + lines.num_lines]

    def check_count(self, num_lines: int, path: str) -> None:
        """Check that there is one score for each line of ``path``."""
        given = len(self._values)
        if given < num_lines:
            where = shown_path(self._path)
            problem = f"expected a score for each of {num_lines:,} lines, {where} has {given:,}"
            raise DataError(path, given + 1, problem)
        if given > num_lines:
            where = shown_path(path)
            problem = f"expected {num_lines:,} scores, one per line of {where}, found {given:,}"
            raise DataError(self._path, num_lines + 1, problem)

    def _read(self, highest: float) -> Iterator[float]:
        for number, raw in enumerate(read_lines(self._path), start=1):
            value = parse_number(raw.strip(b" \t\r"), self._path, number)
            if value > highest:
                problem = f"expected a natural logarithm of at most {highest:g}"
                raise DataError(self._path, number, f"{problem}, found {shorten(raw)}")
            yield value


def check_counts(
    lines: Iterator[_Lines], path: str, scores: Sequence[GivenScores]
) -> Iterator[_Lines]:
    """Return the lines of ``path``, after checking (a stream: at its end) that each has a score."""
    if scores and is_stream(path):
        return _counted(lines, path, scores)
    if scores:
        num_lines = sum(map(count_lines, read_blocks(path)))
        for each in scores:
            each.check_count(num_lines, path)
    return lines


def _counted(lines: Iterator[_Lines], path: str, scores: Sequence[GivenScores]) -> Iterator[_Lines]:
    count = 0
    for part in lines:
        count = part.before + part.num_lines
        if all(len(each.of(part)) == part.num_lines for each in scores):
            yield part  # if a score is missing, the rest is read only for the count
    for each in scores:
        each.check_count(count, path)


@dataclass(frozen=True)
class FeatureLoader:
    """Loads the features for columns, here or on another machine; networks come first."""

    columns: tuple[ColumnSpec, ...]  # all columns except given scores
    # The models for the columns, in this process or in folders.
    models: "tuple[Checkpoint | ModelFolder, ...]" = ()
    device: str = "cpu"
    precision: PrecisionName = "float32"
    callers: int = 1  # number of threads per process that score at the same time
    of_phrases: bool = False  # whether the blocks are from a phrase table
    ensemble: bool = False  # see `phrasescore.features.networks.SentenceScore`
    words: bool = False
    unnormalized: bool = False
    backoff_lm: str | None = None
    answer_timeout: float = ProgramScoring.answer_timeout

    @classmethod
    def of(cls, specs: Sequence[ColumnSpec], compute: Compute, **options: Any) -> "FeatureLoader":
        """Load the models for the given columns, and return a loader for all features."""
        columns = tuple(column for column in specs if column.kind != "scores")
        kinds = {column.kind for column in columns}
        device = local_device(compute) if kinds & {"model", "ctranslate2"} else "cpu"
        models: list[Checkpoint] = []
        if "model" in kinds:
            from phrasescore.models.checkpoint import load_checkpoint

            models = [load_checkpoint(each.value) for each in columns if each.kind == "model"]
        return cls(columns, tuple(models), device, compute.precision, callers(compute), **options)

    @property
    def checkpoints(self) -> "list[Checkpoint]":
        """The models; those that are not in this process are read from their folders."""
        return [model.load() for model in self.models]

    def known_words(self) -> list[KnownWords]:
        """Return the words that each model knows."""
        paths = [column.value for column in self.columns if column.kind == "model"]
        return list(map(known_words, paths, self.checkpoints))

    def in_folders(self) -> "FeatureLoader":
        """Return a copy for workers on other machines, which have the same folders."""
        columns = [
            column
            if column.kind in ("feature", "command")
            else replace(column, value=os.path.abspath(column.value))
            for column in self.columns
        ]
        models = self.models
        if models:
            from phrasescore.models.checkpoint import ModelFolder

            models = tuple(ModelFolder(each.folder, each.fingerprint) for each in self.checkpoints)
        backoff = None if self.backoff_lm is None else os.path.abspath(self.backoff_lm)
        return replace(self, columns=tuple(columns), models=models, backoff_lm=backoff)

    def load(self) -> list[Feature]:
        """Load models and files; torch is imported only if there is a network."""
        features: list[Feature] = []
        checkpoints = self.checkpoints
        if checkpoints:
            import torch

            from phrasescore.features.networks import SentenceScore
            from phrasescore.features.neural import NeuralScore
            from phrasescore.language_models.word_scorer import CslmOptions

            device = torch.device(self.device)
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
        """Return the feature for a column that is not a network's."""
        path = column.value
        if column.kind == "lm":
            feature: Feature = features.load_feature("language_model")(path)
        elif column.kind == "ctranslate2":
            feature = features.load_feature("ctranslate2")(
                path, column.foreign, device=self.device, threads=self.callers
            )
        elif column.kind == "command":
            feature = features.load_feature("program")(path, seconds=self.answer_timeout)
        elif column.kind in ("lexicon", "reverse_lexicon"):
            lexicon = Lexicon.from_entries(path, read_lexicon(path))
            feature = LexicalScore(lexicon, reverse=column.kind == "reverse_lexicon")
        elif column.value in features.OF_SHORTLISTS:
            chosen = checkpoints if column.model is None else [checkpoints[column.model - 1]]
            feature = features.load_feature(column.value).from_checkpoints(chosen)
            feature.fingerprints = (" ".join(each.fingerprint for each in chosen),)
        else:
            feature = features.load_feature(column.value)()
        name = column.value if column.kind == "feature" else column.kind
        if feature.highest is None:  # a cached feature's fingerprint is part of the cache's keys
            feature.fingerprints = (f"{name} {feature.fingerprints[0]}".strip(),)
        return feature


class AddedColumn(NamedTuple):
    """A column that is added to hypotheses."""

    name: str
    # The column's row in the values of all features; None for scores given in a file.
    row: int | None = None
    is_network: bool = False
    # For a network: whether it predicts the source; whether its scores are divided by length.
    reverse: bool = False
    normalized: bool = False
    given: GivenScores | None = None


def added_columns(
    specs: Sequence[ColumnSpec], loader: FeatureLoader, names: Sequence[str], *, normalize: bool
) -> list[AddedColumn]:
    """Return the columns to add to hypotheses, as specified, and the ensemble last.

    :param names: one name per column and for the ensemble; empty for the default names. Columns
        of given scores have their own names.
    """
    added: list[AddedColumn] = []
    checkpoints = loader.checkpoints
    # The networks' values come first, then the ensemble's.
    networks, others = count(), count(len(checkpoints) + loader.ensemble)
    for spec in specs:
        if spec.kind == "model":
            model = checkpoints[row := next(networks)]
            name = features.network_name(
                model.config.kind, reverse=model.reverse, right_to_left=model.right_to_left
            )
            column = AddedColumn(name, row, is_network=True, reverse=model.reverse)
        elif spec.kind == "scores":
            highest = HIGHEST_LOG if loader.of_phrases else LARGEST_VALUE
            column = AddedColumn(spec.name or "", given=GivenScores(spec.value, highest))
        else:
            column = AddedColumn(features.column_name(spec.kind, spec.value), next(others))
        added.append(column)
    if loader.ensemble:
        name, reverse = features.ENSEMBLE_NAME, checkpoints[0].reverse
        added.append(AddedColumn(name, len(checkpoints), is_network=True, reverse=reverse))
    computed = [column.name for column in added if column.given is None]
    if names and len(names) != len(computed):
        problem = f"--name: expected one for each of {len(computed)} columns, got {len(names)}"
        raise ArgumentError(problem)
    chosen = iter(names or features.number_names(computed))
    named: list[AddedColumn] = []
    for column in added:
        named.append(column if column.given else column._replace(name=next(chosen)))
        if normalize and column.is_network:
            name = named[-1].name + features.NORMALIZED
            named.append(named[-1]._replace(name=name, normalized=True))
    return named
