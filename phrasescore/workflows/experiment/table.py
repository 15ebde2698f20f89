"""The table of an experiment: the score of each system, its deviation and its significance."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from sacrebleu.metrics.base import Metric

from phrasescore.arguments import TableMetric
from phrasescore.evaluation.comparison import (
    P_VALUES,
    ComparedSystem,
    Comparison,
    read_translations,
)
from phrasescore.evaluation.sentences import read_sentences
from phrasescore.evaluation.significance import MeanMetric, Row
from phrasescore.evaluation.systems_table import SystemScore, SystemsTable, TableRow, TableText
from phrasescore.evaluation.tune_report import read_tune_report
from phrasescore.features.program import Command, ProgramScore
from phrasescore.io.output import open_output
from phrasescore.report.make_report import make_report
from phrasescore.settings.evaluation import SectionName
from phrasescore.workflows.experiment.config import Experiment, TextSet
from phrasescore.workflows.experiment.functions import Run
from phrasescore.workflows.experiment.plan import Plan
from phrasescore.workflows.experiment.steps import TABLE_FILES, FileNames

REPORT = "report"  # the folder of the page
_MEAN = "the mean over the replicas ± their standard deviation"
METRICS: dict[TableMetric, str] = {
    "bleu": f"BLEU on the tokenised text (as in multi-bleu.perl): {_MEAN}.",
    "word_accuracy": f"Word accuracy, 1 minus the word error rate, in percent: {_MEAN}.",
}
ROUNDS = "rounds: tuning rounds; + means that the limit ended tuning, and more rounds could help."


def measure(
    wanted: Experiment,
    plan: Plan,
    existing: Collection[Path],
    warnings: Sequence[str] = (),
    *,
    is_final: bool = True,
) -> SystemsTable:
    """Return the table for the texts translated so far; only the final one has all tests."""
    texts, names, metric = wanted.data.texts, plan.names, wanted.tuning.table_metric
    runs_by_name: dict[str, list[Run]] = {}
    for run in plan.runs:
        runs_by_name.setdefault(run.row.name, []).append(run)
    scores: dict[str, dict[str, SystemScore]] = {name: {} for name in runs_by_name}
    others: dict[str, dict[str, SystemScore]] = {name: {} for name in runs_by_name}
    signatures: dict[str, str] = {}
    for text in texts:
        is_test = text is not texts[0]
        # On the text of tuning, a p-value says nothing: each system had its choice there.
        outputs = {name: _outputs(runs, text, existing) for name, runs in runs_by_name.items()}
        compared = _compare(outputs, text.references, metric, has_baseline=is_test)
        if compared is not None:
            for system, score in zip(compared.systems, compared.scores, strict=True):
                scores[system.name][text.name] = score
        further = _further(wanted.program, text, runs_by_name, existing, has_baseline=is_final)
        for title, other, compared in further if is_test else ():
            for system, score in zip(compared.systems, compared.scores_by(other), strict=True):
                others[system.name][f"{text.name} {title}"] = score
            signatures[title] = f"{title}: {other.get_signature().format()}."
    rows = tuple(
        _row(name, own, existing, (scores[name], others[name]), texts, names)
        for name, own in runs_by_name.items()
    )
    is_compared = any(each.p_value is not None for row in rows for each in row.scores.values())
    all_notes = (
        METRICS[metric],
        *signatures.values(),
        *([P_VALUES] if is_compared else []),
        ROUNDS,
        *(f"* {row.name}: {remark}." for row in rows for remark in row.remarks),
        *describe(wanted),
        *(f"Warning of {warning}." for warning in warnings),
    )
    described = (
        TableText(
            text.name,
            names.of(text.source),
            tuple(map(names.of, text.references)),
            tuned=text is texts[0],
        )
        for text in texts
    )
    return SystemsTable(metric, all_notes, tuple(described), rows)


def _compare(
    paths: Mapping[str, Sequence[Path]],
    references: Sequence[Path],
    metric: TableMetric = "bleu",
    *,
    has_baseline: bool,
) -> Comparison | None:
    """Return a comparison of the systems that have translations; None if none has."""
    systems = [
        ComparedSystem(name, [read_translations(str(path)) for path in own])
        for name, own in paths.items()
        if own
    ]
    if not systems:
        return None
    texts = [read_sentences(str(path)) for path in references]
    has_baseline &= systems[0].name == next(iter(paths))
    return Comparison(systems, texts, has_baseline=has_baseline, metric=metric)


def _further(
    program: Command | None,
    text: TextSet,
    runs_by_name: Mapping[str, Sequence[Run]],
    existing: Collection[Path],
    *,
    has_baseline: bool,
) -> Iterator[tuple[str, Metric, Comparison]]:
    """Yield the name of each further metric, the metric, and a comparison for it."""
    references = text.raw[1:] or text.references

    def compare(measured: Callable[[Run], Path]) -> Comparison | None:
        paths = {
            name: [run.restored(text) for run in runs if measured(run) in existing]
            for name, runs in runs_by_name.items()
        }
        return _compare(paths, references, has_baseline=has_baseline)

    if text.raw and (found := compare(lambda run: run.output(text))) is not None:
        yield "BLEU-13a", found.build_metric("bleu", "13a"), found
        yield "chrF2++", found.build_metric("chrf++"), found
    if program is not None and (found := compare(lambda run: run.scores(text))) is not None:
        scores: dict[Row, float] = {}
        for run in chain.from_iterable(runs_by_name.values()):
            if run.scores(text) in existing:
                rows = found.rows(read_translations(str(run.restored(text))).texts)
                values = map(float, run.scores(text).read_text().splitlines())
                scores |= dict(zip(rows, values, strict=True))
        details = found.rows, len(references), ProgramScore(program.command).version
        yield program.title, MeanMetric(program.title, scores, *details), found


def _outputs(runs: Sequence[Run], text: TextSet, existing: Collection[Path]) -> list[Path]:
    return [path for run in runs if (path := run.output(text)) in existing]


def _row(
    name: str,
    runs: Sequence[Run],
    existing: Collection[Path],
    measured: tuple[dict[str, SystemScore], dict[str, SystemScore]],
    texts: Sequence[TextSet],
    names: FileNames,
) -> TableRow:
    done = [(run, read_tune_report(run.report)) for run in runs if run.report in existing]
    counts = Counter(remark for run, report in done for remark in run.remarks(report))
    best = max(done, key=lambda pair: pair[1].reached, default=None)
    scores, others = measured
    return TableRow(
        name,
        rounds=tuple(
            f"{len(report.rounds)}{'' if report.ended_by_itself else '+'}" for _, report in done
        ),
        remarks=tuple(
            remark if count == len(done) else f"{remark} (in {count} of {len(done)} runs)"
            for remark, count in counts.items()
        ),
        features=runs[0].row.describe(),
        system="" if best is None else names.of(best[0].folder),
        outputs={
            text.name: tuple(map(names.of, _outputs(runs, text, existing)))
            for text in texts
            if text.name in scores
        },
        scores=scores,
        others=others,
    )


def describe(wanted: Experiment) -> Iterator[str]:
    """Yield notes on how the rows of an experiment are made."""
    engine = wanted.engine
    name = "Moses" if engine.decoder == "moses" else "the embedded search"
    limits = ", ".join(f"{name} {value}" for name, value in engine.search.items())
    yield f"Decoded by {name}{f' ({limits})' if limits else ''}."
    tuning, rows = wanted.tuning, wanted.systems
    own = [f"{row.name}: {row.iterations}" for row in rows if row.iterations is not None]
    others = f" ({', '.join(own)})" if own else ""
    metric = "" if tuning.metric == "bleu" else f" for {tuning.metric}"
    yield (
        f"Weights of each row tuned on dev by {tuning.method}{metric}, seeds "
        f"{', '.join(map(str, tuning.seeds))}; lists of {engine.nbest_size}, "
        f"{engine.iterations} rounds at most{others}."
    )
    if len(rows) > 1:
        yield (
            "A row's tuning starts from the weights of the best earlier row on dev with a "
            "subset of its features."
        )
    if engine.decoder == "moses" and any(row.search for row in rows):
        yield "CSLM scores Moses' n-best lists, because Moses' search does not support it."


def write_table(
    table: SystemsTable, names: FileNames, command: str = "", *, is_final: bool = True
) -> None:
    """Write ``table.txt``, ``table.toml`` and the report, each atomically.

    :param is_final: False to write only the sections of the report that take no time.
    """
    for name, text in zip(TABLE_FILES, (table.to_text(), table.to_toml()), strict=True):
        with open_output(str(names.folder / name)) as stream:
            # Paths may have bytes that are not UTF-8; TOML has no notation for them.
            stream.write(text.encode(errors="replace"))
    if any(row.scores for row in table.rows):
        only: tuple[SectionName, ...] = () if is_final else ("results",)
        # The page names files as the user does here.
        given = os.path.relpath(names.folder)
        make_report(names.folder / REPORT, experiment=given, only=only, command=command)
