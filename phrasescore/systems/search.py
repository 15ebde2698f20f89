"""The search of a system, as the work of an engine: a worker translates one sentence after another.

A worker loads the networks with its first sentence: torch is imported in the process that uses it.
"""

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from moses_integration.alignments import PhraseSpan, format_segmentation
from moses_integration.decoder import LIMITS
from moses_integration.decoder.configuration import (
    UNKNOWN_WORDS,
    DecoderConfiguration,
    read_language_models,
)
from moses_integration.decoder.moses import ListRequest
from moses_integration.decoder.options import OptionTable, PhraseOptions
from moses_integration.decoder.search import Derivation, StackDecoder
from moses_integration.decoder.stack_search import StatefulFeature
from moses_integration.nbest_lines import format_hypothesis
from moses_integration.weight_lines import check_weights, is_sparse
from phrasescore.errors import DataError
from phrasescore.features.model import Network
from phrasescore.records import WeightPair, Weights
from phrasescore.settings import old_names
from phrasescore.settings.config import Config
from phrasescore.systems.system import System

Tokens = tuple[str, ...]


class SearchTask(NamedTuple):
    """A sentence to translate, as sent to a worker."""

    number: int  # from 0, the id in n-best lists
    tokens: Tokens
    weights: Weights
    lists: ListRequest | None = None  # what its n-best list has; None for no list
    explain: bool = False  # whether to return the exact values of the hypotheses


class SearchOutput(NamedTuple):
    """What the search, or another decoder, finds for a sentence."""

    words: str  # the best translation, separated by spaces; empty if there is none
    nbest: bytes = b""  # the n-best list
    untranslated: bool = False  # whether there is no translation within the limits
    unknown: Tokens = ()  # words that are no phrase of the table
    # For each hypothesis: its score, and the values of all features, also of those in no list.
    exact: tuple[tuple[float, dict[str, tuple[float, ...]]], ...] = ()


def read_configuration(system: System) -> DecoderConfiguration:
    """Return the decoder's part of a system, with the system's limits.

    :raises ConfigError: if the search of this package does not support something in the moses.ini.
    """
    configuration = DecoderConfiguration.read(str(system.moses_ini), system.paths_from)
    return configuration.with_limits(
        **{LIMITS[section]: value for section, value in system.limits.items()}
    )


def search_weights(system: System) -> Weights:
    """Return the system's weights for the search; none if they are those of the moses.ini.

    The search reads those itself, with all digits and for features that n-best lists omit.
    """
    given = system.weights.search
    is_of_ini = system.weights_path is None and given == system.read_ini().tuneable_weights()
    return {} if is_of_ini else given


@dataclass(frozen=True)
class DecoderFeatures:
    """The features of a decoder: what its weights and its lists must have."""

    sizes: dict[str, int]  # the number of weights of each feature
    shown: dict[str, int]  # the number of values of each feature that n-best lists have
    own: Weights  # the weights in the moses.ini
    given: Weights  # the system's weights of the search
    omitted: tuple[str, ...] = ()  # features in the decoder's scores that its lists omit

    @classmethod
    def of(cls, system: System, configuration: DecoderConfiguration | None) -> "DecoderFeatures":
        """Return the features of the search, given its configuration, or of another decoder."""
        networks = dict.fromkeys(system.search_names, 1)
        if configuration is not None:
            slots = configuration.slots
            counts = {slot.name: sum(configuration.shown(slot)) for slot in slots}
            return cls(
                {slot.name: len(slot.weights) for slot in slots} | networks,
                {name: count for name, count in counts.items() if count} | networks,
                {slot.name: slot.weights for slot in slots},
                search_weights(system),
            )
        if system.moses_ini is None:  # a command whose features are those that have weights
            sizes = {name: len(values) for name, values in system.weights.search.items()}
            return cls(sizes, {}, {}, system.weights.search)
        ini = system.read_ini()
        own = ini.tuneable_weights()
        shown = {name: len(values) for name, values in own.items()}
        omitted = tuple(each.name for each in ini.features if each.name not in own)
        sizes = {f"{UNKNOWN_WORDS}0": 1, **shown}
        return cls(sizes, shown, own, system.weights.search, omitted)

    def check_weights(self, system: System, added: Sequence[str]) -> WeightPair:
        """Return a system's weights after checking that they fit the features; see `check`."""
        weights, sizes, shown = system.weights, self.sizes, self.shown
        if added:
            weights = WeightPair(*(old_names.weights_for(added, part) for part in weights))
        search = {name: own for name, own in weights.search.items() if name not in added}
        needed = [*system.search_names]
        # A file of weights may lack some features of a bare moses.ini, or of another decoder.
        if system.weights_path and system.path.endswith(".toml") and system.decoder is None:
            needed = [*itertools.filterfalse(is_sparse, shown), *needed]
        for name in needed:
            if name not in search:
                raise system.weight_error(f"no weight for the search's feature {name}")
        in_lists = {**shown, **dict.fromkeys(added, 1)} if added else {}
        if missing := [name for name in in_lists if name not in weights.lists]:
            raise system.weight_error(f"no weight for {missing[0]}, a feature of the n-best lists")
        for part, known, place in (
            (weights.lists, {*sizes, *added}, "the n-best lists lack"),
            (search, sizes, "the search lacks"),
        ):
            # A feature with weight 0 may be missing.
            for name, values in part.items():
                if any(values) and name.partition("_")[0] not in known:
                    problem = f"there is a weight for {name}, a feature that {place}"
                    raise system.weight_error(problem)
        for numbers, part in ((sizes, search), (in_lists, weights.lists)):
            for name, values in part.items():
                if len(values) != numbers.get(name, len(values)):
                    problem = f"expected {numbers[name]} weights for {name}, found {len(values)}"
                    raise system.weight_error(problem)
        return WeightPair(search, weights.lists)

    def check(self, system: System, added: Sequence[str]) -> tuple[Weights, Weights]:
        """Return the weights of the search, and those that order its lists.

        :param added: the features of the lists that the decoder lacks.
        :raises ConfigError: if the system's weights do not fit its features.
        """
        given = system.weights._replace(search=self.given)
        weights = self.check_weights(replace(system, weights=given), added)
        where = str(system.weights_path or system.moses_ini or system.path)
        search = {**self.own, **weights.search}
        # The weight of copied words orders no hypotheses.
        ordering = [name for name in search if not name.startswith(UNKNOWN_WORDS)]
        check_weights({name: search[name] for name in ordering}, where)
        if added:
            check_weights(weights.lists, where)
        return weights.search, weights.lists if added else search


@dataclass(frozen=True)
class SearchWork:
    """The work of the search: a :class:`phrasescore.engines.Work`."""

    configuration: DecoderConfiguration
    networks: tuple[Network, ...]
    names: tuple[str, ...]  # of the networks' features
    weights: Weights  # of the first translation; weights of other features are ignored
    sentences: Sequence[Tokens] | None = None  # the text, if it is known: tables are read for it
    threads: int = 1  # CPU threads for the networks of a worker
    device: str = "cpu"  # of the networks
    folder: str | None = None  # where relative paths start, for a worker on another machine

    def in_folders(self) -> "SearchWork":
        """Return a copy for workers on other machines, which have the same folders."""
        networks = tuple(each.with_paths(os.path.abspath) for each in self.networks)
        return replace(self, networks=networks, folder=os.getcwd())

    def load(self) -> "Search":
        """Read the tables and the n-gram models, and compile the search before a fork."""
        if self.folder is not None:
            try:
                os.chdir(self.folder)  # each worker has its own process
            except OSError as error:
                raise DataError(self.folder, None, f"cannot be entered: {error}") from error
        search = Search(self)
        if self.folder is not None:
            search.load_networks()  # so that the engine can compare the workers' torch
        else:
            search.compile()
        return search


class Search:
    """Translates sentences under weights that may change from task to task."""

    def __init__(self, work: SearchWork) -> None:
        self._work, self._configuration = work, work.configuration
        # For each value of each feature, whether it appears in n-best lists.
        self._shown = {
            slot.name: self._configuration.shown(slot) for slot in self._configuration.slots
        }
        self._shown |= dict.fromkeys(work.names, (True,))
        self._language_model = read_language_models(self._configuration)
        aligned = any(Config.of_model(each.model).network.is_aligned for each in work.networks)
        self._options = PhraseOptions(
            self._configuration, self._language_model, aligned=aligned, sentences=work.sentences
        )
        self._networks: Sequence[StatefulFeature] | None = None
        self._weights: Weights | None = None
        self._weighted = self._configuration
        self._network_weights: list[float] | None = None
        self._decoder: StackDecoder | None = None
        self._table: OptionTable  # the options of the latest sentence
        self._use(work.weights)

    def _use(self, weights: Weights) -> None:
        if weights == self._weights:
            return
        before, names = self._weighted, [slot.name for slot in self._weighted.slots]
        own = {name: weights[name] for name in names if name in weights}
        self._weights, self._weighted = weights, self._configuration.with_weights(own)
        network_weights = [weights.get(name, (0.0,))[0] for name in self._work.names]
        if (before.slots, self._network_weights) != (self._weighted.slots, network_weights):
            self._network_weights, self._decoder = network_weights, None
            self._options.use(self._weighted, sum(network_weights))

    def compile(self) -> None:
        """Compile the search by translating a sentence without networks."""
        text = self._work.sentences
        words = ("a", "b") if text is None else min(filter(None, text), key=len, default=None)
        if words is not None:
            self._find_decoder(words, has_networks=False).translate(words, nbest=2, distinct=True)
        self._decoder = None

    def load_networks(self) -> Sequence[StatefulFeature]:
        """Return the networks, which are loaded once."""
        if self._networks is None:
            self._networks = _load_networks(self._work)
        return self._networks

    def _find_decoder(self, tokens: Tokens, *, has_networks: bool = True) -> StackDecoder:
        table = self._options.of(tokens)
        if self._decoder is None or table is not self._table:
            networks = self.load_networks() if has_networks else ()
            features = list(zip(networks, self._network_weights or (), strict=False))
            self._decoder = StackDecoder(self._weighted, table, self._language_model, features)
        self._table = table
        return self._decoder

    def __call__(self, task: SearchTask | None) -> SearchOutput:
        """Return the translation of a sentence; for None, the number of copied words in words."""
        if task is None:
            return SearchOutput(str(self._options.num_copied))
        self._use(task.weights)
        decoder = self._find_decoder(task.tokens)
        size, distinct = (0, False) if task.lists is None else task.lists[:2]
        best = decoder.translate(task.tokens, nbest=size, distinct=distinct)
        unknown = self._table.unknown_words(task.tokens)
        if self._configuration.characters:
            best, unknown = best.of_characters(distinct=distinct), ()
        lines = [self._line(task, found) for found in best.nbest]
        exact = [(found.score, self._values(found)) for found in best.nbest if task.explain]
        untranslated = not math.isfinite(best.score)
        text = " ".join(best.words)
        return SearchOutput(text, b"".join(lines), untranslated, unknown, tuple(exact))

    def _values(self, found: Derivation) -> dict[str, tuple[float, ...]]:
        return dict(zip(self._shown, found.values, strict=True))

    def _line(self, task: SearchTask, found: Derivation) -> bytes:
        assert task.lists is not None
        features = [
            (name, kept)
            for (name, shown), values in zip(self._shown.items(), found.values, strict=True)
            if (kept := list(itertools.compress(values, shown)))
        ]
        alignment = self._alignment(found) if task.lists.alignment else None
        phrases = _segmentation(found) if task.lists.segmentation else None
        return format_hypothesis(
            task.number, found.words, features, found.score, alignment, phrases
        )

    def _alignment(self, found: Derivation) -> str:
        points, position = [], 0
        for segment in found.segments:
            inner = [point.split("-") for point in self._table.alignment(segment.option).split()]
            for source, target in sorted((int(one), int(other)) for one, other in inner):
                points.append(f"{segment.start + source}-{position + target}")
            position += len(segment.words)
        return " ".join(points)


def _segmentation(found: Derivation) -> str:
    spans, end = [], 0
    for segment in found.segments:
        begin, end = end, end + len(segment.words)
        spans.append(PhraseSpan(segment.start, segment.end, begin, end))
    return format_segmentation(spans)


def _load_networks(work: SearchWork) -> list[StatefulFeature]:
    if not work.networks:
        return []
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.search_network import load_search_network
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(work.threads)
    device = choose_device(work.device)
    models = (load_checkpoint(each.model) for each in work.networks)
    return [
        load_search_network(model, device, each)
        for model, each in zip(models, work.networks, strict=True)
    ]
