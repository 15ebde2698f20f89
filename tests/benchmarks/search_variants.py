"""Variants of the embedded search, in turns: cube pruning, and networks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.options import OptionTable, read_language_models
from moses_integration.decoder.phrase_tables import read_tables
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.stack_search import DEFAULT_BUFFER_SIZE, StatefulFeature
from phrasescore.language_models.arpa import NgramModel
from tests.benchmarks.results import Row, quotients
from tests.benchmarks.search_engines import SLICES, Task, Words, cut, score_bleu

POP_LIMITS = (200, 500, 1000)
# Without a buffer a sentence takes most of a minute: one in so many sentences is translated so.
UNBUFFERED_STEP = 4
# A network's weight: about that of the language model in the real task.
WEIGHT = 0.1


class Model(NamedTuple):
    """A Moses model, with what some sentences need of its tables."""

    configuration: DecoderConfiguration
    options: OptionTable
    lm: NgramModel

    @classmethod
    def read(cls, task: Task, *, aligned: bool = False) -> Model:
        """Read the files of a moses.ini, whose paths begin at its folder.

        :param aligned: with the word alignments, for a joint model.
        """
        with contextlib.chdir(task.ini.parent):
            configuration = DecoderConfiguration.read(str(task.ini))
            lm = read_language_models(configuration)
            tables = read_tables(configuration, task.sentences, aligned=aligned)
            return cls(configuration, OptionTable(configuration, lm, tables), lm)

    def decoder(
        self,
        *features: tuple[StatefulFeature, float],
        buffer_size: int = DEFAULT_BUFFER_SIZE,
        **limits: Any,
    ) -> StackDecoder:
        """Return a search with some limits, and Moses' own for the others."""
        search = replace(self.configuration.search, **limits)
        configuration = replace(self.configuration, search=search)
        return StackDecoder(configuration, self.options, self.lm, features, buffer_size=buffer_size)


@dataclass
class Variant:
    """A search, and what it did."""

    label: str
    decoder: StackDecoder
    # It translates the first of so many sentences.
    step: int = 1
    # By sentence: seconds of the processor, and the translation.
    seconds: dict[int, float] = field(default_factory=dict)
    found: dict[int, Translation] = field(default_factory=dict)

    def rates(self, places: Sequence[int]) -> list[float]:
        return [
            len(part) / sum(self.seconds[places[number]] for number in part)
            for part in cut(len(places), SLICES)
        ]


def take_turns(
    variants: Sequence[Variant],
    sentences: Sequence[Words],
    clock: Callable[[], float] = time.process_time,
) -> None:
    for place, words in enumerate(sentences):
        due = [variant for variant in variants if place % variant.step == 0]
        start = place % len(due)
        for variant in (*due[start:], *due[:start]):
            began = clock()
            variant.found[place] = variant.decoder.translate(words)
            variant.seconds[place] = clock() - began


def measure_cubes(model: Model, task: Task) -> list[Row]:
    variants = [Variant("normal search", model.decoder())]
    variants += [
        Variant(f"cube pruning, {limit} pops", model.decoder(algorithm="cube", pop_limit=limit))
        for limit in POP_LIMITS
    ]
    _warm_up(variants, task.sentences)
    take_turns(variants, task.sentences)
    places = range(len(task.sentences))
    rows = []
    for variant in variants:
        words = [variant.found[place].words for place in places]
        rows += [
            Row(f"{variant.label}: search, processor", variant.rates(places), "sentences/s"),
            Row(f"{variant.label}: BLEU", [score_bleu(words, task.references)]),
        ]
    return rows


def measure_networks(
    model: Model,
    sentences: Sequence[Words],
    networks: Mapping[str, StatefulFeature],
    unbuffered: StatefulFeature,
) -> list[Row]:
    """Measure the search without a network, with each of some, and with the first unbuffered.

    :param networks: by their labels.
    :param unbuffered: the first network once more.
    """
    plain, *variants = [
        Variant("no network", model.decoder()),
        *(Variant(label, model.decoder((each, WEIGHT))) for label, each in networks.items()),
    ]
    single = Variant(
        f"{variants[0].label}, a buffer of 1",
        model.decoder((unbuffered, WEIGHT), buffer_size=1),
        UNBUFFERED_STEP,
    )
    every = [plain, *variants, single]
    _warm_up(every, sentences)
    take_turns(every, sentences)
    places, some = range(len(sentences)), sorted(single.found)
    rows = [
        Row(f"{each.label}: search, processor", each.rates(sorted(each.found)), "sentences/s")
        for each in every
    ]
    faster = quotients(variants[0].rates(some), single.rates(some))
    slower = "times the time without a network"
    return [
        *rows,
        Row("times as fast as a buffer of 1", faster),
        *(
            Row(f"{each.label}: {slower}", quotients(plain.rates(places), each.rates(places)))
            for each in variants
        ),
    ]


def _warm_up(variants: Sequence[Variant], sentences: Sequence[Words]) -> None:
    shortest = min(sentences, key=len)
    for variant in variants:
        variant.decoder.translate(shortest)
