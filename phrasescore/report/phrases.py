"""Sections about a phrase table: selected pairs, with scores and samples from networks.

Cho et al. (2014), section 4.3, figure 3 and tables 2 and 3.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import torch

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


def preferences(inputs: ReportInputs) -> MadeSection:
    """Return tables with the targets that the phrase table and each model prefer and draw.

    One table is for frequent source phrases, and one for rare ones.
    """
    choice, models = inputs.table_choice, inputs.phrase_models()
    if not models:
        problem = "needs a model of p(target | source), but every --model is a reverse model"
        return MadeSection(None, [problem])
    phrases = [*choice.frequent, *choice.rare]
    if not phrases:
        problem = f"the table has no source phrase with {LONG} words or more and 3 targets or more"
        return MadeSection(None, [problem])
    pairs = [line.pair for phrase in phrases for line in phrase.targets]
    log_probs = [dict(zip(pairs, _score(inputs, each, pairs), strict=True)) for each in models]
    sources = [phrase.source for phrase in phrases]
    samples = [iter(_draw(inputs, model, sources)) for model in models]
    kind = f"with {LONG} words or more and {MIN_TARGETS} targets or more"
    columns = ["source phrase", "times extracted", "targets", "the table prefers"]
    columns += [f"{model.name} prefers" for model in models]
    columns += [f"{model.name} draws" for model in models]
    blocks = []
    for name, chosen, caption in (
        ("frequent", choice.frequent, f"The most frequent phrases {kind}, without their parts."),
        ("rare", choice.rare, f"Drawn from the phrases {kind} whose pairs were extracted once."),
    ):
        rows: list[tuple[Cell, ...]] = []
        for phrase in chosen:
            by_table = {line.pair: line.scores[models[0].column] for line in phrase.targets}
            cells = [_best(by_table)]
            for known in log_probs:
                cells.append(_best({pair: math.exp(known[pair]) for pair in by_table}))
            targets = {pair.target for pair in by_table}
            for drawn in samples:
                best = next(drawn)[:TOP_SAMPLES]
                cells.append("\n".join(_describe(sample, targets) for sample in best))
            counts = (_count(phrase.times), len(phrase.targets))
            rows.append((shown(phrase.source), *counts, *cells))
        title = f"Long, {name} source phrases"
        if rows:
            blocks.append(Table(f"preferences-{name}", title, tuple(columns), tuple(rows), caption))
    title = "What the table and the network prefer"
    return MadeSection(Section("preferences", title, _PREFERENCES_LEAD, tuple(blocks)))


def scores(inputs: ReportInputs) -> MadeSection:
    """Return a plot per model of its scores against the table's."""
    choice = inputs.table_choice
    pairs = [line.pair for line in choice.pairs]
    labels = tuple(f"{shown(pair.source)} → {shown(pair.target)}" for pair in pairs)
    groups = tuple(_group(line.times) for line in choice.pairs)
    blocks = []
    for number, model in enumerate(inputs.of_kind("scores_phrases"), start=1):
        name, log_probs = model.name, _score(inputs, model, pairs)
        probabilities = [line.scores[model.column] for line in choice.pairs]
        table = [max(math.log(p), _LOWEST) if p > 0 else _LOWEST for p in probabilities]
        caption = (
            f"Points above the diagonal are pairs that {name} finds more probable than the table. "
            f"{len(pairs):,} of {choice.num_pairs:,} pairs."
        )
        points = Points(
            name=f"scores-{number}",
            title=f"Scores from {name} and from the table",
            x_label=f"ln p of the table (score {model.column + 1})",
            y_label=f"ln p of {name}",
            x=tuple(table),
            y=tuple(log_probs),
            labels=labels,
            groups=groups,
            caption=caption,
        )
        blocks.append(points)
    title = "Network scores against table scores"
    return MadeSection(Section("scores", title, _SCORES_LEAD, tuple(blocks)))


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


def _group(times: float) -> str:
    if times >= 10:
        return "extracted 10 times or more"
    return "extracted 2 to 9 times" if times >= 2 else "extracted once"


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
