"""Make a report about models and systems: a page and its data files."""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.arguments import StrPath, check_extra, check_sequences
from phrasescore.devices import choose_device
from phrasescore.errors import ArgumentError, DataError, ModelError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.io.output import optional_path
from phrasescore.progress import ProgressCallback
from phrasescore.report.blocks import Report, Section
from phrasescore.report.page import check_folder, write_report
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SECTIONS, Reporting, SectionName
from phrasescore.settings.kinds import kind_names
from phrasescore.version import __version__
from phrasescore.workflows.report.inputs import ReportFiles, ReportInputs, read_inputs
from phrasescore.workflows.report.sections import SECTION_PLANS, SHOWS_SENTENCES, missing_inputs

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Summary of a report that was made."""

    # Path of the page, index.html, and its size in bytes.
    page: str
    size: int
    sections: tuple[str, ...]  # keys of the sections, in page order
    num_blocks: int  # number of tables and figures
    left_out: tuple[tuple[str, str], ...]  # keys of missing or incomplete sections, with reasons

    def summary(self) -> str:
        """Return one line for the log."""
        return (
            f"report: {len(self.sections)} sections, {self.num_blocks} tables and figures, "
            f"{self.size / 1e6:.1f} MB: {self.page}"
        )


def make_report(
    inputs: Sequence[StrPath],
    folder: StrPath,
    *,
    models: Sequence[StrPath] = (),
    source: StrPath | None = None,
    references: Sequence[StrPath] = (),
    translations: Sequence[tuple[str, StrPath]] = (),
    tuning_report: StrPath | None = None,
    experiment: StrPath | None = None,
    settings: Reporting = Reporting(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> ReportSummary:
    """Make a page with all sections that the inputs allow, and its data as JSON and TSV files.

    A section is left out if one of its inputs is missing; the page and the log name the missing
    command-line option. Equal inputs and seeds give equal bytes.

    :param inputs: at most one phrase table, and files with n-best lists. The first hypotheses in
        each file are the translations of a system named after the file.
    :param folder: folder for the report; an older report or an empty folder is replaced.
    :param models: folders of trained models.
    :param source: source sentences, one per line.
    :param references: files of reference translations, aligned with the source; NAME for NAME0,
        NAME1 and so on.
    :param translations: names of systems and files with their translations. All systems are
        compared with the first one; systems from n-best lists come first.
    :param tuning_report: JSON file written by `phrasescore.tune`.
    :param experiment: folder of an experiment, with its ``table.toml``.
    """
    check_sequences(inputs=inputs, models=models, references=references)
    compute.check_only("device", "threads")
    if settings.sentences is not None and settings.lines is not None:
        raise ArgumentError("--sentences cannot be combined with --lines")
    check_extra("report", "report", ("plotly", "sklearn"))
    files = ReportFiles(
        inputs=[os.fspath(path) for path in inputs],
        models=[os.fspath(path) for path in models],
        source=optional_path(source),
        references=find_references(references),
        translations=[(name, os.fspath(path)) for name, path in translations],
        tuning_report=optional_path(tuning_report),
        experiment=None if experiment is None else os.path.join(experiment, "table.toml"),
    )
    choose_device(compute.device)  # reject a missing device before the long computation
    check_folder(os.fspath(folder), files.paths())
    report, left_out = _make_sections(read_inputs(files, settings, compute, progress))
    page = write_report(report, Path(folder))
    names = tuple(section.key for section in report.sections)
    num_blocks = sum(len(section.blocks) for section in report.sections)
    return ReportSummary(str(page), page.stat().st_size, names, num_blocks, tuple(left_out))


def _make_sections(inputs: ReportInputs) -> tuple[Report, list[tuple[str, str]]]:
    """Return a report with all possible sections, and the reasons why others were left out."""
    _check_kinds(inputs)
    wanted = inputs.settings.only or SECTIONS
    missing = {key: missing_inputs(SECTION_PLANS[key], inputs) for key in SECTIONS if key in wanted}
    for key in missing if inputs.settings.only else ():
        _refuse_missing(key, missing[key], inputs)
    sections: list[Section] = []
    left_out: list[tuple[str, str]] = []
    facts: list[tuple[str, str]] = []
    for key, names in missing.items():
        if names:
            reasons: Sequence[str] = [f"needs {_join(names)}"]
            notes: Sequence[str] = []
        else:
            _logger.info("report: %s", key)
            section, reasons, notes = SECTION_PLANS[key].make(inputs)
            if section is not None and section.blocks:
                sections.append(section)
            for problem in (*reasons, *notes):
                _logger.warning("%s: %s", key, problem)
        left_out += [(key, reason) for reason in reasons]
        facts += [(f"left out: {key}", reason) for reason in reasons]
        facts += [(f"note: {key}", note) for note in notes]
    if not sections:
        problems = "; ".join(f"{name.partition(': ')[2]}: {problem}" for name, problem in facts)
        raise PhrasescoreError(f"nothing to report ({problems})")
    facts = [*_facts(inputs), *facts]
    return Report("phrasescore report", tuple(facts), tuple(sections)), left_out


def _check_kinds(inputs: ReportInputs) -> None:
    """Reject inputs that require another kind of model, and lines that do not exist."""
    if inputs.table is not None and not inputs.of_kind("scores_phrases"):
        raise _wrong_kind(f"{inputs.table}: for a phrase table", ("scores_phrases",), inputs)
    settings, source = inputs.settings, inputs.source
    if settings.sentences is None and settings.lines is None:
        return
    if source is None:
        raise ArgumentError("--sentences and --lines require --source")
    if not inputs.of_kind(*SHOWS_SENTENCES):
        raise _wrong_kind("--sentences and --lines", SHOWS_SENTENCES, inputs)
    beyond = [line for line in settings.lines or () if line > len(source.texts)]
    if beyond:
        problem = f"--lines: expected line numbers from 1 to {len(source.texts):,}"
        raise DataError(source.path, None, f"{problem}, got {beyond[0]}")


def _refuse_missing(key: SectionName, names: Sequence[str], inputs: ReportInputs) -> None:
    """Reject a requested section if one of its inputs is missing."""
    kind = SECTION_PLANS[key].kind
    if len(names) == 1 and kind and inputs.models and not inputs.of_kind(kind):
        raise _wrong_kind(key, (kind,), inputs)
    if names:
        raise ArgumentError(f"{key} needs {_join(names)}")


def _wrong_kind(name: str, properties: Sequence[str], inputs: ReportInputs) -> ModelError:
    kinds = [kind for wanted in properties for kind in kind_names(**{wanted: True})]
    models = [f"{name} ({model.config.kind})" for name, model in inputs.models]
    expected = f"expected a model of the kind {' or '.join(kinds)}"
    return ModelError(f"{name}: {expected}, found {', '.join(models) or 'none'}")


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _facts(inputs: ReportInputs) -> Iterator[tuple[str, str]]:
    if inputs.table is not None:
        choice = inputs.table_choice
        long = f"{choice.num_long:,} source phrases of {inputs.settings.long} words or more"
        yield "phrase table", f"{inputs.table}: {choice.num_pairs:,} pairs; {long}"
    for name, model in inputs.models:
        if not model.config.network.reads_source:
            side = "target"
        else:
            side = "source given target" if model.reverse else "target given source"
        yield "model", f"{name}: {model.config.kind}, {side}, {model.num_parameters:,} weights"
    if inputs.source is not None:
        yield "source", f"{inputs.source.path}: {len(inputs.source.texts):,} sentences"
    for references in inputs.references:
        yield "references", f"{references.path}: {len(references.texts):,} sentences"
    for system in inputs.systems:
        yield "translations", f"{system.name}: {system.text.path}"
    if inputs.files.tuning_report is not None:
        yield "tuning report", inputs.files.tuning_report
    if inputs.files.experiment is not None:
        yield "experiment", inputs.files.experiment
    yield "seed", str(inputs.settings.seed)
    yield "made by", f"phrasescore {__version__}"
