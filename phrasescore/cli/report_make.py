"""A report is made: the sections that can be, and what is said of the others."""

import logging
from collections.abc import Iterator

import click

from phrasescore import __version__
from phrasescore.cli.report_inputs import Inputs, wrong_kind
from phrasescore.cli.report_sections import PARTS, PHRASES, SENTENCES_SHOWN, Part
from phrasescore.cli.report_sentences import check_lines
from phrasescore.errors import PhrasescoreError
from phrasescore.report.blocks import Report, Section

_logger = logging.getLogger(__name__)


def make_report(inputs: Inputs) -> Report:
    """Return the report of all sections that can be made.

    :raises ModelError: if what was asked for needs a model of another kind than there is.
    :raises DataError: if a line was asked for that the source does not have.
    :raises click.UsageError: if it needs something else that was not given.
    :raises PhrasescoreError: if no section can be made.
    """
    _check_kinds(inputs)
    wanted = inputs.settings.only
    parts = [(part, _lacks(part, inputs)) for part in PARTS if not wanted or part.key in wanted]
    # Before the long work: what was asked for and cannot be is said at once.
    for part, lacks in parts:
        if lacks and wanted:
            raise _refusal(part, inputs, lacks)
    sections: list[Section] = []
    left_out: list[tuple[str, str]] = []
    for part, lacks in parts:
        if lacks:
            left_out.append((f"left out: {part.key}", f"needs {_listed(lacks)}"))
            continue
        _logger.info("report: %s", part.key)
        made = part.make(inputs)
        if made.section is not None:
            sections.append(made.section)
        for reason in made.reasons:
            _logger.warning("%s: %s", part.key, reason)
            left_out.append((f"left out: {part.key}", reason))
        for note in made.notes:
            _logger.warning("%s: %s", part.key, note)
            left_out.append((f"note: {part.key}", note))
    if not sections:
        reasons = "; ".join(f"{name.partition(': ')[2]}: {reason}" for name, reason in left_out)
        raise PhrasescoreError(f"nothing to report ({reasons})")
    return Report("phrasescore report", (*_facts(inputs), *left_out), tuple(sections))


def _lacks(part: Part, inputs: Inputs) -> list[str]:
    lacks = [name for there, name in part.needs(inputs) if not there]
    if part.kinds and not inputs.of_kind(*part.kinds):
        lacks.append(f"a --model of the kind {' or '.join(part.kinds)}")
    return lacks


def _refusal(part: Part, inputs: Inputs, lacks: list[str]) -> Exception:
    if len(lacks) == 1 and part.kinds and inputs.models and not inputs.of_kind(*part.kinds):
        return wrong_kind(part.key, part.kinds, inputs.models)
    return click.UsageError(f"{part.key} needs {_listed(lacks)}")


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _check_kinds(inputs: Inputs) -> None:
    """Refuse what was given and cannot be of use, for want of a model of the right kind."""
    if inputs.table is not None and not inputs.of_kind(*PHRASES):
        raise wrong_kind(f"phrase table {inputs.table}", PHRASES, inputs.models)
    if inputs.settings.sentences_wanted:
        if inputs.source is None:
            raise click.UsageError("--sentences and --lines are of --source")
        if not inputs.of_kind(*SENTENCES_SHOWN):
            raise wrong_kind("--sentences and --lines", SENTENCES_SHOWN, inputs.models)
        check_lines(inputs.source, inputs.settings.lines or ())


def _facts(inputs: Inputs) -> Iterator[tuple[str, str]]:
    if inputs.table is not None:
        choice = inputs.table_data.choice
        long = f"{choice.num_long:,} source phrases of {inputs.settings.long} words or more"
        yield "phrase table", f"{inputs.table}: {choice.num_pairs:,} pairs; {long}"
    for model in inputs.models:
        made = model.checkpoint
        side = "source given target" if made.reverse else "target given source"
        yield "model", f"{model.name}: {model.kind}, {side}, {made.num_parameters:,} weights"
    if inputs.source is not None:
        yield "source", f"{inputs.source.path}: {len(inputs.source.texts):,} sentences"
    for references in inputs.references:
        yield "references", f"{references.path}: {len(references.texts):,} sentences"
    for system in inputs.systems:
        yield "translations", f"{system.name}: {system.sentences.path}"
    for name, given in (("tuning report", inputs.tuning), ("experiment", inputs.experiment)):
        if given is not None:
            yield name, given.path
    yield "seed", str(inputs.settings.seed)
    yield "made by", f"phrasescore {__version__}"
