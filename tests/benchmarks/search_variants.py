"""Variants of the embedded search, in turns: cube pruning, and a network with buffers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.language_model import NgramModel
from moses_integration.decoder.options import OptionTable, read_language_model
from moses_integration.decoder.phrase_tables import read_tables
from moses_integration.decoder.search import StackDecoder, Translation
from moses_integration.decoder.stateful import DEFAULT_BUFFER_SIZE, RequestBuffer, StatefulFeature
from tests.benchmarks.results import Row, quotients
from tests.benchmarks.search_engines import SLICES, Task, Words, cut, score_bleu

POP_LIMITS = (200, 500, 1000)
BUFFER_SIZES = (1, 64, DEFAULT_BUFFER_SIZE)
# Without a buffer a sentence takes most of a minute: one in so many sentences is translated so.
UNBUFFERED_STEP = 4
# The network's weight: about that of the language model in the real task.
NETWORK_WEIGHT = 0.1


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
            lm = read_language_model(configuration)
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


class Counted:
    def __init__(self, feature: StatefulFeature) -> None:
        self._feature = feature
        self.name, self.context = feature.name, feature.context
        self.begin = feature.begin
        # Words, with the ends of sentences.
        self.ngrams = 0

    def scores(self, histories: Any, phrases: Any, offsets: Any, ends: Any, *_: Any) -> Any:
        self.ngrams += int(offsets[-1] - offsets[0]) + int(ends.sum())
        return self._feature.scores(histories, phrases, offsets, ends)


class Asked(NamedTuple):
    # Of the search; those that were passed on; calls of the network.
    requests: int
    distinct: int
    calls: int
    # Of the requests passed on: n-grams, and softmaxes.
    ngrams: int
    contexts: int

    @classmethod
    def of(cls, buffer: RequestBuffer, ngrams: int, contexts: int) -> Asked:
        return cls(buffer.requests, buffer.distinct, buffer.calls, ngrams, contexts)

    def rows(self, label: str, sentences: int) -> list[Row]:
        """Return what there is to show; contexts are a share of the n-grams of the calls.

        :param sentences: that were translated.
        """
        return [
            Row(f"{label}: requests a sentence", [self.requests / sentences], digits=0),
            Row(f"{label}: distinct requests", [100 * self.distinct / self.requests], "%", 1),
            Row(f"{label}: requests a call", [self.distinct / self.calls], digits=1),
            Row(f"{label}: n-grams a call", [self.ngrams / self.calls], digits=1),
            Row(f"{label}: distinct contexts", [100 * self.contexts / self.ngrams], "%", 1),
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


def measure_network(
    model: Model,
    sentences: Sequence[Words],
    load: Callable[[], tuple[StatefulFeature, Callable[[], int]]],
) -> list[Row]:
    """Measure a network in the search, with buffers of several sizes.

    :param load: makes the network's feature, and a function that tells how many softmaxes it has
        computed.
    :raises RuntimeError: if translations, values or totals depend on the buffer.
    """
    variants, counters = [Variant("without a network", model.decoder())], []
    for size in BUFFER_SIZES:
        feature, contexts = load()
        counted = Counted(feature)
        decoder = model.decoder((counted, NETWORK_WEIGHT), buffer_size=size)
        step = UNBUFFERED_STEP if size == 1 else 1
        variants.append(Variant(f"a buffer of {size:,}", decoder, step))
        counters.append((counted, contexts))
    _warm_up(variants, sentences)
    pairs = list(zip(variants[1:], counters, strict=True))
    before = [_asked(variant, *counter) for variant, counter in pairs]
    take_turns(variants, sentences)
    check_same(variants[1:])
    every, some = range(len(sentences)), sorted(variants[1].found)
    rows = [
        Row(
            f"{variant.label}: search, processor",
            variant.rates(sorted(variant.found)),
            "sentences/s",
        )
        for variant in variants
    ]
    plain, single, *_, usual = variants
    rows += [
        Row("times as fast as a buffer of 1", quotients(usual.rates(some), single.rates(some))),
        Row("times the time without a network", quotients(plain.rates(every), usual.rates(every))),
    ]
    for (variant, counter), ago in zip(pairs, before, strict=True):
        now = _asked(variant, *counter)
        asked = Asked(*(a - b for a, b in zip(now, ago, strict=True)))
        rows += asked.rows(variant.label, len(variant.found))
    return rows


def measure_kinds(
    model: Model, sentences: Sequence[Words], networks: Mapping[str, StatefulFeature]
) -> list[Row]:
    """Measure the search without a network, and with each of some.

    :param networks: by their labels.
    """
    plain = Variant("no network", model.decoder())
    variants = [
        Variant(label, model.decoder((feature, NETWORK_WEIGHT)))
        for label, feature in networks.items()
    ]
    every = [plain, *variants]
    _warm_up(every, sentences)
    take_turns(every, sentences)
    places = range(len(sentences))
    rows = [
        Row(f"{each.label}: search, processor", each.rates(places), "sentences/s") for each in every
    ]
    slower = "times the time without a network"
    return rows + [
        Row(f"{each.label}: {slower}", quotients(plain.rates(places), each.rates(places)))
        for each in variants
    ]


def _asked(variant: Variant, counted: Counted, contexts: Callable[[], int]) -> Asked:
    ((buffer, _),) = variant.decoder.buffers
    return Asked.of(buffer, counted.ngrams, contexts())


def _warm_up(variants: Sequence[Variant], sentences: Sequence[Words]) -> None:
    shortest = min(sentences, key=len)
    for variant in variants:
        variant.decoder.translate(shortest)


def check_same(variants: Sequence[Variant]) -> None:
    """Check that what some variants translated is the same, to the last bit of each value.

    :raises RuntimeError: if not.
    """
    first = max(variants, key=lambda variant: len(variant.found))
    for variant in variants:
        for place, found in variant.found.items():
            if describe(found) != describe(first.found[place]):
                problem = f"sentence {place} is another one with {variant.label}"
                raise RuntimeError(f"{problem} than with {first.label}")


def describe(found: Translation) -> bytes:
    numbers = [found.score, *(value for values in found.values for value in values)]
    return f"{' '.join(found.words)} ||| {' '.join(map(float.hex, numbers))}".encode()
