"""The sentences that a report shows: drawn, or named by their lines."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.cli.report_inputs import Inputs, Model
from phrasescore.errors import DataError
from phrasescore.evaluation.sentences import Sentences
from phrasescore.report.alignments import SentencePair

# Words of a sentence whose picture can be read; others are drawn only where there are too few.
_READABLE = range(5, 26)

_Words = tuple[str, ...]


class Chosen(NamedTuple):
    """Sentences to show."""

    sentences: list[SentencePair]
    # What their translations are, in a few words.
    given: str
    # What was left out, and what else is to be said.
    reasons: list[str]
    notes: list[str]


def chosen_sentences(inputs: Inputs, models: Sequence[Model]) -> Chosen:
    """Return the sentences to show, with the reference or else the first system's translation.

    :param models: that will read or predict them.
    :raises DataError: if a line was named that the source does not have.
    """
    assert inputs.source is not None
    source = inputs.source.words
    target: Sequence[_Words] = [()] * len(source)
    given = "not given"
    if inputs.references:
        target, given = inputs.references[0].words, "the references"
    elif inputs.systems:
        system = inputs.systems[0]
        target, given = system.sentences.words, f"those of {system.name}"
    sides = [source, target] if inputs.references or inputs.systems else [source]
    if inputs.settings.lines is None:
        numbers = _draw(sides, inputs.settings.sentences, inputs.settings.seed)
        reasons = [] if numbers else ["each sentence is empty, or its translation is"]
    else:
        numbers, reasons = _named(inputs, sides)
    pairs = [SentencePair(number + 1, source[number], target[number]) for number in numbers]
    return Chosen(pairs, given, reasons, _notes(models, pairs))


def _named(inputs: Inputs, sides: Sequence[Sequence[_Words]]) -> tuple[list[int], list[str]]:
    """Return the lines that were named, counted from 0, and what is said of the empty ones."""
    assert inputs.source is not None
    assert inputs.settings.lines is not None
    numbers, reasons = [], []
    check_lines(inputs.source, inputs.settings.lines)
    for line in inputs.settings.lines:
        if all(side[line - 1] for side in sides):
            numbers.append(line - 1)
        else:
            reasons.append(f"line {line:,}: the sentence is empty, or its translation is")
    return numbers, reasons


def check_lines(source: Sentences, lines: Sequence[int]) -> None:
    """Check that the source has the lines that were named, counted from 1.

    :raises DataError: if it lacks one.
    """
    for line in lines:
        if line > len(source.texts):
            problem = f"--lines: expected a line of the file, which has {len(source.texts):,}"
            raise DataError(source.path, None, f"{problem}, got {line}")


def _draw(sides: Sequence[Sequence[_Words]], count: int, seed: int) -> list[int]:
    """Return sentences of which no side is empty, counted from 0, in their order."""
    usable = [number for number, words in enumerate(zip(*sides, strict=True)) if all(words)]
    readable = [
        number for number in usable if all(len(side[number]) in _READABLE for side in sides)
    ]
    numbers = random.Random(f"{seed} sentences")
    if len(readable) >= count:
        return sorted(numbers.sample(readable, count))
    return sorted(numbers.sample(usable, min(count, len(usable))))


def _notes(models: Sequence[Model], pairs: Sequence[SentencePair]) -> list[str]:
    """Return which sentences are longer than a model was trained on, and who knows few words."""
    notes = []
    for model in models:
        sides = [pair.target if model.checkpoint.reverse else pair.source for pair in pairs]
        notes += _few_known(model, sides)
        longest = model.checkpoint.config.training.max_length
        for pair in pairs:
            words = max(len(pair.source), len(pair.target))
            if words > longest:
                notes.append(
                    f"sentence {pair.number:,} has {words} words, and {model.name} was trained on "
                    f"at most {longest}"
                )
    return notes


def _few_known(model: Model, texts: Sequence[_Words]) -> list[str]:
    """Return that a model knows less than half of the words that it reads, if so."""
    words = [word for text in texts for word in text]
    known = sum(word in model.checkpoint.source_vocabulary for word in words)
    if known * 2 >= len(words):
        return []
    problem = f"{model.name} knows {known:,} of the {len(words):,} words that it reads"
    return [f"{problem}: was it trained on this language, and text split like this?"]


def drawn_texts(inputs: Inputs, model: Model) -> tuple[list[_Words], list[str], list[str]]:
    """Return sentences that a model reads, for a map: distinct ones, none of them empty.

    A reverse model reads the references.

    :return: the sentences, why there are none, and what else is to be said.
    """
    assert inputs.source is not None
    side = inputs.source
    if model.checkpoint.reverse:
        if not inputs.references:
            return [], [f"{model.name} reads the other side: needs --references"], []
        side = inputs.references[0]
    texts = [words for words in dict.fromkeys(side.words) if words]
    if not texts:
        return [], [f"{side.path}: each sentence is empty"], []
    count = inputs.settings.map_points
    if len(texts) > count:
        numbers = random.Random(f"{inputs.settings.seed} map")
        texts = [texts[place] for place in sorted(numbers.sample(range(len(texts)), count))]
    longest = model.checkpoint.config.training.max_length
    too_long = sum(len(words) > longest for words in texts)
    notes = [f"{too_long:,} sentences are longer than {model.name} was trained on"]
    return texts, [], _few_known(model, texts) + (notes if too_long else [])
