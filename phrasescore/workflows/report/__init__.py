"""Make a report: a page about models and systems, and its data files."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import choose_device
from phrasescore.errors import ArgumentError, DataError, ModelError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.io.folders import writing_folder
from phrasescore.io.output import optional_path
from phrasescore.progress import ProgressCallback
from phrasescore.report.blocks import DATA, ENCODE_ERRORS, Report, Section, write_data
from phrasescore.report.page import render_page
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SECTIONS, Reporting, SectionName
from phrasescore.settings.kinds import kind_names
from phrasescore.version import __version__
from phrasescore.workflows.report.inputs import (
    NamedModel,
    ReportFiles,
    ReportInputs,
    read_inputs,
)
from phrasescore.workflows.report.sections import OF_SENTENCES, SECTION_PLANS, missing_inputs

_logger = logging.getLogger(__name__)

PAGE = "index.html"
# The names in the folder of a report; the data folder holds only .tsv files.
_NAMES = {PAGE, "report.json", DATA}


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The new report."""

    # Path and size in bytes of the page, index.html.
    page: str
    size: int
    # Keys of the sections, in the order of the page.
    sections: tuple[str, ...]
    # Number of tables and figures.
    num_blocks: int
    # Key of each section that was left out, wholly or in part, and the reason.
    left_out: tuple[tuple[str, str], ...]

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
    """Make a page of all sections that the inputs allow, and its data as JSON and TSV files.

    A section that lacks an input is left out; the page and the log name that input by its option on
    the command line. Equal inputs and seeds give equal bytes.

    :param inputs: at most one phrase table, and n-best lists. The first hypotheses of each list are
        the translations of a system with the name of the file.
    :param folder: replaces an older report or an empty folder.
    :param models: folders of trained models.
    :param source: source sentences, one per line.
    :param references: files of reference translations, aligned with the source; NAME for NAME0,
        NAME1 and so on.
    :param translations: names of systems and files of their translations. The others are compared
        with the first system; systems of n-best lists come first.
    :param tuning_report: JSON that `phrasescore.tune` wrote.
    :param experiment: folder of an experiment, with its ``table.toml``.
    :raises ModelError: if the inputs or settings need a model of another kind.
    :raises PhrasescoreError: if a file is not as expected, ``folder`` holds anything else, or no
        section can be made.
    """
    check_sequences(inputs=inputs, models=models, references=references)
    compute.check_only("device", "threads")
    if settings.sentences is not None and settings.lines is not None:
        raise ArgumentError("--sentences draws lines, and --lines names them: not both")
    files = ReportFiles(
        inputs=[os.fspath(path) for path in inputs],
        models=[os.fspath(path) for path in models],
        source=optional_path(source),
        references=find_references(references),
        translations=[(name, os.fspath(path)) for name, path in translations],
        tuning_report=optional_path(tuning_report),
        experiment=None if experiment is None else os.path.join(experiment, "table.toml"),
    )
    choose_device(compute.device)  # refuse a missing device before the long work
    _check_folder(os.fspath(folder), files.paths())
    report, left_out = _make_sections(read_inputs(files, settings, compute, progress))
    size = _write(report, folder)
    return ReportSummary(
        str(Path(folder) / PAGE),
        size,
        tuple(section.key for section in report.sections),
        sum(len(section.blocks) for section in report.sections),
        tuple(left_out),
    )


def _make_sections(inputs: ReportInputs) -> tuple[Report, list[tuple[str, str]]]:
    """Return a report of the possible sections, and the reasons why others were left out."""
    _check_kinds(inputs)
    wanted = inputs.settings.only or SECTIONS
    missing = {key: missing_inputs(SECTION_PLANS[key], inputs) for key in SECTIONS if key in wanted}
    if inputs.settings.only:
        _refuse_missing(missing, inputs)
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
    """Refuse inputs that need a model of another kind, and lines that do not exist."""
    if inputs.table is not None and not inputs.of_kind("scores_phrases"):
        kinds = kind_names(scores_phrases=True)
        raise _wrong_kind(f"{inputs.table}: as a phrase table", kinds, inputs.models)
    settings, source = inputs.settings, inputs.source
    if settings.sentences is None and settings.lines is None:
        return
    if source is None:
        raise ArgumentError("--sentences and --lines need --source")
    if not inputs.of_kind(*OF_SENTENCES):
        kinds = [kind for name in OF_SENTENCES for kind in kind_names(**{name: True})]
        raise _wrong_kind("--sentences and --lines", kinds, inputs.models)
    beyond = [line for line in settings.lines or () if line > len(source.texts)]
    if beyond:
        problem = f"--lines: expected a line of the file, which has {len(source.texts):,}"
        raise DataError(source.path, None, f"{problem}, got {beyond[0]}")


def _refuse_missing(missing: Mapping[SectionName, list[str]], inputs: ReportInputs) -> None:
    """Refuse a requested section that lacks an input."""
    for key, names in missing.items():
        kind = SECTION_PLANS[key].kind
        if len(names) == 1 and kind and inputs.models and not inputs.of_kind(kind):
            raise _wrong_kind(key, kind_names(**{kind: True}), inputs.models)
        if names:
            raise ArgumentError(f"{key} needs {_join(names)}")


def _wrong_kind(name: str, kinds: Sequence[str], models: Sequence[NamedModel]) -> ModelError:
    found = ", ".join(f"{model.name} ({model.kind})" for model in models) or "none"
    expected = f"expected a model of the kind {' or '.join(kinds)}"
    return ModelError(f"{name}: {expected}, found {found}")


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _facts(inputs: ReportInputs) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the inputs, for the top of the page."""
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


def _check_folder(folder: str, inputs: Sequence[str]) -> None:
    """Check that the report can be written and would not overwrite an input."""
    target = Path(os.path.abspath(folder))
    parent = target.parent
    if not target.name:
        raise PhrasescoreError(f"{folder}: expected the name of a folder for the report")
    if not parent.is_dir():
        raise PhrasescoreError(f"{folder}: cannot write: there is no folder {parent}")
    if not os.access(parent, os.W_OK):
        raise PhrasescoreError(f"{folder}: cannot write: the folder {parent} may not be written to")
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise PhrasescoreError(
            f"{folder}: expected a folder for the report, found a file or a link"
        )
    if os.listdir(target) and not _is_report(target):
        raise PhrasescoreError(
            f"{folder}: expected an older report or an empty folder, found another folder; name a "
            "new one"
        )
    for path in inputs:
        if target in Path(os.path.abspath(path)).parents:
            raise PhrasescoreError(f"{folder}: would replace {path}, which it is made from")


def _is_report(folder: Path) -> bool:
    data = folder / DATA
    return (
        set(os.listdir(folder)) == _NAMES
        and data.is_dir()
        and all(path.suffix == ".tsv" for path in data.iterdir())
    )


def _write(report: Report, folder: StrPath) -> int:
    """Write the page and its data; return the bytes of the page."""
    page = render_page(report).encode(errors=ENCODE_ERRORS)
    with writing_folder(os.path.abspath(folder)) as new:
        write_data(report, new)
        (new / PAGE).write_bytes(page)
    return len(page)
