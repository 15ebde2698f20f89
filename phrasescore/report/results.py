"""Sections about results: translations, an experiment's table, tuning and training."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.evaluation.comparison import SEED, TRIALS, Breakdown, Comparison
from phrasescore.evaluation.significance import SAMPLES
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Estimates, Intervals, Lines, Section, Series, Table
from phrasescore.report.tuning import TuneReport

_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

_TRANSLATIONS_LEAD = """\
BLEU is computed as in multi-bleu.perl, from 0 to 100: on the words in the files, without \
smoothing. Each group of sentences is scored as a separate corpus; BLEU is unreliable for a few \
sentences."""

_TESTS = (
    "p: the probability that such a difference from the first system occurs by chance (approximate "
    f"randomization over sentences, {TRIALS:,} trials, seed {SEED}). ±: half the width of the 95% "
    f"interval over {SAMPLES:,} bootstrap samples."
)

_BARS = (
    "Bars: the 95% interval over samples of a group's sentences, drawn with replacement. They are "
    "unreliable for a few sentences, and meaningless for a single one."
)

_TUNING_LEAD = """\
A feature's contribution is its weight times the standard deviation of its values among the \
hypotheses for a sentence: how much it affects model scores. Its share is this contribution \
divided by the sum of all contributions. "Without it" is the score on the tuning set with this \
weight set to 0 and the others unchanged, without tuning again."""

_TRAINING_LEAD = """\
Perplexity is exp of the mean of -ln p per predicted word; the </s> after each phrase or sentence \
counts as a word. A network with perplexity 100 is as uncertain as one that chooses among 100 \
words at random. The perplexity on held-out data is the one that matters. If it increases while \
the other decreases, the network is overfitting. Perplexities cannot be compared between models \
with different data or shortlists."""

# The values for a system on a text in table.toml, besides its score, and the suffixes of their
# column headings.
_FIGURES = {"deviation": " ±", "difference": ": difference", "p_value": ": p"}


def translation_section(
    comparison: Comparison, breakdowns: Sequence[Breakdown], seed: int
) -> Section:
    """Return a table of systems, and one figure per breakdown, with bootstrap intervals."""
    blocks: list[Table | Lines] = [_systems_table(comparison)]
    for number, breakdown in enumerate(breakdowns, start=1):
        blocks.append(_group_lines(comparison, breakdown, f"bleu-groups-{number}", seed))
    return Section("translations", "Translations", _TRANSLATIONS_LEAD, tuple(blocks))


def _systems_table(comparison: Comparison) -> Table:
    scores = comparison.scores
    if len(scores) == 1:
        (only,) = scores
        row = (only.name, _round(only.mean), round(only.length_ratio, 3))
        return Table("bleu", "BLEU", ("system", "BLEU", "length ratio"), (row,))
    columns = ("system", "BLEU", "± (95%)", "difference from the first", "p", "length ratio")
    rows = tuple(
        (
            *(score.name, _round(score.mean), _round(confidence), _round(score.difference)),
            *(score.p_value, round(score.length_ratio, 3)),
        )
        for score, confidence in zip(scores, comparison.confidences(), strict=True)
    )
    return Table("bleu", "BLEU", columns, rows, _TESTS)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _group_lines(comparison: Comparison, breakdown: Breakdown, name: str, seed: int) -> Lines:
    groups = comparison.score_groups(breakdown).groups
    labels = tuple(group.label for group in groups)
    sizes = ", ".join(f"{group.label}: {group.sentences:,}" for group in groups)
    scores = zip(*(group.bleu for group in groups), strict=True)
    spreads = zip(*comparison.group_spreads(breakdown, seed), strict=True)
    series = tuple(
        Series(system.name, labels, *curve)
        for system, *curve in zip(comparison.systems, scores, spreads, strict=True)
    )
    caption = f"Sentences in each group: {sizes}. {_BARS}"
    title = f"BLEU by {breakdown.title}"
    return Lines(name, title, breakdown.title, "BLEU", series, caption=caption)


def experiment_section(table: Mapping[str, Any]) -> Section:
    """Return a section with the scores in an experiment's ``table.toml``.

    :raises AttributeError, KeyError, TypeError, ValueError: if the table has another structure.
    """
    rows: list[Mapping[str, Any]] = list(table["row"])
    names = tuple(f"{row['name']}{' *' if row.get('remarks') else ''}" for row in rows)
    texts = list(
        dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, dict))
    )
    found = {key for row in rows for text in texts for key in row.get(text, {})}
    metric: TableMetric = "word_accuracy" if "word_accuracy" in found else "bleu"
    title, suffixes = METRIC_TITLES[metric], {metric: "", **_FIGURES}
    cells = tuple(
        (
            name,
            *(_figure(row, text, figure) for text in texts for figure in suffixes),
            ", ".join(map(str, row.get("rounds", ()))),
        )
        for name, row in zip(names, rows, strict=True)
    )
    figures = [f"{text}{ending}" for text in texts for ending in suffixes.values()]
    columns = ("system", *figures, "rounds")
    blocks: list[Table | Intervals] = [Table("experiment-table", title, columns, cells)]
    if texts:
        series = tuple(
            Estimates(text, tuple(_figure(row, text, metric) for row in rows)) for text in texts
        )
        blocks.append(Intervals("experiment-scores", title, title, names, series))
    notes = " ".join(str(note) for note in table.get("notes", ()))
    return Section("experiment", "Experiment", notes, tuple(blocks))


def _figure(row: Mapping[str, Any], text: str, figure: str) -> float | None:
    value = row.get(text, {}).get(figure)
    return None if value is None else round(float(value), 4 if figure == "p_value" else 2)


def tuning_section(report: TuneReport) -> Section:
    """Return a section with the tuned weights, and with contributions and ablations if computed."""
    metric = report.metric
    blocks: list[Table | Lines | Intervals] = [_weights_table(report)]
    measured = [row for row in report.features if row.share is not None]
    measured.sort(key=lambda row: -(row.share or 0.0))
    names = tuple(row.name for row in measured)
    shares = tuple(None if row.share is None else 100 * row.share for row in measured)
    if measured:
        blocks.append(
            Intervals(
                "tuning-shares",
                "What each feature moves",
                "share of all contributions (%)",
                names,
                (Estimates("share", shares),),
                bars=True,
                caption="The longer a bar, the more the feature decides between hypotheses.",
            )
        )
    losses = tuple(
        None if row.left_out is None else row.left_out - report.reached for row in measured
    )
    if any(loss is not None for loss in losses):
        blocks.append(
            Intervals(
                "tuning-ablations",
                f"{metric} without each feature",
                f"difference of {metric}",
                names,
                (Estimates("without it", losses),),
                signed=True,
                caption="The further to the left, the more is lost without the feature. To the "
                "right of zero, the weights are better without it.",
            )
        )
    if report.rounds:
        numbers = tuple(row.round for row in report.rounds)
        series = (Series(metric, numbers, tuple(row.score for row in report.rounds)),)
        title = "Rounds of decoding and tuning"
        caption = "Tuning has converged where the line is level."
        blocks.append(Lines("tuning-rounds", title, "round", metric, series, caption=caption))
    if report.replicas:
        rows = tuple(map(astuple, report.replicas))
        blocks.append(Table("tuning-seeds", "Seeds", ("seed", metric), rows))
    if report.cross_validation:
        columns = ("method", f"{metric} tuned on", "held out")
        rows = tuple(map(astuple, report.cross_validation))
        blocks.append(Table("tuning-methods", "Methods, by cross-validation", columns, rows))
    lead = (
        f"{report.method}, seed {report.seed}: {metric} {report.start:.2f} with the start weights, "
        f"{report.reached:.2f} with the new weights, on {report.sentences:,} sentences and "
        f"{report.hypotheses:,} hypotheses.\n\n{_TUNING_LEAD}"
    )
    return Section("tuning", "Weights", lead, tuple(blocks))


def _weights_table(report: TuneReport) -> Table:
    metric, reached = report.metric, report.reached
    two_sets = any(row.search is not None for row in report.features)
    columns = (
        *("feature", "weight before"),
        *(("search weight", "list weight") if two_sets else ("weight",)),
        *("contribution", "share (%)", f"{metric} without it", "difference"),
    )
    rows = tuple(
        (
            *(row.name, row.start),
            *((row.search,) if two_sets else ()),
            *(row.weight, row.contribution),
            None if row.share is None else round(100 * row.share, 2),
            _round(row.left_out),
            None if row.left_out is None else round(row.left_out - reached, 2),
        )
        for row in report.features
    )
    caption = f"{metric} {report.start:.2f} before, {reached:.2f} after."
    return Table("tuning-weights", "Weights", columns, rows, caption)


def training_section(models: Sequence[tuple[str, Checkpoint]]) -> Section:
    """Return the models' learning curves and a table of the models."""
    held_out = _curves(
        (name, [(one.update, one.validation_perplexity) for one in model.record.curve])
        for name, model in models
    )
    # exp of a diverged run's loss may overflow.
    seen = _curves(
        (
            name,
            [(one.update, math.exp(min(one.training_loss, 700.0))) for one in model.record.curve],
        )
        for name, model in models
        if model.record.fine_tuning is None  # its loss is not per word
    )
    blocks = [
        Lines(name, title, "updates", "perplexity", series, log_y=True, caption=hint + omitted)
        for name, title, hint, (series, omitted) in (
            (
                "training-held-out",
                "On held-out data",
                "The lower, the better. A line that rises again shows overfitting.",
                held_out,
            ),
            (
                "training-seen",
                "On the data of the updates",
                "A line that still falls while the one on held-out data rises shows overfitting.",
                seen,
            ),
        )
        if series
    ]
    columns = (
        *("model", "kind", "predicts", "weights", "reads (words)", "predicts (words)"),
        *("pairs", "updates", "minutes", "best update", "held-out perplexity there", "fingerprint"),
    )
    rows = tuple(_model_row(name, model) for name, model in models)
    table = Table("training-models", "The models", columns, rows)
    return Section("training", "Training", _TRAINING_LEAD, (*blocks, table))


def _curves(
    curves: Iterable[tuple[str, list[tuple[int, float | None]]]],
) -> tuple[tuple[Series, ...], str]:
    """Return a series for each model that has points, and a caption about omitted points."""
    series = []
    caption = ""
    for name, points in curves:
        known = [(float(x), y) for x, y in points if y is not None]
        drawn = [(x, y) for x, y in known if y <= _HIGHEST]
        if len(drawn) < len(known):
            caption = f" Points above {_HIGHEST:,} are left out."
        if drawn:
            series.append(Series(name, *zip(*drawn, strict=True)))
    return tuple(series), caption


def _model_row(name: str, checkpoint: Checkpoint) -> tuple[Cell, ...]:
    record = checkpoint.record
    best = next((one for one in record.curve if one.update == record.best_update), None)
    order = ", the last word first" if checkpoint.right_to_left else ""
    return (
        name,
        checkpoint.config.kind,
        f"{'source' if checkpoint.reverse else 'target'}{order}",
        checkpoint.num_parameters,
        len(checkpoint.source_vocabulary) - 2,
        len(checkpoint.target_vocabulary) - 2,
        record.training_pairs,
        record.updates,
        round(record.minutes, 1),
        record.best_update,
        None if best is None else best.validation_perplexity,
        checkpoint.fingerprint,
    )
