"""Make a report about models and systems: a page and its data files."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import choose_device
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.evaluation.systems_table import join_names
from phrasescore.progress import ProgressCallback
from phrasescore.report import differences, maps, networks, phrases, results
from phrasescore.report.blocks import Figure, Report, Section
from phrasescore.report.inputs import (
    EXTRA,
    ReportInputs,
    SectionPlan,
    is_installed,
    read_inputs,
)
from phrasescore.report.page import check_folder, write_report
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import check
from phrasescore.settings.evaluation import SECTIONS, SectionName
from phrasescore.version import __version__

_logger = logging.getLogger(__name__)

# In the order of the page.
PLANS: dict[SectionName, SectionPlan] = {
    "results": SectionPlan(results.results, ("--translation and --references, or --experiment",)),
    "differences": SectionPlan(
        differences.differences, ("two systems (--translation)", "--references")
    ),
    "groups": SectionPlan(results.groups, ("--translation", "--references")),
    "preferences": SectionPlan(phrases.preferences, ("TABLE",), "scores_phrases"),
    "scores": SectionPlan(phrases.scores, ("TABLE",), "scores_phrases"),
    "words": SectionPlan(maps.words, ("a --model",), is_map=True),
    "phrases": SectionPlan(maps.phrases, ("TABLE",), "scores_phrases", is_map=True),
    "sentences": SectionPlan(maps.sentences, ("--source",), "has_source_vectors", is_map=True),
    "alignments": SectionPlan(
        networks.alignments, ("--source", "--references or --translation"), "aligns_words"
    ),
    "parses": SectionPlan(networks.parses, ("--source",), "parses_source"),
    "training": SectionPlan(networks.training, ("a --model",)),
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
    for section in only:
        check(SectionName, only=section)
    if experiment is not None and (references or translations):
        problem = "with --references and --translation: an experiment has its own"
        raise ArgumentError(f"--experiment cannot be combined {problem}")
    found = find_references(references)
    choose_device(compute.device)  # reject a missing device before the long computation
    check_folder(os.fspath(folder))
    inputs = read_inputs(
        table, models, source, found, translations, experiment, only, compute, progress
    )
    sections, left_out = _make_sections(inputs)
    title, lead = _opening(inputs)
    origin = f"phrasescore {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    report = Report(title, tuple(left_out), tuple(sections), lead, command, origin)
    page = write_report(report, Path(folder))
    names = tuple(section.key for section in sections)
    num_blocks = sum(len(section.blocks) for section in sections)
    return ReportSummary(str(page), page.stat().st_size, names, num_blocks, tuple(left_out))


def _make_sections(inputs: ReportInputs) -> tuple[list[Section], list[tuple[str, str]]]:
    """Return all possible sections, and the reasons why others were left out."""
    wanted = [key for key in SECTIONS if key in (inputs.only or SECTIONS)]
    missing = {key: PLANS[key].missing(inputs) for key in wanted}
    for key in wanted:
        if inputs.only and missing[key]:
            raise ArgumentError(f"{key} needs {join_names(missing[key])}")
    sections: list[Section] = []
    left_out: list[tuple[str, str]] = []
    for key in wanted:
        if missing[key]:
            reasons: Sequence[str] = [f"needs {join_names(missing[key])}"]
        else:
            if inputs.models:
                _logger.info("report: %s", key)  # models make it slow
            section, reasons = PLANS[key].make(inputs)
            if section is not None and not is_installed("matplotlib"):
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


def _without_figures(section: Section, reasons: Sequence[str]) -> tuple[Section, Sequence[str]]:
    kept = tuple(block for block in section.blocks if not isinstance(block, Figure))
    if len(kept) == len(section.blocks):
        return section, reasons
    return msgspec.structs.replace(section, blocks=kept), [*reasons, f"a figure needs {EXTRA}"]


def _opening(inputs: ReportInputs) -> tuple[str, str]:
    if (results := inputs.results) is not None:
        texts = join_names(results.tests)
        title = f"Translation of {texts}" if texts else "Translation"
        return title, results.headline()
    models = join_names([model.name for model in inputs.models])
    return f"Report on {models}" if models else "phrasescore report", ""
