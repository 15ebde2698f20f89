"""Sections about a phrase table: selected pairs, with scores and samples from networks.

Cho et al. (2014), section 4.3, figure 3 and tables 2 and 3.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from scipy.stats import rankdata

from phrasescore.devices import choose_device, usable_threads
from phrasescore.engines import callers
from phrasescore.features.model import Network
from phrasescore.features.request import ScoringRequest
from phrasescore.generation import sampling
from phrasescore.generation.generator import Generator
from phrasescore.generation.sampling import CountedSample
from phrasescore.records import PhrasePair, group_pairs
from phrasescore.report import SEED
from phrasescore.report.blocks import Cell, Points, Section, Table, shown
from phrasescore.report.inputs import (
    LONG,
    MIN_TARGETS,
    MadeSection,
    NamedModel,
    ReportInputs,
    TableChoice,
    TablePair,
    needs,
)
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring

# Number of targets to list per source phrase: preferred targets, and samples.
TOP_TARGETS, TOP_SAMPLES = 3, 5
SAMPLES = 50  # number of targets to draw from a network per source phrase
_LOWEST = -100.0  # the value at which Moses floors logarithms (LOWEST_SCORE in moses/TypeDef.h)

_SCORES_LEAD = """\
Each point is a phrase pair, drawn at random from the whole table. Both scores are natural \
logarithms of p(target | source), or of p(source | target) for a network that predicts the source; \
on the diagonal they agree. A network spreads its probability over all possible texts, the table \
only over the targets that it has, so most points are below the diagonal.

Pairs that were extracted once form columns: the table's p is 1/n if the source phrase was \
extracted n times. The network was deliberately trained without these counts."""


_PREFERENCES_LEAD = """\
For each selected source phrase, the targets with the highest p(target | source) in the table, \
best first, next to the targets with the highest p according to a network. The network chooses \
among the targets in the table. Its probabilities are for a whole phrase including </s>, and need \
not sum to one over the table's targets.

The table counts occurrences, so it is reliable for frequent phrases. For rare phrases it has \
little evidence, and their best targets often result from wrong word alignments.

The network also draws targets word by word. Of 50 samples, the five targets with the highest \
log-probabilities are shown, with the number of times that each was drawn, ln p, and "new" if the \
table does not have the target. Samples without </s> after twice the number of source words plus \
10 are left out."""


@needs("TABLE", kind="scores_phrases")
def preferences(inputs: ReportInputs) -> MadeSection:
    """Return tables with the targets that the phrase table and each model prefer."""
    choice, models = inputs.table_choice, inputs.phrase_models()
    if not models:
        problem = "needs a model of p(target | source), but every --model is a reverse model"
        return MadeSection(None, [problem])
    pairs = [line.pair for source in (*choice.frequent, *choice.rare) for line in source.targets]
    if not pairs:
        problem = f"the table has no source phrase with {LONG} words or more and 3 targets or more"
        return MadeSection(None, [problem])
    preferred = {
        model.name: dict(zip(pairs, _score(inputs, model, pairs), strict=True)) for model in models
    }
    sources = [source.source for source in (*choice.frequent, *choice.rare)]
    drawn = {model.name: _draw(inputs, model, sources) for model in models}
    return MadeSection(preference_section(choice, preferred, models[0].column, drawn))


@needs("TABLE", kind="scores_phrases")
def scores(inputs: ReportInputs) -> MadeSection:
    """Return a plot per model of its scores against the table's."""
    choice = inputs.table_choice
    pairs = [line.pair for line in choice.pairs]
    scored = [
        (model.name, _score(inputs, model, pairs), model.column)
        for model in inputs.of_kind("scores_phrases")
    ]
    return MadeSection(score_section(choice.pairs, scored, choice.num_pairs))


def _score(inputs: ReportInputs, model: NamedModel, pairs: Sequence[PhrasePair]) -> list[float]:
    engine = Compute(workers=callers(inputs.compute.on_workers()))
    device = str(choose_device(inputs.compute.device))
    request = ScoringRequest(
        (Network(model.name),), (model.checkpoint,), device, callers=callers(engine)
    )
    with Scoring(request, engine, unit="pair") as scoring:
        scored = scoring.score_lines(group_pairs(iter(pairs)))
        return [float(value) for _, values in scored for value in values[0]]


def _draw(
    inputs: ReportInputs, model: NamedModel, sources: Sequence[tuple[str, ...]]
) -> list[list[CountedSample]]:
    torch.set_num_threads(usable_threads(inputs.compute.threads))
    generator = Generator([model.checkpoint], choose_device(inputs.compute.device))
    drawing = sampling.SampleSettings(SAMPLES, seed=SEED)
    drawn = sampling.sample_targets(generator, sources, drawing)
    return [
        sampling.count_samples([sample for sample in samples if sample.finished])
        for samples in drawn
    ]


def score_section(
    pairs: Sequence[TablePair], models: Sequence[tuple[str, Sequence[float], int]], num_pairs: int
) -> Section:
    """Return a plot per model.

    :param models: for each model, its name, its log-probabilities for the pairs, and the 0-based
        index of the table score for the same probability.
    """
    labels = tuple(f"{shown(pair.source)} → {shown(pair.target)}" for pair, _, _ in pairs)
    groups = tuple(_group(pair.times) for pair in pairs)
    blocks = []
    for number, (name, scores, column) in enumerate(models, start=1):
        probabilities = [pair.scores[column] for pair in pairs]
        table = [max(math.log(p), _LOWEST) if p > 0 else _LOWEST for p in probabilities]
        caption = (
            f"Points above the diagonal are pairs that {name} finds more probable than the table. "
            f"{len(pairs):,} of {num_pairs:,} pairs. {_correlations(table, scores)}"
        )
        blocks.append(
            Points(
                name=f"scores-{number}",
                title=f"Scores from {name} and from the table",
                x_label=f"ln p of the table (score {column + 1})",
                y_label=f"ln p of {name}",
                x=tuple(table),
                y=tuple(scores),
                labels=labels,
                groups=groups,
                caption=caption,
            )
        )
    return Section("scores", "Network scores against table scores", _SCORES_LEAD, tuple(blocks))


def _group(times: float) -> str:
    if times >= 10:
        return "extracted 10 times or more"
    return "extracted 2 to 9 times" if times >= 2 else "extracted once"


def _correlations(table: Sequence[float], scores: Sequence[float]) -> str:
    """Describe both correlation coefficients in a sentence; empty if they are undefined."""
    if len(table) < 3 or len(set(table)) == 1 or len(set(scores)) == 1:
        return ""
    pearson = np.corrcoef(table, scores)[0, 1]
    spearman = np.corrcoef(rankdata(table), rankdata(scores))[0, 1]
    return f"Correlation {pearson:.2f} (Pearson), {spearman:.2f} of their ranks (Spearman)."


def preference_section(
    choice: TableChoice,
    models: Mapping[str, Mapping[PhrasePair, float]],
    column: int,
    drawn: Mapping[str, Sequence[Sequence[CountedSample]]],
) -> Section:
    """Return tables with the preferred targets for frequent and for rare source phrases.

    :param models: each model's log p(target | source), including ``</s>``, for all their targets.
    :param column: 0-based index of p(target | source) among the table's scores.
    :param drawn: each model's samples for each source phrase, the frequent ones first.
    """
    samples = [iter(of_model) for of_model in drawn.values()]
    kind = f"with {LONG} words or more and {MIN_TARGETS} targets or more"
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{name} prefers" for name in models]
    columns += [f"{name} draws" for name in drawn]
    blocks = []
    for name, sources, caption in (
        ("frequent", choice.frequent, f"The most frequent phrases {kind}, without their parts."),
        ("rare", choice.rare, f"Drawn from the phrases {kind} whose pairs were extracted once."),
    ):
        rows: list[tuple[Cell, ...]] = []
        for source in sources:
            by_table = {target.pair: target.scores[column] for target in source.targets}
            cells = [_best(by_table)]
            for log_probs in models.values():
                cells.append(_best({pair: math.exp(log_probs[pair]) for pair in by_table}))
            known = {target.pair.target for target in source.targets}
            for of_model in samples:
                best = next(of_model)[:TOP_SAMPLES]
                cells.append("\n".join(_describe(sample, known) for sample in best))
            counts = (_count(source.times), len(source.targets))
            rows.append((shown(source.source), *counts, *cells))
        title = f"Long, {name} source phrases"
        if rows:
            blocks.append(Table(f"preferences-{name}", title, tuple(columns), tuple(rows), caption))
    return Section(
        "preferences", "What the table and the network prefer", _PREFERENCES_LEAD, tuple(blocks)
    )


def _best(probabilities: Mapping[PhrasePair, float]) -> str:
    """Format the best targets, one per line; ties are in the order of the table."""
    best = sorted(probabilities.items(), key=lambda entry: -entry[1])[:TOP_TARGETS]
    shares = (f"{p:.3f}" if p >= 0.0005 else "< 0.001" for _, p in best)
    targets = (shown(pair.target) for pair, _ in best)
    return "\n".join(f"{target} ({share})" for target, share in zip(targets, shares, strict=True))


def _describe(sample: CountedSample, known: Collection[tuple[str, ...]]) -> str:
    target = sample.target
    new = "" if target.words in known else ", new"
    return f"{shown(target.words)} (× {sample.times}, {target.log_prob:.2f}{new})"


def _count(number: float) -> int | float:
    return int(number) if number.is_integer() else number
