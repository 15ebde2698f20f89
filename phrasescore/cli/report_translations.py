"""How good the systems of a report are, and where they differ."""

from collections.abc import Sequence

from phrasescore.cli.report_inputs import Inputs
from phrasescore.cli.report_systems import SAMPLES, TRIALS, bootstrap_spread
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.evaluation.breakdowns import (
    Breakdown,
    count_unknown,
    group_by_length,
    group_by_unknown_words,
)
from phrasescore.report.blocks import Section
from phrasescore.report.shown_text import shown
from phrasescore.report.translation_scores import (
    GroupScores,
    Texts,
    difference_section,
    translation_section,
)
from phrasescore.workflows.evaluate import score_breakdowns
from tuning.bleu import sentence_bleu

# Lengths that share a group.
_WIDTH = 10


def translations(inputs: Inputs) -> Section:
    """Return the section of BLEU: of the systems, by length and by unknown words."""
    systems = [system.sentences for system in inputs.systems]
    metric, statistics, scores = inputs.measured
    breakdowns = _groups(inputs)
    found = score_breakdowns(metric, systems, breakdowns)
    groups = [
        GroupScores(
            breakdown.title,
            [row.label for row in breakdown.groups],
            [row.sentences for row in breakdown.groups],
            _by_system([row.bleu for row in breakdown.groups]),
            _by_system(
                [
                    bootstrap_spread(metric, statistics[:, group.members], inputs.settings.seed)
                    for group in members.groups
                ]
            ),
        )
        for members, breakdown in zip(breakdowns, found, strict=True)
    ]
    return translation_section(scores, groups, _tests(inputs))


def _by_system(groups: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(line) for line in zip(*groups, strict=True)]


def differences(inputs: Inputs) -> Section:
    """Return the section of where systems differ, sentence by sentence."""
    scores = 100 * sentence_bleu(inputs.measured.statistics)
    texts = Texts(
        None if inputs.source is None else list(map(shown, inputs.source.words)),
        list(map(shown, inputs.references[0].words)),
        [list(map(shown, system.sentences.words)) for system in inputs.systems],
    )
    return difference_section(inputs.measured.scores, scores.tolist(), texts)


def _tests(inputs: Inputs) -> str:
    if len(inputs.systems) == 1:
        return ""
    return (
        "p: how often chance alone makes such a difference from the first system: by approximate "
        f"randomization over sentences ({TRIALS:,} trials), and by sacrebleu's paired bootstrap "
        f"({SAMPLES:,} samples, whose 95% are the ±); seed {inputs.settings.seed}."
    )


def _groups(inputs: Inputs) -> list[Breakdown]:
    """Return sentences by length, and by the words that the first model does not know."""
    sides: list[tuple[str, Sequence[Sequence[str]]]] = []
    if inputs.source is not None:
        sides.append(("source", inputs.source.words))
    sides.append(("reference", inputs.references[0].words))
    found = [
        group_by_length(side, [len(words) for words in lines], _WIDTH) for side, lines in sides
    ]
    for side, lines in sides:
        for model in inputs.models[:1]:
            if side == "source" and model.kind in LANGUAGE_MODELS:
                continue
            of_side = {
                "source": model.checkpoint.table_source_vocabulary,
                "reference": model.checkpoint.table_target_vocabulary,
            }
            found += group_by_unknown_words(
                f"{side}, to {model.name}", count_unknown(of_side[side], lines)
            )
    return found
