"""Read and check the inputs of a report before its sections are made."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.io.text import is_stream
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.report.phrases import TableChoice, TablePair, choose_from_table
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SectionName
from phrasescore.workflows.report.experiment_folder import (
    TABLE,
    ExperimentFolder,
    read_experiment_folder,
)
from phrasescore.workflows.text_checks import warn_of_lengths

# Indices of the table's scores p(target | source) and p(source | target). Moses' order is
# p(f|e) lex(f|e) p(e|f) lex(e|f), where f is the source.
_DIRECT, _INVERSE = 2, 0


class NamedModel(NamedTuple):
    """A trained model with its name in the report."""

    name: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The paths of the inputs for a report."""

    table: str | None  # a phrase table
    models: Sequence[str]
    source: str | None
    references: Sequence[str]
    # The name of each system, and the file with its translations.
    translations: Sequence[tuple[str, str]]
    experiment: str | None  # the folder of an experiment

    def texts(self) -> list[str]:
        """Return the paths of the table and of all texts."""
        given = [path for path in (self.table, self.source) if path is not None]
        return [*given, *self.references, *(path for _, path in self.translations)]

    def paths(self) -> list[str]:
        """Return the paths of all inputs."""
        others = []
        if self.experiment is not None:
            others.append(os.path.join(self.experiment, TABLE))
        return [*self.texts(), *self.models, *others]

    def with_texts_of(self, experiment: ExperimentFolder) -> "ReportFiles":
        """Return the files with an experiment's first test text and its translations."""
        compared = experiment.compared_text()
        if compared is None:
            return self
        text, systems = compared
        return replace(
            self,
            source=self.source or text.source,
            references=text.references,
            translations=systems,
        )


@dataclass(frozen=True)
class ReportInputs:
    """All inputs for a report; the phrase table is read lazily."""

    systems: list[ComparedSystem]
    source: Sentences | None
    references: list[Sentences]
    models: list[NamedModel]
    experiment: ExperimentFolder | None
    files: ReportFiles
    only: Sequence[SectionName]  # the sections that the page includes; empty for all
    compute: Compute
    progress: ProgressCallback | None

    def of_kind(self, *properties: str) -> list[NamedModel]:
        """Return the models whose kind has at least one of the given properties."""
        return [
            model
            for model in self.models
            if any(getattr(model.checkpoint.config.network, name) for name in properties)
        ]

    def phrase_models(self) -> list[NamedModel]:
        """Return the models that score phrase pairs with p(target | source)."""
        return [model for model in self.of_kind("scores_phrases") if not model.checkpoint.reverse]

    def table_column(self, model: NamedModel) -> int:
        """Return the 0-based index of the table score that corresponds to a model's probability."""
        return _INVERSE if model.checkpoint.reverse else _DIRECT

    @cached_property
    def table_choice(self) -> TableChoice:
        """The lines selected from the table, which is read once."""
        table = self.files.table
        assert table is not None
        columns = [self.table_column(model) for model in self.of_kind("scores_phrases")]
        with Meter("report: phrase table", "lines", self.progress, lines_of=table) as meter:
            lines = meter.track(read_phrase_table(table))
            pairs = _table_pairs(table, lines, max(columns, default=0) + 1)
            return choose_from_table(pairs)

    @cached_property
    def comparison(self) -> Comparison:
        """The comparison of the systems with the references, with the source if given."""
        return Comparison(self.systems, self.references, self.source)


def read_inputs(
    files: ReportFiles,
    only: Sequence[SectionName],
    compute: Compute,
    progress: ProgressCallback | None,
) -> ReportInputs:
    """Read all inputs except the phrase table, and check that they are consistent."""
    for path in files.texts():
        if is_stream(path):
            raise ArgumentError(f"a report can only read files, got {path!r}")
    experiment = None if files.experiment is None else read_experiment_folder(files.experiment)
    if experiment is not None:
        files = files.with_texts_of(experiment)
    names = [name for name, _ in files.translations]
    if len(set(names)) < len(names):
        raise ArgumentError(f"expected systems with different names, got {', '.join(names)}")
    models = _load_models(files.models)
    references = [read_sentences(path) for path in files.references]
    source = None if files.source is None else read_sentences(files.source, is_source=True)
    translations = [read_sentences(path) for _, path in files.translations]
    texts = [*references, *translations, *([] if source is None else [source])]
    if texts:
        check_aligned(texts)
    # The steps of an experiment have already checked its translations.
    for text in translations if references and experiment is None else ():
        warn_of_lengths(text.path, text.num_words, references[0].num_words)
    systems = [ComparedSystem(name, [text]) for name, text in zip(names, translations, strict=True)]
    return ReportInputs(
        systems,
        source,
        references,
        models,
        experiment,
        files,
        only,
        compute,
        progress,
    )


def _load_models(paths: Sequence[str]) -> list[NamedModel]:
    """Load models, named after their folders, or by their paths if folder names are not unique."""
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"--model: expected different models, got {name} twice")
    return list(map(NamedModel, names, map(load_checkpoint, paths)))


def _table_pairs(
    path: str, lines: Iterator[PhraseTableLine], num_scores: int
) -> Iterator[TablePair]:
    """Yield the pairs in a table with their counts and scores, at least ``num_scores``."""
    for line in lines:
        if line.num_scores < num_scores:
            expected = f"expected p(target | source) or its reverse as score {num_scores} of a line"
            problem = f"{expected}, found {line.num_scores} scores"
            raise DataError(path, line.number, problem)
        scores = line.raw.split(b"|||", 3)[2].split()
        yield TablePair(line.pair, tuple(map(float, scores)), joint_count(line.raw))
