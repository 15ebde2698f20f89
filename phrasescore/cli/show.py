"""``phrasescore show``: what a model folder or a phrase table holds."""

import dataclasses
import json
import os
from typing import TYPE_CHECKING

import click

from phrasescore.cli import options
from phrasescore.cli.file_kinds import seems_to_be
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import DataError, PhrasescoreError

if TYPE_CHECKING:
    from moses_integration.table_report import Coverage, TableReport

# Phrases of more words than this share a row of the text report.
LONGEST = 10
# A folder with one of these is a model, though perhaps a damaged one.
MODEL_FILES = {"config.toml", "model.safetensors", "training.json"}


@click.command()
@click.argument("path", metavar="MODEL|TABLE")
@click.option(
    "--model",
    metavar="MODEL",
    help="A trained model: report how much of TABLE its shortlists cover.",
)
@options.report_format
@options.verbosity
def show(path: str, model: str | None, report_format: str) -> None:
    """Report what a model folder or a phrase table holds.

    A table is read once, as a stream; '-' is stdin. Logarithms are natural.
    """
    if os.path.isdir(path):
        if model is not None:
            raise click.UsageError("--model goes with a phrase table, and this is a folder")
        click.echo(_show_model(path, report_format))
    else:
        click.echo(_show_table(path, model, report_format))


def _show_model(path: str, report_format: str) -> str:
    if not MODEL_FILES.intersection(os.listdir(path)):
        raise PhrasescoreError(f"{path}: expected a model or a phrase table, found a folder")
    from phrasescore.report.model_summary import model_report

    report = model_report(path)
    if report_format == "json":
        return report.to_json()
    return report.to_text()


def _show_table(path: str, model: str | None, report_format: str) -> str:
    from moses_integration.phrase_table import read_phrase_table
    from moses_integration.table_report import report_table
    from phrasescore.cli.progress import show_progress
    from phrasescore.progress import Meter

    # A pipe has been read when it has been read.
    again = os.path.isfile(path)
    shortlists = None
    if model is not None:
        from phrasescore.models.checkpoint import load_checkpoint

        checkpoint = load_checkpoint(model)
        if checkpoint.config.kind in LANGUAGE_MODELS:
            raise PhrasescoreError(
                f"{model}: expected a model with a shortlist for each side of a table, found a "
                f"language model ({checkpoint.config.kind})"
            )
        shortlists = (checkpoint.table_source_vocabulary, checkpoint.table_target_vocabulary)
    try:
        with Meter("show", "lines", show_progress) as progress:
            report = report_table(
                progress.track(read_phrase_table(path)),
                shortlists=shortlists,
                read_again=(lambda: read_phrase_table(path)) if again else None,
            )
    except DataError as error:
        found = seems_to_be(path) if again else None
        if found is None:
            raise
        problem = f"expected a model or a phrase table, found what seems to be {found}"
        raise PhrasescoreError(f"{path}: {problem}") from error
    if report_format == "json":
        return json.dumps({"path": path, **dataclasses.asdict(report)}, indent=2)
    return _table_text(report)


def _table_text(report: "TableReport") -> str:
    each = report.targets_per_source
    counts = report.counts
    rows = [
        ("lines", f"{report.lines:,}"),
        ("distinct sources", f"{report.distinct_sources:,}"),
        ("distinct targets", f"{report.distinct_targets:,}"),
        (
            "targets per source",
            f"mean {each.mean:.2f}, median {each.median:g}, max {each.max:,}"
            + ("" if each.max_source is None else f" (of {each.max_source!r})"),
        ),
        ("times extracted", f"{counts.joint:,.0f} in all (joint counts)"),
        ("lines extracted once", f"{counts.once:,} ({counts.once / report.lines:.1%})"),
        ("lines without counts", f"{report.lines - counts.lines:,}"),
    ]
    if report.coverage is not None:
        rows += _coverage_rows(report.coverage)
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join([*lines, "", *_length_lines(report), "", *_score_lines(report)])


def _coverage_rows(coverage: "Coverage") -> list[tuple[str, str]]:
    return [
        (
            f"{side} words in shortlist",
            f"{plain:.2%} of the running words; {by_count:.2%} weighted by the counts",
        )
        for side, plain, by_count in (
            ("source", coverage.source_words, coverage.source_words_by_count),
            ("target", coverage.target_words, coverage.target_words_by_count),
        )
    ] + [("pairs without <unk>", f"{coverage.pairs:.2%} of the lines")]


def _length_lines(report: "TableReport") -> list[str]:
    """Lay out how long the phrases are; those longer than LONGEST words share a row."""
    names = [*map(str, range(1, LONGEST + 1)), f"> {LONGEST}"]
    sides = []
    for lengths in (report.source_lengths, report.target_lengths):
        counts = [lengths.get(length, 0) for length in range(1, LONGEST + 1)]
        sides.append([*counts, report.lines - sum(counts)])
    lines = [f"{'words':>7}  {'source phrases':>22}  {'target phrases':>22}"]
    for name, *both in zip(names, *sides, strict=True):
        if any(both):
            cells = (f"{count:>14,} {count / report.lines:>7.1%}" for count in both)
            lines.append("  ".join((f"{name:>7}", *cells)))
    return lines


def _score_lines(report: "TableReport") -> list[str]:
    header = f"{'column':>7}  {'lowest':>12}  {'highest':>12}  {'mean of ln':>12}"
    return [header] + [
        f"{number:>7}  {column.min:>12.6g}  {column.max:>12.6g}  {column.mean_log:>12.4f}"
        for number, column in enumerate(report.scores, start=1)
    ]
