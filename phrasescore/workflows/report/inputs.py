"""Read and check the inputs of a report before its sections are made."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.evaluation.systems_table import TABLE, SystemsTable, read_systems_table
from phrasescore.io.text import is_stream
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.report.phrases import TableChoice, TablePair, choose_from_table
from phrasescore.report.tuning import TuneReport, read_tune_report
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SectionName
from phrasescore.systems.text_checks import warn_of_lengths

# Indices of the table's scores p(target | source) and p(source | target). Moses' order is
# p(f|e) lex(f|e) p(e|f) lex(e|f), where f is the source.
_DIRECT, _INVERSE = 2, 0
MOST_SYSTEMS = 10  # systems whose translations are compared


class NamedModel(NamedTuple):
    """A trained model with its name in the report."""

    name: str
    checkpoint: Checkpoint


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """All inputs for a report; the phrase table is read lazily."""

    table: str | None  # the path of a phrase table
    models: list[NamedModel]
    source: Sentences | None
    references: list[Sentences]
    systems: list[ComparedSystem]
    experiment: SystemsTable | None
    folder: str  # of the experiment
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
        table = self.table
        assert table is not None
        columns = [self.table_column(model) for model in self.of_kind("scores_phrases")]
        with Meter("report: phrase table", "lines", self.progress, lines_of=table) as meter:
            lines = meter.track(read_phrase_table(table))
            pairs = _table_pairs(table, lines, max(columns, default=0) + 1)
            return choose_from_table(pairs)

    def tune_reports(self) -> dict[str, TuneReport]:
        """Return the report of the first tuning run of each of an experiment's rows, if any."""
        rows = () if self.experiment is None else self.experiment.rows
        paths = {row.name: os.path.join(self.folder, row.reports[0]) for row in rows if row.reports}
        return {
            name: read_tune_report(path) for name, path in paths.items() if os.path.exists(path)
        }

    @cached_property
    def comparison(self) -> Comparison:
        """The comparison of the systems with the references, with the source if given."""
        return Comparison(self.systems, self.references, self.source)


def read_inputs(
    *,
    table: str | None,
    models: Sequence[str],
    source: str | None,
    references: Sequence[str],
    translations: Sequence[tuple[str, str]],
    experiment: str | None,
    only: Sequence[SectionName],
    compute: Compute,
    progress: ProgressCallback | None,
) -> ReportInputs:
    """Read all inputs except the phrase table, and check that they are consistent."""
    for path in [*references, *(path for _, path in translations), *filter(None, (table, source))]:
        if is_stream(path):
            raise ArgumentError(f"a report can only read files, got {path!r}")
    results = None
    if experiment is not None:
        results = read_systems_table(os.path.join(experiment, TABLE))
        own_source, own_references, own_translations = _compared_text(results, experiment)
        if own_translations:
            source, references = source or own_source, own_references
            translations = own_translations
    names = [name for name, _ in translations]
    if len(set(names)) < len(names):
        raise ArgumentError(f"expected systems with different names, got {', '.join(names)}")
    loaded = _load_models(models)
    reference_texts = [read_sentences(path) for path in references]
    source_text = None if source is None else read_sentences(source, is_source=True)
    texts = [read_sentences(path) for _, path in translations]
    given = [*reference_texts, *texts, *([] if source_text is None else [source_text])]
    if given:
        check_aligned(given)
    # The steps of an experiment have already checked its translations.
    for each in texts if references and experiment is None else ():
        warn_of_lengths(each.path, each.num_words, reference_texts[0].num_words)
    return ReportInputs(
        table=table,
        models=loaded,
        source=source_text,
        references=reference_texts,
        systems=[ComparedSystem(name, [text]) for name, text in zip(names, texts, strict=True)],
        experiment=results,
        folder=experiment or "",
        only=only,
        compute=compute,
        progress=progress,
    )


def _compared_text(
    table: SystemsTable, folder: str
) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Return the source and references of the first test text, and the systems' translations.

    Each system has its first translation. Of more than `MOST_SYSTEMS` systems, the first one and
    the best ones are returned, and none if a file is missing.
    """

    def path(name: str) -> str:
        return os.path.normpath(os.path.join(folder, name))

    for text in (text for text in table.texts if text.name in table.tests[:1]):
        scores = table.scores(text.name)
        first, *others = scores
        best = sorted(others, key=lambda name: -scores[name].mean)[: MOST_SYSTEMS - 1]
        systems = [
            (row.name, os.path.join(folder, row.outputs[text.name][0]))
            for row in table.rows
            if row.name in (first, *best) and row.outputs.get(text.name)
        ]
        references = list(map(path, text.references))
        files = [path(text.source), *references, *(file for _, file in systems)]
        if all(map(os.path.exists, files)):
            return path(text.source), references, systems
    return "", [], []


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
