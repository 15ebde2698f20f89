"""The sections of a report; for each, the required inputs and the function that makes it."""

import os
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from phrasescore.devices import choose_device, usable_threads
from phrasescore.evaluation.systems_table import SystemsTable
from phrasescore.generation import sampling
from phrasescore.generation.generator import Generator
from phrasescore.records import PhrasePair
from phrasescore.report import SEED, sentences, systems
from phrasescore.report.blocks import Block, Section
from phrasescore.report.differences import difference_section
from phrasescore.report.maps import map_section, text_vectors, word_vectors
from phrasescore.report.phrases import (
    LONG,
    MAP_POINTS,
    SAMPLES,
    preference_section,
    score_section,
)
from phrasescore.report.sentences import SentencePair, Words
from phrasescore.report.training import training_section
from phrasescore.settings.kinds import kind_names
from phrasescore.workflows.load_model import ScoringModel
from phrasescore.workflows.report.inputs import NamedModel, ReportInputs


class MadeSection(NamedTuple):
    """A section, or None if it was left out, with reasons and notes."""

    section: Section | None
    reasons: Sequence[str] = ()  # why the section, or a part of it, was left out
    notes: Sequence[str] = ()  # notes for readers of the section


class SectionPlan(NamedTuple):
    """The function that makes a section, and the inputs that it requires."""

    make: Callable[[ReportInputs], MadeSection]
    needs: tuple[str, ...] = ()  # names of required inputs; see `missing_inputs`
    kind: str = ""  # the required property of a model's kind; empty if no such model is required
    is_map: bool = False  # whether the section needs the packages of the extra "report"


_ANY_TARGET = "--references or --translation"
_SYSTEM = "--translation"
_RESULTS = "--translation and --references, or --experiment"
_TWO_SYSTEMS = "two systems (--translation)"


def missing_inputs(plan: SectionPlan, inputs: ReportInputs) -> list[str]:
    """Return the names of the inputs that a section requires and that are missing."""
    is_present = {
        "TABLE": inputs.table is not None,
        "--source": inputs.source is not None,
        "--references": bool(inputs.references),
        _RESULTS: bool(inputs.systems and inputs.references) or inputs.experiment is not None,
        "--experiment": inputs.experiment is not None,
        "a --model": bool(inputs.models),
        _ANY_TARGET: bool(inputs.references or inputs.systems),
        _SYSTEM: bool(inputs.systems),
        _TWO_SYSTEMS: len(inputs.systems) > 1,
    }
    missing = [name for name in plan.needs if not is_present[name]]
    if plan.kind and not inputs.of_kind(plan.kind):
        missing.append(f"a --model of the kind {' or '.join(kind_names(**{plan.kind: True}))}")
    return missing


def read_results(inputs: ReportInputs) -> SystemsTable | None:
    """Return the table of the experiment or of the given translations, if there is one."""
    if inputs.experiment is not None:
        return inputs.experiment
    if not (inputs.systems and inputs.references):
        return None
    text = inputs.source or inputs.references[0]
    return systems.compared_table(inputs.comparison, os.path.basename(text.path))


def _make_results(inputs: ReportInputs) -> MadeSection:
    results = read_results(inputs)
    assert results is not None
    return MadeSection(systems.results_section(results))


def _make_differences(inputs: ReportInputs) -> MadeSection:
    section = difference_section(inputs.comparison)
    # The results say that systems are equal: only who asks for the section needs to be told.
    if section.blocks or "differences" not in inputs.only:
        return MadeSection(section)
    return MadeSection(None, ["all systems have the same matches with the references"])


def _make_groups(inputs: ReportInputs) -> MadeSection:
    comparison = inputs.comparison
    breakdowns = [comparison.by_length(side) for side in comparison.sides]
    return MadeSection(systems.groups_section(comparison, breakdowns))


def _make_tuning(inputs: ReportInputs) -> MadeSection:
    reports = inputs.tune_reports()
    if not reports:
        return MadeSection(None, ["the experiment has no tuned system yet"])
    blocks: list[Block] = [systems.weights_table(reports)]
    if calibrated := {name: each for name, each in reports.items() if each.reliability}:
        blocks.append(systems.reliability_figure(calibrated))
    return MadeSection(Section("tuning", "Weights", "", tuple(blocks)))


def _make_preferences(inputs: ReportInputs) -> MadeSection:
    choice, models = inputs.table_choice, inputs.phrase_models()
    if not models:
        problem = "needs a model of p(target | source), but every --model is a reverse model"
        return MadeSection(None, [problem])
    pairs = [line.pair for source in (*choice.frequent, *choice.rare) for line in source.targets]
    if not pairs:
        problem = f"the table has no source phrase with {LONG} words or more and 3 targets or more"
        return MadeSection(None, [problem])
    preferences = {
        model.name: dict(zip(pairs, _score(inputs, model, pairs), strict=True)) for model in models
    }
    column = inputs.table_column(models[0])
    sources = [source.source for source in (*choice.frequent, *choice.rare)]
    drawn = {model.name: _draw(inputs, model, sources) for model in models}
    return MadeSection(preference_section(choice, preferences, column, drawn))


def _make_scores(inputs: ReportInputs) -> MadeSection:
    choice = inputs.table_choice
    pairs = [line.pair for line in choice.pairs]
    scored = [
        (model.name, _score(inputs, model, pairs), inputs.table_column(model))
        for model in inputs.of_kind("scores_phrases")
    ]
    return MadeSection(score_section(choice.pairs, scored, choice.num_pairs))


def _score(inputs: ReportInputs, model: NamedModel, pairs: Sequence[PhrasePair]) -> list[float]:
    scorer = ScoringModel(model.checkpoint, model.name, inputs.compute, warns=False)
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    scores: list[float] = scorer.score(sources, targets).tolist()
    return scores


def _draw(
    inputs: ReportInputs, model: NamedModel, sources: Sequence[Words]
) -> list[list[sampling.CountedSample]]:
    torch.set_num_threads(usable_threads(inputs.compute.threads))
    generator = Generator([model.checkpoint], choose_device(inputs.compute.device))
    drawing = sampling.SampleSettings(SAMPLES, seed=SEED)
    drawn = sampling.sample_targets(generator, sources, drawing)
    return [
        sampling.count_samples([sample for sample in samples if sample.finished])
        for samples in drawn
    ]


def _make_words(inputs: ReportInputs) -> MadeSection:
    sets = [
        vectors
        for number, model in enumerate(inputs.models, start=1)
        for vectors in word_vectors(number, *model, MAP_POINTS)
    ]
    return MadeSection(*map_section("words", sets))


def _make_phrases(inputs: ReportInputs) -> MadeSection:
    models = inputs.phrase_models()
    if not models:
        problem = "needs a model that reads the source, but every --model is a reverse model"
        return MadeSection(None, [problem])
    phrases = inputs.table_choice.phrases
    if not phrases:
        problem = f"the table has no source phrase with {LONG} words or more"
        return MadeSection(None, [problem])
    # Shuffle, because the map labels the first points first, and these begin with the same words in
    # a sorted table.
    phrases = random.Random(SEED).sample(phrases, len(phrases))
    sets = [
        text_vectors("phrases", name, number, checkpoint, phrases)
        for number, (name, checkpoint) in enumerate(models, start=1)
    ]
    return MadeSection(*map_section("phrases", sets))


def _make_sentences(inputs: ReportInputs) -> MadeSection:
    assert inputs.source is not None
    # With a table, networks that score phrases are assumed to be trained on phrases only.
    models = [
        model
        for model in inputs.of_kind("has_source_vectors")
        if inputs.table is None or not model.checkpoint.config.network.scores_phrases
    ]
    sets, reasons, notes = [], [], []
    for number, (name, checkpoint) in enumerate(models, start=1):
        side = inputs.source
        if checkpoint.reverse:
            if not inputs.references:
                reasons.append(f"{name} reads the target side: needs --references")
                continue
            side = inputs.references[0]
        texts = sentences.draw_texts(side.words, MAP_POINTS)
        if not texts:
            reasons.append(f"{side.path}: all sentences are empty")
            continue
        notes += sentences.note_unknown_words(name, checkpoint, texts)
        sets.append(text_vectors("sentences", name, number, checkpoint, texts))
    section, problems = map_section("sentences", sets)
    return MadeSection(section, reasons + problems, notes)


def _make_alignments(inputs: ReportInputs) -> MadeSection:
    models = inputs.of_kind("aligns_words")
    pairs, reasons = _choose_sentences(inputs)
    origin = "the references" if inputs.references else f"by {inputs.systems[0].name}"
    section = sentences.alignment_section(models, pairs, origin)
    return MadeSection(section, reasons, _notes(models, pairs))


def _make_parses(inputs: ReportInputs) -> MadeSection:
    models, reasons = [], []
    for model in inputs.of_kind("parses_source"):
        if model.checkpoint.reverse and not (inputs.references or inputs.systems):
            reasons.append(f"{model.name} reads the target side: needs --references")
        else:
            models.append(model)
    pairs, problems = _choose_sentences(inputs)
    section = sentences.soft_parse_section(models, pairs)
    return MadeSection(section, reasons + problems, _notes(models, pairs))


def _choose_sentences(inputs: ReportInputs) -> tuple[list[SentencePair], list[str]]:
    """Return random sentences to show, and the reason if there are none.

    Their translations are taken from the references or from the first system, or are empty.
    """
    assert inputs.source is not None
    source = inputs.source.words
    targets = [*inputs.references, *(system.text for system in inputs.systems)]
    sides: list[Sequence[Words]] = [source, *(text.words for text in targets[:1])]
    numbers = sentences.draw_sentences(sides)
    reasons = [] if numbers else ["all sentences or their translations are empty"]
    target = sides[1] if targets else [()] * len(source)
    return [SentencePair(at + 1, source[at], target[at]) for at in numbers], reasons


def _notes(models: Sequence[NamedModel], pairs: Sequence[SentencePair]) -> list[str]:
    notes = []
    for name, checkpoint in models:
        read = [pair.target if checkpoint.reverse else pair.source for pair in pairs]
        notes += sentences.note_unknown_words(name, checkpoint, read)
    return notes


# Section key -> plan, in the order of `phrasescore.settings.evaluation.SECTIONS`.
SECTION_PLANS = {
    "results": SectionPlan(_make_results, (_RESULTS,)),
    "differences": SectionPlan(_make_differences, (_TWO_SYSTEMS, "--references")),
    "groups": SectionPlan(_make_groups, (_SYSTEM, "--references")),
    "tuning": SectionPlan(_make_tuning, ("--experiment",)),
    "preferences": SectionPlan(_make_preferences, ("TABLE",), "scores_phrases"),
    "scores": SectionPlan(_make_scores, ("TABLE",), "scores_phrases"),
    "words": SectionPlan(_make_words, ("a --model",), is_map=True),
    "phrases": SectionPlan(_make_phrases, ("TABLE",), "scores_phrases", is_map=True),
    "sentences": SectionPlan(_make_sentences, ("--source",), "has_source_vectors", is_map=True),
    "alignments": SectionPlan(_make_alignments, ("--source", _ANY_TARGET), "aligns_words"),
    "parses": SectionPlan(_make_parses, ("--source",), "parses_source"),
    "training": SectionPlan(
        lambda inputs: MadeSection(training_section(inputs.models)), ("a --model",)
    ),
}
