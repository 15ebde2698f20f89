"""Generators: networks that compute the distribution of a target's next word, step by step.

A search or a sampler extends target prefixes level by level. As in scoring, a prefix that several
targets share is computed once, and to the last bit, its values depend only on its source and its
words. An engine's workers generate the targets for one window of sources at a time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.devices import choose_device, torch_threads
from phrasescore.engines import open_pool
from phrasescore.errors import ModelError
from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.gates import TreeStep
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint, ModelFolder
from phrasescore.scoring.prefix_tree import Ids, on_device
from phrasescore.scoring.products import FIXED_ROWS, Products
from phrasescore.scoring.tree_scorer import Floats, build_decoder, log_mean_exp
from phrasescore.scoring.word_probabilities import WordProbabilities
from phrasescore.settings.compute import Compute
from phrasescore.settings.kinds import kind_names
from phrasescore.vocabulary import Vocabulary

Source = tuple[str, ...]

WINDOW_BATCHES = 4  # batches in a window, whose sources are sorted by length before batching

SourceWindow = tuple[int, list[Source]]  # the number of the first source, and the sources


class Generated(NamedTuple):
    """A target that networks generated."""

    words: tuple[str, ...]  # an unknown word is ``<unk>``
    # Natural logarithm, summed over the words and the end symbol, if any; not divided by length.
    log_prob: float
    finished: bool = True  # whether the end symbol came within the maximum length
    num_pieces: int | None = None  # of the predicted words; None if each word is one piece

    @property
    def length(self) -> int:
        """The number of predicted words, or pieces of words, before the end."""
        return len(self.words) if self.num_pieces is None else self.num_pieces

    @property
    def unknown_words(self) -> int:
        """The number of ``<unk>``."""
        return self.words.count("<unk>")

    def __str__(self) -> str:
        """Return the words with blanks between them."""
        return " ".join(self.words)


class Generator:
    """Trained networks that read a source and predict a target; several are an ensemble.

    An ensemble averages the networks' probabilities at each word, as ``rescore --ensemble`` does;
    all networks predict the same words. With subwords, "words" are pieces here, and there is no
    ``<unk>``. Several threads may use one instance at the same time.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        device: torch.device,
        *,
        precision: PrecisionName = "float32",
    ) -> None:
        check_kinds(checkpoints)
        self.device = device
        self.precision = Precision(precision, device)
        # Whether the last word of a target is predicted first.
        self.right_to_left = checkpoints[0].right_to_left
        self._networks = [_MemberNetwork(model, device, self.precision) for model in checkpoints]
        self._vocabulary = vocabulary = checkpoints[0].target_vocabulary
        # The words by number.
        self.words = [vocabulary.word(number) for number in range(len(vocabulary))]
        # Compile the kernels now, before several threads do so at once.
        with torch.inference_mode():
            list(self.walk([("a",)], unknown=True).log_distributions())

    def length_limits(self, sources: Sequence[Source], max_length: int | None) -> Ids:
        """Return the maximum length of each source's targets, by default 2 * its words + 10.

        With subwords, the pieces of the first network are counted.
        """
        lengths = self._networks[0].read(sources).lengths
        return np.full_like(lengths, max_length) if max_length is not None else 2 * lengths + 10

    def in_order(self, words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
        """Join predicted pieces into a target; also return whether they are its usual pieces.

        A network may build a word from pieces other than those that ``rescore`` scores.
        """
        pieces = words[::-1] if self.right_to_left else words
        target = self._vocabulary.join(pieces)
        return target, list(chain.from_iterable(self._vocabulary.split(target))) == list(pieces)

    def walk(self, sources: Sequence[Source], *, unknown: bool) -> "SearchWalk":
        """Return a walk that starts with empty targets; call it in torch's inference mode.

        :param unknown: whether a target may contain ``<unk>``; in training, subwords have none.
        """
        unknown = unknown and not self._vocabulary.is_subwords
        return SearchWalk(self, self._networks, sources, unknown=unknown)


def batch_size(device: str | torch.device, rows: Mapping[str, int], rows_per_source: int) -> int:
    """Return the number of sources that have about ``rows[device type]`` rows in a step."""
    return max(rows[torch.device(device).type] // max(rows_per_source, 1), 1)


def check_kinds(checkpoints: Sequence[Checkpoint]) -> None:
    """Raise a ModelError if the models cannot generate a target together."""
    for checkpoint in checkpoints:
        if checkpoint.config.network.decoder is None:
            kinds = ", ".join(kind_names(is_feed_forward=False))
            problem = f"a model of the kind {checkpoint.config.kind} reads no source, so it cannot"
            raise ModelError(f"{problem} generate a target: expected one of the kinds {kinds}")
    if len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
        raise ModelError(
            "models in an ensemble must have the same direction; some were trained with --reverse"
        )
    if len({checkpoint.right_to_left for checkpoint in checkpoints}) > 1:
        problem = "an ensemble that generates word by word needs models with the same order;"
        raise ModelError(f"{problem} some were trained with --right-to-left; rescore accepts both")
    if any(each.target_vocabulary != checkpoints[0].target_vocabulary for each in checkpoints):
        problem = "an ensemble that generates word by word needs models with the same shortlist, or"
        raise ModelError(f"{problem} with the same subwords; rescore accepts any models")


class _MemberNetwork:
    def __init__(self, checkpoint: Checkpoint, device: torch.device, precision: Precision) -> None:
        with torch.inference_mode():
            self.products = Products(precision, device)
            self.decoder = build_decoder(checkpoint.config.kind, checkpoint.model, self.products)
            self.probabilities = WordProbabilities(
                *self.decoder.output, self.products, checkpoint.folder
            )
        self._source_vocabulary = checkpoint.source_vocabulary

    def read(self, sources: Sequence[Source]) -> RaggedArray:
        return RaggedArray.from_rows([self._source_vocabulary.ids(words) for words in sources])

    def start(self, sources: Sequence[Source]) -> tuple[Any, Tensor]:
        encoded = self.decoder.encode(self.read(sources))
        return self.decoder.start(encoded, on_device(np.arange(len(sources)), self.products.device))


class SearchWalk:
    """The prefixes in a level; exhaust :meth:`log_distributions` before :meth:`log_probs`."""

    def __init__(
        self,
        generator: Generator,
        networks: Sequence[_MemberNetwork],
        sources: Sequence[Source],
        *,
        unknown: bool,
    ) -> None:
        self._networks, self._unknown = networks, unknown
        self._num_words, self._device = len(generator.words), generator.device
        self._states, self._rows = self._split(network.start(sources) for network in networks)
        self._normalizers: list[Tensor] = []
        self.num_nodes = len(sources)

    def _split(self, steps: Iterator[tuple[Any, Tensor]]) -> tuple[list[Any], list[Tensor]]:
        states, rows = zip(*steps, strict=True)
        return list(states), list(rows)

    def log_distributions(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first node of each group, and log p of every word after the group's nodes.

        The tensor, ``(nodes, words)`` float32, may be changed until the next one is computed.
        """
        parts: list[list[Tensor]] = [[] for _ in self._networks]
        size = FIXED_ROWS[self._device.type]
        for start in range(0, self.num_nodes, size):
            found = []
            for network, rows, normalizers in zip(self._networks, self._rows, parts, strict=True):
                log_probs, part = network.probabilities.log_distributions(
                    rows[start : start + size]
                )
                normalizers.append(part)
                found.append(log_probs)
            mean = found[0] if len(found) == 1 else self._mean(found)
            if not self._unknown:
                mean[:, Vocabulary.UNKNOWN] = -torch.inf
            yield start, mean
        self._normalizers = [torch.cat(normalizers) for normalizers in parts]

    def _mean(self, found: list[Tensor]) -> Tensor:
        total = torch.zeros(len(found[0]), self._num_words, device=self._device)
        for log_probs in found:
            total += log_probs.exp_()
        return total.div_(len(found)).log_()

    def log_probs(self, places: Ids, words: Ids) -> Floats:
        """Return the exact log p of ``words[i]`` after the node ``places[i]``."""
        found = []
        for network, rows, normalizers in zip(
            self._networks, self._rows, self._normalizers, strict=True
        ):
            # Where one is not finite, no word may have been found.
            network.probabilities.check(normalizers.cpu().numpy(), math.inf)
            log_probs = network.probabilities.log_probs(rows, normalizers, places, words)
            found.append(network.probabilities.check(log_probs.cpu().numpy()))
        return found[0] if len(found) == 1 else log_mean_exp(found)

    def advance(self, parents: Ids, words: Ids, roots: Ids) -> None:
        """Advance to the nodes of the next level.

        :param parents: ``(nodes,)`` parents in this level, in ascending order.
        """
        step = TreeStep.of(parents, words, roots, self._device)
        self._states, self._rows = self._split(
            network.decoder.advance(state, step)
            for network, state in zip(self._networks, self._states, strict=True)
        )
        self.num_nodes = len(parents)


# Work on an engine


class GeneratorLoader(NamedTuple):
    """Loads a generator, here or on another machine."""

    models: tuple[Checkpoint | ModelFolder, ...]
    device: str
    precision: PrecisionName

    def in_folders(self) -> "GeneratorLoader":
        """Return a copy that workers on other machines can use: it loads the same model folders."""
        return self._replace(models=tuple(model.load().in_folder() for model in self.models))

    def load(self) -> Generator:
        """Return the generator; models that are given as folders are read."""
        checkpoints = [model.load() for model in self.models]
        with torch_threads(1):
            return Generator(checkpoints, choose_device(self.device), precision=self.precision)


@dataclass(frozen=True)
class TargetWork:
    """Generates the targets of windows of sources in an engine's workers."""

    networks: Generator | GeneratorLoader
    # Takes the generator, sources that are not empty, and their ``numbers`` in the text.
    find: Callable[..., list[list[Generated]]]
    batch_size: int  # number of sources that the networks compute together
    of_empty: tuple[Generated, ...] = ()  # the targets of an empty source

    @property
    def device(self) -> str:
        """The device on which the networks run."""
        return str(self.networks.device)

    def in_folders(self) -> "TargetWork":
        """Return a copy for workers on other machines; the networks must have a loader."""
        assert isinstance(self.networks, GeneratorLoader)
        return replace(self, networks=self.networks.in_folders())

    def load(self) -> Callable[[SourceWindow], list[list[Generated]]]:
        """Return a function that maps a window to its targets."""
        networks = self.networks
        generator = networks.load() if isinstance(networks, GeneratorLoader) else networks

        def find(window: SourceWindow) -> list[list[Generated]]:
            # Windows run in parallel, so each uses one thread.
            torch.set_num_threads(1)
            first, sources = window
            numbers = [number for number, source in enumerate(sources, first) if source]
            targets = iter(self.find(generator, [*filter(None, sources)], numbers=numbers))
            return [next(targets) if source else [*self.of_empty] for source in sources]

        return find

    def targets(self, sources: Iterable[Source], engine: Compute) -> Iterator[list[Generated]]:
        """Yield the targets for each source, in order; windows are read ahead."""
        size = self.batch_size * WINDOW_BATCHES
        iterator = iter(sources)
        parts = iter(lambda: list(islice(iterator, size)), [])
        with open_pool(engine, self) as pool:
            for targets in pool.map(zip(count(step=size), parts, strict=False)):
                yield from targets
