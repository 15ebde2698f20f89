"""Make a report about models and systems: a page and its data files."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from phrasescore.arguments import StrPath, check_choice, check_extra, check_sequences
from phrasescore.devices import choose_device
from phrasescore.errors import ArgumentError, ModelError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.evaluation.systems_table import TABLE, join_names
from phrasescore.io.output import optional_path
from phrasescore.progress import ProgressCallback
from phrasescore.report.blocks import Fact, Figure, Report, Section
from phrasescore.report.page import check_folder, write_report
from phrasescore.report.phrases import LONG
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SECTIONS, SectionName
from phrasescore.settings.kinds import kind_names
from phrasescore.version import __version__
from phrasescore.workflows.report.inputs import NamedModel, ReportInputs, read_inputs
from phrasescore.workflows.report.sections import SECTION_PLANS, missing_inputs, read_results

_logger = logging.getLogger(__name__)

_EXTRA = ("matplotlib", "sklearn")  # the packages for maps
_DATE = "SOURCE_DATE_EPOCH"  # https://reproducible-builds.org/specs/source-date-epoch


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
    folder: StrPath,
    table: StrPath | None = None,
    *,
    models: Sequence[StrPath] = (),
    source: StrPath | None = None,
    references: Sequence[StrPath] = (),
    translations: Sequence[tuple[str, StrPath]] = (),
    experiment: StrPath | None = None,
    only: Sequence[SectionName] = (),
    compute: Compute = Compute(),
    command: str = "",
    progress: ProgressCallback | None = None,
) -> ReportSummary:
    """Make a page with all sections that the inputs allow, and its data as JSON.

    A section is left out if one of its inputs is missing; the page names the missing command-line
    option. Equal inputs give equal bytes except for the date, which the environment
    variable ``SOURCE_DATE_EPOCH`` can set, in seconds since 1970.

    :param folder: folder for the report; an older report or an empty folder is replaced.
    :param table: the phrase table on which models were trained.
    :param models: folders of trained models.
    :param source: source sentences, one per line.
    :param references: files of reference translations, aligned with the source; NAME for NAME0,
        NAME1 and so on.
    :param translations: names of systems and files with their translations. All systems are
        compared with the first one.
    :param experiment: folder of an experiment, whose first test text is used, with the translations
        by its rows, in place of references and translations.
    :param only: the keys of the sections to include; all by default.
    :param command: the command that the page shows at its end.
    """
    check_sequences(models=models, references=references)
    compute.check_only("device", "threads")
    check_choice(SECTIONS, only=only)
    if experiment is not None and (references or translations):
        problem = "with --references and --translation: an experiment has its own"
        raise ArgumentError(f"--experiment cannot be combined {problem}")
    if any(SECTION_PLANS[key].is_map for key in only):
        check_extra("report", "report", _EXTRA)
    reference_paths = find_references(references)
    choose_device(compute.device)  # reject a missing device before the long computation
    paths = [table, source, *reference_paths, *(path for _, path in translations), *models]
    tables = [] if experiment is None else [os.path.join(experiment, TABLE)]
    check_folder(os.fspath(folder), [os.fspath(path) for path in [*paths, *tables] if path])
    date = _find_date()
    content = read_inputs(
        table=optional_path(table),
        models=[os.fspath(path) for path in models],
        source=optional_path(source),
        references=reference_paths,
        translations=[(name, os.fspath(path)) for name, path in translations],
        experiment=optional_path(experiment),
        only=only,
        compute=compute,
        progress=progress,
    )
    report, left_out = _make_sections(content)
    report = replace(report, command=command, origin=f"phrasescore {__version__}, {date}")
    page = write_report(report, Path(folder))
    names = tuple(section.key for section in report.sections)
    num_blocks = sum(len(section.blocks) for section in report.sections)
    return ReportSummary(str(page), page.stat().st_size, names, num_blocks, tuple(left_out))


def _find_date() -> str:
    """Return the date for the page."""
    seconds = os.environ.get(_DATE) or str(int(time.time()))
    try:
        date = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ArgumentError(f"{_DATE}: expected seconds since 1970, got {seconds!r}") from error
    return f"{date:%Y-%m-%d %H:%M} UTC"


def _make_sections(inputs: ReportInputs) -> tuple[Report, list[tuple[str, str]]]:
    """Return a report with all possible sections, and the reasons why others were left out."""
    _check_kinds(inputs)
    wanted = inputs.only or SECTIONS
    missing = {key: missing_inputs(SECTION_PLANS[key], inputs) for key in SECTIONS if key in wanted}
    for key in missing if inputs.only else ():
        _refuse_missing(key, missing[key], inputs)
    sections: list[Section] = []
    left_out: list[tuple[str, str]] = []
    facts: list[Fact] = []
    for key, names in missing.items():
        notes: Sequence[str] = []
        if names:
            reasons: Sequence[str] = [f"needs {join_names(names)}"]
        elif SECTION_PLANS[key].is_map and not _is_installed(*_EXTRA):
            reasons = [_cure("this section")]
        else:
            if inputs.models:
                _logger.info("report: %s", key)  # models make it slow
            section, reasons, notes = SECTION_PLANS[key].make(inputs)
            if section is not None and not _is_installed("matplotlib"):
                section, reasons = _without_figures(section, reasons)
            if section is not None and section.blocks:
                sections.append(section)
            for problem in (*reasons, *notes):
                _logger.warning("%s: %s", key, problem)
        left_out += [(key, reason) for reason in reasons]
        facts += [Fact(f"left out: {key}", reason) for reason in reasons]
        facts += [Fact(f"note: {key}", note) for note in notes]
    if not sections:
        problems = "; ".join(f"{fact.name.partition(': ')[2]}: {fact.text}" for fact in facts)
        raise PhrasescoreError(f"nothing to report ({problems})")
    facts = [*_facts(inputs), *facts]
    title, lead = _opening(inputs)
    return Report(title, tuple(facts), tuple(sections), lead), left_out


def _is_installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


def _cure(what: str) -> str:
    return f"{what} needs pip install 'phrasescore[report]'"


def _without_figures(section: Section, reasons: Sequence[str]) -> tuple[Section, Sequence[str]]:
    kept = tuple(block for block in section.blocks if not isinstance(block, Figure))
    if len(kept) == len(section.blocks):
        return section, reasons
    return replace(section, blocks=kept), [*reasons, _cure("a figure")]


def _opening(inputs: ReportInputs) -> tuple[str, str]:
    """Return the title of the page, and the result in a sentence."""
    if results := read_results(inputs):
        texts = join_names(results.tests)
        title = f"Translation of {texts}" if texts else "Translation"
        return title, results.headline()
    models = [model.name for model in inputs.models]
    title = f"Report on {join_names(models)}" if models else "phrasescore report"
    return title, " ".join(f"{_describe(model)}." for model in inputs.models)


def _describe(model: NamedModel) -> str:
    """Return a model's kind and its perplexity on held-out data."""
    name, checkpoint = model
    record = checkpoint.record
    text = f"{name} is a network of the kind {checkpoint.config.kind}"
    best = next((each for each in record.curve if each.update == record.best_update), None)
    if best is None or best.validation_perplexity is None:
        return text
    return f"{text} with a perplexity of {best.validation_perplexity:.2f} on held-out data"


def _check_kinds(inputs: ReportInputs) -> None:
    """Reject a phrase table without a model that scores phrases."""
    if inputs.table is not None and not inputs.of_kind("scores_phrases"):
        raise _wrong_kind(f"{inputs.table}: for a phrase table", "scores_phrases", inputs)


def _refuse_missing(key: SectionName, names: Sequence[str], inputs: ReportInputs) -> None:
    """Reject a requested section if one of its inputs is missing."""
    kind = SECTION_PLANS[key].kind
    if len(names) == 1 and kind and inputs.models and not inputs.of_kind(kind):
        raise _wrong_kind(key, kind, inputs)
    if names:
        raise ArgumentError(f"{key} needs {join_names(names)}")


def _wrong_kind(name: str, wanted: str, inputs: ReportInputs) -> ModelError:
    kinds = kind_names(**{wanted: True})
    models = [f"{name} ({model.config.kind})" for name, model in inputs.models]
    expected = f"expected a model of the kind {' or '.join(kinds)}"
    return ModelError(f"{name}: {expected}, found {', '.join(models) or 'none'}")


def _facts(inputs: ReportInputs) -> Iterator[Fact]:
    if inputs.table is not None:
        choice = inputs.table_choice
        long = f"{choice.num_long:,} source phrases of {LONG} words or more"
        yield Fact("phrase table", f"{inputs.table}: {choice.num_pairs:,} pairs; {long}")
    for name, model in inputs.models:
        if not model.config.network.reads_source:
            side = "target"
        else:
            side = "source given target" if model.reverse else "target given source"
        text = f"{name}: {model.config.kind}, {side}, {model.num_parameters:,} weights"
        yield Fact("model", text)
    if inputs.source is not None:
        yield Fact("source", f"{inputs.source.path}: {len(inputs.source.texts):,} sentences")
    for references in inputs.references:
        yield Fact("references", f"{references.path}: {len(references.texts):,} sentences")
    for system in inputs.systems:
        yield Fact("translations", f"{system.name}: {system.text.path}")
    if inputs.experiment is not None:
        yield Fact("experiment", inputs.folder)
