"""The sentences that a report shows: drawn by a seed, or named by their lines."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from phrasescore.models.checkpoint import Checkpoint

Words = tuple[str, ...]

# Lengths, in words, of sentences with legible figures; others are drawn for want of these only.
_LEGIBLE = range(5, 26)


class SentencePair(NamedTuple):
    """A source sentence and a translation of it."""

    # Line of the source file, from 1.
    number: int
    source: Words
    # Empty where there is no translation.
    target: Words


def draw_sentences(sides: Sequence[Sequence[Words]], count: int, seed: int) -> list[int]:
    """Return some sentences none of whose sides is empty, in the order of the text, from 0.

    :param sides: one or several aligned texts.
    :param count: sentences drawn, if there are as many.
    """
    usable = [number for number, words in enumerate(zip(*sides, strict=True)) if all(words)]
    legible = [number for number in usable if all(len(side[number]) in _LEGIBLE for side in sides)]
    numbers = random.Random(f"{seed} sentences")
    if len(legible) >= count:
        return sorted(numbers.sample(legible, count))
    return sorted(numbers.sample(usable, min(count, len(usable))))


def draw_texts(sentences: Sequence[Words], count: int, seed: int) -> list[Words]:
    """Return at most ``count`` distinct sentences that are not empty, in the order of the text."""
    texts = [words for words in dict.fromkeys(sentences) if words]
    if len(texts) <= count:
        return texts
    places = random.Random(f"{seed} map").sample(range(len(texts)), count)
    return [texts[place] for place in sorted(places)]


def note_long_pairs(name: str, checkpoint: Checkpoint, pairs: Sequence[SentencePair]) -> list[str]:
    """Return a note on each sentence that is longer than those that a model was trained on."""
    longest = checkpoint.config.training.max_length
    lengths = [max(len(pair.source), len(pair.target)) for pair in pairs]
    return [
        f"sentence {pair.number:,} has {words} words, and {name} was trained on at most {longest}"
        for pair, words in zip(pairs, lengths, strict=True)
        if words > longest
    ]


def note_long_texts(name: str, checkpoint: Checkpoint, texts: Sequence[Words]) -> list[str]:
    """Return a note on how many sentences are longer than those that a model was trained on."""
    too_long = sum(len(words) > checkpoint.config.training.max_length for words in texts)
    return [f"{too_long:,} sentences are longer than {name} was trained on"] if too_long else []


def note_unknown_words(name: str, checkpoint: Checkpoint, texts: Sequence[Words]) -> list[str]:
    """Return a note if a model knows less than half of the words that it reads."""
    words = [word for text in texts for word in text]
    known = sum(word in checkpoint.source_vocabulary for word in words)
    if known * 2 >= len(words):
        return []
    problem = f"{name} knows {known:,} of the {len(words):,} words that it reads"
    return [f"{problem}: was it trained on this language, and text split like this?"]
