"""Make a report about models and systems: a page and its data files."""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import msgspec

from phrasescore.arguments import StrPath, check_choice, check_sequences
from phrasescore.devices import choose_device
from phrasescore.errors import ArgumentError, ModelError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.evaluation.systems_table import TABLE, join_names
from phrasescore.progress import ProgressCallback
from phrasescore.report import differences, maps, networks, phrases, results
from phrasescore.report.blocks import Fact, Figure, Report, Section
from phrasescore.report.inputs import LONG, ReportInputs, SectionPlan, read_inputs
from phrasescore.report.page import check_folder, write_report
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SECTIONS, SectionName
from phrasescore.settings.kinds import kind_names
from phrasescore.version import __version__

_logger = logging.getLogger(__name__)

_EXTRA = ("matplotlib", "sklearn")  # the packages for maps

# In the order of the page.
PLANS: dict[SectionName, SectionPlan] = {
    "results": results.results,
    "differences": differences.differences,
    "groups": results.groups,
    "tuning": results.tuning,
    "preferences": phrases.preferences,
    "scores": phrases.scores,
    "words": maps.words,
    "phrases": maps.phrases,
    "sentences": maps.sentences,
    "alignments": networks.alignments,
    "parses": networks.parses,
    "training": networks.training,
}


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
    option. Equal inputs give equal bytes except for the date.

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
    if any(PLANS[key].is_map for key in only) and not _is_installed(*_EXTRA):
        problem = "report needs packages that are not installed"
        raise PhrasescoreError(f"{problem}: pip install 'phrasescore[report]'")
    found = find_references(references)
    choose_device(compute.device)  # reject a missing device before the long computation
    paths = [table, source, *found, *(path for _, path in translations), *models]
    tables = [] if experiment is None else [os.path.join(experiment, TABLE)]
    check_folder(os.fspath(folder), [os.fspath(path) for path in [*paths, *tables] if path])
    inputs = read_inputs(
        table, models, source, found, translations, experiment, only, compute, progress
    )
    sections, left_out = _make_sections(inputs)
    facts = [*_facts(inputs), *(Fact(f"left out: {key}", reason) for key, reason in left_out)]
    title, lead = _opening(inputs)
    origin = f"phrasescore {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    report = Report(title, tuple(facts), tuple(sections), lead, command, origin)
    page = write_report(report, Path(folder))
    names = tuple(section.key for section in sections)
    num_blocks = sum(len(section.blocks) for section in sections)
    return ReportSummary(str(page), page.stat().st_size, names, num_blocks, tuple(left_out))


def _make_sections(inputs: ReportInputs) -> tuple[list[Section], list[tuple[str, str]]]:
    """Return all possible sections, and the reasons why others were left out."""
    if inputs.table is not None and not inputs.of_kind("scores_phrases"):
        raise _wrong_kind(f"{inputs.table}: for a phrase table", "scores_phrases", inputs)
    wanted = [key for key in SECTIONS if key in (inputs.only or SECTIONS)]
    missing = {key: PLANS[key].missing(inputs) for key in wanted}
    for key in wanted if inputs.only else ():
        _refuse_missing(key, missing[key], inputs)
    sections: list[Section] = []
    left_out: list[tuple[str, str]] = []
    for key in wanted:
        if missing[key]:
            reasons: Sequence[str] = [f"needs {join_names(missing[key])}"]
        elif PLANS[key].is_map and not _is_installed(*_EXTRA):
            reasons = [_cure("this section")]
        else:
            if inputs.models:
                _logger.info("report: %s", key)  # models make it slow
            section, reasons = PLANS[key].make(inputs)
            if section is not None and not _is_installed("matplotlib"):
                section, reasons = _without_figures(section, reasons)
            if section is not None and section.blocks:
                sections.append(section)
            for reason in reasons:
                _logger.warning("%s: %s", key, reason)
        left_out += [(key, reason) for reason in reasons]
    if not sections:
        problems = "; ".join(f"{key}: {reason}" for key, reason in left_out)
        raise PhrasescoreError(f"nothing to report ({problems})")
    return sections, left_out


def _is_installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


def _cure(what: str) -> str:
    return f"{what} needs pip install 'phrasescore[report]'"


def _without_figures(section: Section, reasons: Sequence[str]) -> tuple[Section, Sequence[str]]:
    kept = tuple(block for block in section.blocks if not isinstance(block, Figure))
    if len(kept) == len(section.blocks):
        return section, reasons
    return msgspec.structs.replace(section, blocks=kept), [*reasons, _cure("a figure")]


def _opening(inputs: ReportInputs) -> tuple[str, str]:
    if (results := inputs.results) is not None:
        texts = join_names(results.tests)
        title = f"Translation of {texts}" if texts else "Translation"
        return title, results.headline()
    models = join_names([model.name for model in inputs.models])
    return f"Report on {models}" if models else "phrasescore report", ""


def _refuse_missing(key: SectionName, names: Sequence[str], inputs: ReportInputs) -> None:
    kind = PLANS[key].kind
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
    if inputs.source is not None:
        yield Fact("source", f"{inputs.source.path}: {len(inputs.source.texts):,} sentences")
    for references in inputs.references:
        yield Fact("references", f"{references.path}: {len(references.texts):,} sentences")
    for system in inputs.systems:
        yield Fact("translations", f"{system.name}: {system.text.path}")
    if inputs.experiment is not None:
        yield Fact("experiment", inputs.experiment)
