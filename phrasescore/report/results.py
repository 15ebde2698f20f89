"""Sections about the sentences in which systems differ, tuning and training."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple

from phrasescore.evaluation.comparison import Comparison
from phrasescore.evaluation.sentences import Sentences
from phrasescore.evaluation.significance import p_value_text
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report.blocks import Cell, Lines, Points, Section, Series, Table, shown
from phrasescore.report.tuning import TuneReport

TOP = 25  # number of sentences to list with the largest gains, and with the largest losses
_HIGHEST = 1_000_000  # higher perplexities, from diverged or new runs, are not drawn

_DIFFERENCES_LEAD = """\
The sentences where two systems differ most, by smoothed sentence BLEU: one is added to the \
matching and to all n-grams for n from 2 to 4 (Lin and Och, 2004). A translation without a \
matching word scores 0. Sentence BLEU helps to choose what to read, but it is not a reliable \
measure of a single translation."""

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


def difference_section(comparison: Comparison) -> Section:
    """Return a section with the sentences in which each system differs most from the first one."""
    first, *others = comparison.sentence_scores()
    blocks: list[Table | Points] = []
    for index, other in enumerate(others, start=1):
        blocks.append(_scatter(comparison, index, first, other))
        blocks += _most_different(comparison, index, first, other)
    return Section("differences", "Where systems differ", _DIFFERENCES_LEAD, tuple(blocks))


def _scatter(
    comparison: Comparison, index: int, first: Sequence[float], other: Sequence[float]
) -> Points:
    """Return a scatter plot of sentence scores, with the first system on one axis."""
    pairs = list(zip(first, other, strict=True))
    better = sum(after > before for before, after in pairs)
    worse = sum(after < before for before, after in pairs)
    baseline, system = comparison.scores[0], comparison.scores[index]
    assert system.p_value is not None
    texts = _plain_lines(comparison.source or comparison.references[0])
    return Points(
        name=f"differences-{index}-sentences",
        title=f"{system.name} against {baseline.name}, sentence by sentence",
        x_label=f"sentence BLEU of {baseline.name}",
        y_label=f"sentence BLEU of {system.name}",
        x=tuple(round(value, 2) for value in first),
        y=tuple(round(value, 2) for value in other),
        labels=tuple(f"{number:,}: {text}" for number, text in enumerate(texts, start=1)),
        equal=True,
        caption=f"{system.name} is better in {better:,} sentences, worse in {worse:,}, and as good "
        f"in {len(first) - better - worse:,}. For BLEU on the whole text, "
        f"{p_value_text(system.p_value)}.",
    )


def _most_different(
    comparison: Comparison, index: int, first: Sequence[float], other: Sequence[float]
) -> list[Table]:
    baseline, system = comparison.systems[0], comparison.systems[index]
    gains = [after - before for before, after in zip(first, other, strict=True)]
    sides = [*comparison.sides.items(), (baseline.name, baseline.text), (system.name, system.text)]
    columns = ("sentence", "gain", *(name for name, _ in sides))
    texts = [_plain_lines(text) for _, text in sides]
    # sorted() is stable: of equal gains the earlier sentence comes first.
    better = sorted((at for at, gain in enumerate(gains) if gain > 0), key=lambda at: -gains[at])
    worse = sorted((at for at, gain in enumerate(gains) if gain < 0), key=lambda at: gains[at])
    caption = (
        f"At most {TOP} sentences. The gain is the sentence BLEU of {system.name} minus the "
        f"sentence BLEU of {baseline.name}."
    )
    tables = []
    for end, order in (("better", better), ("worse", worse)):
        rows: list[tuple[Cell, ...]] = [
            (at + 1, round(gains[at], 2), *(lines[at] for lines in texts)) for at in order[:TOP]
        ]
        if rows:
            title = f"Where {system.name} is {end} than {baseline.name}"
            name = f"differences-{index}-{end}"
            tables.append(Table(name, title, columns, tuple(rows), caption))
    return tables


def _plain_lines(text: Sentences) -> list[str]:
    return [shown(words) for words in text.words]


def tuning_section(report: TuneReport) -> Section:
    """Return a section with the tuned weights, and with contributions and ablations if computed."""
    metric = report.metric
    blocks: list[Table | Lines] = [_weights_table(report)]
    measured = [(row, row.share) for row in report.features if row.share is not None]
    names = tuple(row.name for row, _ in measured)
    if measured:
        shares = Series("share", names, tuple(100 * share for _, share in measured))
        title = "What each feature moves"
        blocks.append(Lines("tuning-shares", title, "feature", "share (%)", (shares,), bars=True))
    losses = tuple(
        None if row.left_out is None else row.left_out - report.reached for row, _ in measured
    )
    if any(loss is not None for loss in losses):
        series = (Series("without it", names, losses),)
        title, y_label = f"{metric} without each feature", f"difference of {metric}"
        blocks.append(Lines("tuning-ablations", title, "feature", y_label, series, bars=True))
    if report.rounds:
        numbers = tuple(float(row.round) for row in report.rounds)
        series = (Series(metric, numbers, tuple(row.score for row in report.rounds)),)
        title = "Rounds of decoding and tuning"
        blocks.append(Lines("tuning-rounds", title, "round", metric, series))
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


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


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
        Lines(name, title, "updates", "perplexity", series, log_y=True, caption=caption)
        for name, title, (series, caption) in (
            ("training-held-out", "On held-out data", held_out),
            ("training-seen", "On the data of the updates", seen),
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
            caption = f"Points above {_HIGHEST:,} are left out."
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
