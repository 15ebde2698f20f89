"""How good the systems of a report are, and where they differ."""

from collections.abc import Sequence

import numpy as np

from phrasescore.analysis.breakdowns import (
    Breakdown,
    by_length,
    by_unknown_words,
    count_unknown,
)
from phrasescore.analysis.metrics import build_metric, compare
from phrasescore.analysis.report_blocks import Section
from phrasescore.analysis.shown_text import shown
from phrasescore.analysis.translation_scores import (
    GroupScores,
    SystemScore,
    Texts,
    difference_section,
    translation_section,
)
from phrasescore.cli.evaluate_figures import of_breakdowns
from phrasescore.cli.report_inputs import Inputs
from phrasescore.settings import LANGUAGE_MODELS
from tuning.bleu import Bleu, BleuScore, Statistics, sentence_bleu
from tuning.significance import randomization_p_value

# Draws of approximate randomization, and samples of the bootstrap.
_TRIALS, _SAMPLES = 10_000, 1000
# Lengths that share a group.
_WIDTH = 10


def translations(inputs: Inputs) -> Section:
    """Return the section of BLEU: of the systems, by length and by unknown words."""
    metric = _metric(inputs)
    found = of_breakdowns(metric, [system.sentences for system in inputs.systems], _groups(inputs))
    groups = [
        GroupScores(
            breakdown.title,
            [row.label for row in breakdown.rows],
            [row.sentences for row in breakdown.rows],
            [list(line) for line in zip(*(row.bleu for row in breakdown.rows), strict=True)],
        )
        for breakdown in found
    ]
    return translation_section(system_scores(inputs), groups, _tests(inputs))


def differences(inputs: Inputs) -> Section:
    """Return the section of where systems differ, sentence by sentence."""
    scores = 100 * sentence_bleu(_statistics(inputs, _metric(inputs)))
    texts = Texts(
        None if inputs.source is None else list(map(shown, inputs.source.words)),
        list(map(shown, inputs.references[0].words)),
        [list(map(shown, system.sentences.words)) for system in inputs.systems],
    )
    return difference_section(system_scores(inputs), scores.tolist(), texts)


def _metric(inputs: Inputs) -> Bleu:
    return Bleu([references.words for references in inputs.references])


def _statistics(inputs: Inputs, metric: Bleu) -> Statistics:
    """Return BLEU's statistics, ``(systems, sentences, statistics)``."""
    segments = range(metric.num_segments)
    return np.array(
        [metric.statistics(system.sentences.words, segments) for system in inputs.systems]
    )


def system_scores(inputs: Inputs) -> list[SystemScore]:
    """Return each system's BLEU, and how it differs from the first one's."""
    metric = _metric(inputs)
    statistics = _statistics(inputs, metric)
    whole = [BleuScore.of(sums) for sums in statistics.sum(axis=1)]
    found = [
        SystemScore(
            system.name,
            100 * score.bleu,
            score.length / score.reference_length if score.reference_length else 0.0,
        )
        for system, score in zip(inputs.systems, whole, strict=True)
    ]
    if len(found) == 1:
        return found
    seed = inputs.settings.seed
    texts = [references.texts for references in inputs.references]
    (bootstrap,) = compare(
        [build_metric("bleu", texts, "none")],
        [system.sentences.texts for system in inputs.systems],
        "bootstrap",
        _SAMPLES,
        seed,
    )
    for place, drawn in enumerate(bootstrap.systems):
        found[place] = found[place]._replace(bootstrap=drawn.p_value, confidence=drawn.confidence)
        if place:
            p_value = randomization_p_value(
                metric, statistics[:1], statistics[place : place + 1], trials=_TRIALS, seed=seed
            )
            found[place] = found[place]._replace(randomization=p_value)
    return found


def _tests(inputs: Inputs) -> str:
    if len(inputs.systems) == 1:
        return ""
    return (
        "p: how often chance alone makes such a difference from the first system: by approximate "
        f"randomization over sentences ({_TRIALS:,} trials), and by sacrebleu's paired bootstrap "
        f"({_SAMPLES:,} samples, whose 95% are the ±); seed {inputs.settings.seed}."
    )


def _groups(inputs: Inputs) -> list[Breakdown]:
    """Return sentences by length, and by the words that the first model does not know."""
    sides: list[tuple[str, Sequence[Sequence[str]]]] = []
    if inputs.source is not None:
        sides.append(("source", inputs.source.words))
    sides.append(("reference", inputs.references[0].words))
    found = [by_length(side, [len(words) for words in lines], _WIDTH) for side, lines in sides]
    for side, lines in sides:
        for model in inputs.models[:1]:
            if side == "source" and model.kind in LANGUAGE_MODELS:
                continue
            of_side = {
                "source": model.checkpoint.table_source_vocabulary,
                "reference": model.checkpoint.table_target_vocabulary,
            }
            found += by_unknown_words(
                f"{side}, to {model.name}", count_unknown(of_side[side], lines)
            )
    return found
