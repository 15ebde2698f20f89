"""The sections of a report: what each one needs, and who makes it."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from phrasescore.cli.report_inputs import Inputs, Model
from phrasescore.cli.report_sentences import chosen_sentences, drawn_texts
from phrasescore.cli.report_translations import differences, translations
from phrasescore.errors import ConfigError, DataError
from phrasescore.report.alignments import alignment_section
from phrasescore.report.blocks import Section
from phrasescore.report.experiment_results import experiment_section
from phrasescore.report.maps import Vectors, maps
from phrasescore.report.preferences import ModelScores, preferences
from phrasescore.report.representations import WITH_SUMMARY, text_vectors, word_vectors
from phrasescore.report.samples import ModelSamples, sample_section
from phrasescore.report.score_scatter import scatter
from phrasescore.report.soft_parses import soft_parse_section
from phrasescore.report.training_curves import training_section
from phrasescore.report.tuning_results import tuning_section

# Kinds that score phrase pairs; those whose look at a sentence is shown.
PHRASES = ("encoder-decoder",)
SENTENCES_SHOWN = ("attention", "grconv")


class Made(NamedTuple):
    """A section, or None."""

    section: Section | None
    # Why there is none, or what was left out of it.
    reasons: Sequence[str] = ()
    # What else is to be said.
    notes: Sequence[str] = ()


class Part(NamedTuple):
    """How a section is made."""

    key: str
    # Whether each thing that it needs is there, and what that is called.
    needs: Callable[[Inputs], list[tuple[object, str]]]
    make: Callable[[Inputs], Made]
    # The kinds of models that it is for; empty where it needs none.
    kinds: tuple[str, ...] = ()


# What each section needs


def _of_table(inputs: Inputs) -> list[tuple[object, str]]:
    return [(inputs.table, "TABLE")]


def _of_source(inputs: Inputs) -> list[tuple[object, str]]:
    return [(inputs.source, "--source")]


def _of_pairs(inputs: Inputs) -> list[tuple[object, str]]:
    given = inputs.references or inputs.systems
    name = "translations (--references, --translation or NBEST)"
    return [(inputs.source, "--source"), (given, name)]


def _of_systems(inputs: Inputs) -> list[tuple[object, str]]:
    name = "translations (--translation or NBEST)"
    return [(inputs.systems, name), (inputs.references, "--references")]


def _of_two_systems(inputs: Inputs) -> list[tuple[object, str]]:
    name = "translations by two systems (--translation or NBEST)"
    return [(len(inputs.systems) > 1, name), (inputs.references, "--references")]


def _of_models(inputs: Inputs) -> list[tuple[object, str]]:
    return [(inputs.models, "a --model")]


# How each section is made


def _make_preferences(inputs: Inputs) -> Made:
    data = inputs.table_data
    models = data.forward()
    if not models:
        problem = "needs a model of p(target | source), and each --model is a reverse one"
        return Made(None, [problem])
    choice, long = data.choice, inputs.settings.long
    pairs = [line.pair for found in (*choice.frequent, *choice.rare) for line in found.targets]
    if not pairs:
        problem = f"the table has no source phrase of {long} words or more and of 3 targets"
        return Made(None, [f"{problem} (--long takes shorter ones)"])
    scores = [
        ModelScores(model.name, dict(zip(pairs, data.score(model, pairs), strict=True)))
        for model in models
    ]
    return Made(preferences(choice.frequent, choice.rare, scores, models[0].column, long))


def _make_samples(inputs: Inputs) -> Made:
    data = inputs.table_data
    models, choice = data.forward(), data.choice
    sources = [found.source for found in (*choice.frequent, *choice.rare)]
    if not (models and sources):
        return Made(None, ["has the source phrases of preferences, which were left out"])
    drawn = [ModelSamples(model.name, data.draw(model, sources)) for model in models]
    return Made(sample_section(choice.frequent, choice.rare, drawn))


def _make_scores(inputs: Inputs) -> Made:
    data = inputs.table_data
    pairs = [line.pair for line in data.choice.pairs]
    scored = [(model.name, data.score(model, pairs), model.column) for model in data.models]
    return Made(scatter(data.choice.pairs, scored, data.choice.num_pairs))


def _make_words(inputs: Inputs) -> Made:
    sets: list[Vectors] = []
    for number, model in enumerate(inputs.models, start=1):
        count = inputs.settings.map_points
        sets += word_vectors(model.name, number, model.checkpoint, count)
    return Made(*maps("words", sets, inputs.settings.seed))


def _make_phrases(inputs: Inputs) -> Made:
    data = inputs.table_data
    models = data.forward()
    if not models:
        problem = "needs a model that reads the source, and each --model is a reverse one"
        return Made(None, [problem])
    phrases = data.choice.phrases
    if not phrases:
        long = inputs.settings.long
        problem = f"the table has no source phrase of {long} words or more"
        return Made(None, [f"{problem} (--long takes shorter ones)"])
    # A map labels its first points first: in the table's order they all begin with "a".
    phrases = random.Random(inputs.settings.seed).sample(phrases, len(phrases))
    sets = [
        text_vectors("phrases", model.name, number, model.checkpoint, phrases)
        for number, model in enumerate(models, start=1)
    ]
    return Made(*maps("phrases", sets, inputs.settings.seed))


def _summarized(inputs: Inputs) -> list[Model]:
    """Return the models that make one vector of a sentence; those of the table read phrases."""
    kinds = [kind for kind in WITH_SUMMARY if inputs.table is None or kind not in PHRASES]
    return inputs.of_kind(*kinds)


def _make_sentences(inputs: Inputs) -> Made:
    sets: list[Vectors] = []
    reasons: list[str] = []
    notes: list[str] = []
    for number, model in enumerate(_summarized(inputs), start=1):
        texts, reason, note = drawn_texts(inputs, model)
        reasons += reason
        notes += note
        if texts:
            found = text_vectors("sentences", model.name, number, model.checkpoint, texts)
            sets.append(found)
    section, problems = maps("sentences", sets, inputs.settings.seed)
    return Made(section, reasons + problems, notes)


def _make_alignments(inputs: Inputs) -> Made:
    models = inputs.of_kind("attention")
    chosen = chosen_sentences(inputs, models)
    found = [(model.name, model.checkpoint) for model in models]
    section = alignment_section(found, chosen.sentences, chosen.given)
    return Made(section, chosen.reasons, chosen.notes)


def _make_parses(inputs: Inputs) -> Made:
    models, reasons = [], []
    for model in inputs.of_kind("grconv"):
        if model.checkpoint.reverse and not (inputs.references or inputs.systems):
            reasons.append(f"{model.name} reads the other side: needs --references")
        else:
            models.append(model)
    chosen = chosen_sentences(inputs, models)
    found = [(model.name, model.checkpoint) for model in models]
    section = soft_parse_section(found, chosen.sentences)
    return Made(section, [*reasons, *chosen.reasons], chosen.notes)


def _make_training(inputs: Inputs) -> Made:
    return Made(training_section([(model.name, model.checkpoint) for model in inputs.models]))


def _make_tuning(inputs: Inputs) -> Made:
    assert inputs.tuning is not None
    path, values = inputs.tuning
    try:
        return Made(tuning_section(values))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"expected what tune --report wrote with --format json: {error!r}"
        raise DataError(path, None, problem) from error


def _make_experiment(inputs: Inputs) -> Made:
    assert inputs.experiment is not None
    path, values = inputs.experiment
    try:
        return Made(experiment_section(values))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"expected the table of an experiment: {error!r}"
        raise ConfigError(path, None, problem) from error


PARTS = (
    Part("translations", _of_systems, lambda inputs: Made(translations(inputs))),
    Part("differences", _of_two_systems, lambda inputs: Made(differences(inputs))),
    Part("experiment", lambda inputs: [(inputs.experiment, "--experiment")], _make_experiment),
    Part("tuning", lambda inputs: [(inputs.tuning, "--tuning-report")], _make_tuning),
    Part("preferences", _of_table, _make_preferences, PHRASES),
    Part("samples", _of_table, _make_samples, PHRASES),
    Part("scores", _of_table, _make_scores, PHRASES),
    Part("words", _of_models, _make_words),
    Part("phrases", _of_table, _make_phrases, PHRASES),
    Part("sentences", _of_source, _make_sentences, WITH_SUMMARY),
    Part("alignments", _of_pairs, _make_alignments, ("attention",)),
    Part("parses", _of_source, _make_parses, ("grconv",)),
    Part("training", _of_models, _make_training),
)
