"""Networks that give, step by step, the distribution of the next word of some targets.

A search or a sampler makes prefixes of targets, level by level; the networks run over them as over
the tree of an n-best list: a prefix that several targets share is computed once, and its values
depend on its source and its words alone, to the last bit.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from phrasescore.arguments import PrecisionName
from phrasescore.errors import ModelError
from phrasescore.generation.word_choice import Floats, Ids
from phrasescore.kernels.precision import Precision
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.scoring.prefix_tree import Sequences, TreeStep, on_device
from phrasescore.scoring.products import FIXED_ROWS, Products
from phrasescore.scoring.tree_scorer import build_decoder, log_mean_exp
from phrasescore.scoring.word_pieces import split_words
from phrasescore.scoring.word_probabilities import WordProbabilities
from phrasescore.settings.kinds import kind_names
from phrasescore.vocabulary import Vocabulary

Source = tuple[str, ...]


class Generated(NamedTuple):
    """A target that networks generated."""

    # An unknown word is ``<unk>``, unless a word of the source was put in its place.
    words: tuple[str, ...]
    # Natural logarithm, of the words and the end symbol, not divided by length, as ``rescore``
    # gives it. Without an end, of the words alone.
    log_prob: float
    # Whether the end symbol came within the length that was allowed.
    finished: bool = True
    # Predicted ``<unk>``.
    unknown_words: int = 0
    # Pieces of words that were predicted; None for as many as there are words.
    num_pieces: int | None = None

    @property
    def length(self) -> int:
        """How many words, or pieces of words, were predicted before the end."""
        return len(self.words) if self.num_pieces is None else self.num_pieces


class Generator:
    """Trained networks that read a source and predict a target; several are an ensemble.

    An ensemble averages the networks' probabilities at each word, as ``rescore --ensemble`` does:
    its words are those of all shortlists, and one that a network does not know is ``<unk>`` to it.
    (With shortlists that differ the probabilities of all words add up to more than 1.) Of subwords,
    "words" are pieces here, ``<unk>`` is none of them, and an ensemble has one vocabulary. Several
    threads may use one instance at once.

    :param checkpoints: of one direction, that begin at the same end of a target, and of kinds that
        have a source.
    :param precision: of the matrix products.
    :raises ModelError: if the models predict no target, cannot be an ensemble, or have a weight
        that is not finite.
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
        # Whether sources are of the side that Moses calls the target.
        self.reverse = checkpoints[0].reverse
        # Whether the last word of a target comes first.
        self.right_to_left = checkpoints[0].right_to_left
        self._networks = [_Network(model, device, self.precision) for model in checkpoints]
        vocabularies = [model.target_vocabulary for model in checkpoints]
        # The words by their numbers; those of </s> and <unk> are Vocabulary's.
        self.words = list(dict.fromkeys(chain.from_iterable(map(_words, vocabularies))))
        self._vocabulary = vocabularies[0]
        if any(vocabulary != vocabularies[0] for vocabulary in vocabularies):
            if any(vocabulary.is_subwords for vocabulary in vocabularies):
                problem = "that writes piece by piece is of models with the same subwords"
                raise ModelError(f"an ensemble {problem}; rescore takes any")
            for network in self._networks:
                network.set_columns(self.words)
        # Compiles the kernels before several threads do so at once.
        with torch.inference_mode():
            list(self.walk([("a",)]).log_distributions())

    @property
    def can_align(self) -> bool:
        """Whether one of the networks aligns target words, whole ones, with source words."""
        return any(network.can_align for network in self._networks)

    @property
    def has_unknown(self) -> bool:
        """Whether a target may have ``<unk>``, which no target of subwords had in training."""
        return not self._vocabulary.is_subwords

    def lengths(self, sources: Sequence[Source]) -> Ids:
        """Return how many words, or pieces, the first network reads of each source."""
        return self._networks[0].read(sources).lengths

    def in_order(self, words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
        """Return the target of words, or pieces, that were predicted one after another.

        The second value is whether these are the pieces of its words, with which `rescore` scores
        it: a network may put a word together from others.
        """
        pieces = words[::-1] if self.right_to_left else words
        target = self._vocabulary.join(pieces)
        return target, list(chain.from_iterable(self._vocabulary.split(target))) == list(pieces)

    def walk(self, sources: Sequence[Source]) -> "SearchWalk":
        """Return a walk that stands before the first word of the targets of some sources.

        To be used in torch's inference mode.
        """
        return SearchWalk(self, self._networks, sources)


def check_kinds(checkpoints: Sequence[Checkpoint]) -> None:
    """Check that models can generate, together.

    :raises ModelError: if one has no source, they are of two directions, or only some predict from
        right to left.
    """
    for checkpoint in checkpoints:
        if checkpoint.config.network.decoder is None:
            kinds = ", ".join(kind_names(is_feed_forward=False))
            raise ModelError(
                f"a model of the kind {checkpoint.config.kind} reads no source, and has nothing to "
                f"generate a target from: expected one of the kinds {kinds}"
            )
    if len({checkpoint.reverse for checkpoint in checkpoints}) > 1:
        raise ModelError("an ensemble is of models of one direction, not with some reverse")
    if len({checkpoint.right_to_left for checkpoint in checkpoints}) > 1:
        problem = "is of models of one order, not with some trained with --right-to-left"
        raise ModelError(f"an ensemble that writes word by word {problem}; rescore takes both")


class _Network:
    """One network of a generator, laid out for scoring."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, precision: Precision) -> None:
        with torch.inference_mode():
            self.products = Products(precision, device)
            self.decoder = build_decoder(checkpoint.config.kind, checkpoint.model, self.products)
            self.probabilities = WordProbabilities(
                *self.decoder.output, self.products, checkpoint.folder
            )
        self._source_vocabulary = checkpoint.source_vocabulary
        self._target_vocabulary = checkpoint.target_vocabulary
        # The network's id of each word of the ensemble; None where they are the same.
        self.columns: Ids | None = None
        self.can_align = hasattr(self.decoder, "attention") and not (
            checkpoint.source_vocabulary.is_subwords or checkpoint.target_vocabulary.is_subwords
        )

    def set_columns(self, words: Sequence[str]) -> None:
        """Note how the words of an ensemble are numbered here."""
        ids = self._target_vocabulary.ids(words)
        ids[Vocabulary.END] = Vocabulary.END
        self.columns = np.array(ids, np.int64)

    def read(self, sources: Sequence[Source]) -> Sequences:
        """Return the ids that the network reads of some sources."""
        words = list(chain.from_iterable(sources))
        lengths = np.fromiter(map(len, sources), np.int64, len(sources))
        running = Sequences(np.arange(len(words)), lengths)
        return running.expand(split_words(self._source_vocabulary, words))

    def start(self, sources: Sequence[Source]) -> tuple[Any, Tensor]:
        """Return the state before the first word of the targets of some sources, and its rows."""
        encoded = self.decoder.encode(self.read(sources))
        numbers = on_device(np.arange(len(sources)), self.products.device)
        return self.decoder.start(encoded, numbers)

    def own_ids(self, words: Ids) -> Ids:
        """Return the network's ids of some words of the ensemble."""
        return words if self.columns is None else self.columns[words]


class SearchWalk:
    """The prefixes of a level, and each network's states of them.

    At the start these are the empty targets of all sources. Before :meth:`log_probs`, and once at
    each level, :meth:`log_distributions` has to be run to its end.
    """

    def __init__(
        self, generator: Generator, networks: Sequence[_Network], sources: Sequence[Source]
    ) -> None:
        self._networks = networks
        self._num_words, self._device = len(generator.words), generator.device
        self._states, self._rows = self._split(network.start(sources) for network in networks)
        self._normalizers: list[Tensor] = []
        self.num_nodes = len(sources)
        self._roots = np.arange(len(sources))
        self._lengths = np.fromiter(map(len, sources), np.int64, len(sources))

    def _split(self, steps: Iterator[tuple[Any, Tensor]]) -> tuple[list[Any], list[Tensor]]:
        states, rows = zip(*steps, strict=True)
        return list(states), list(rows)

    def log_distributions(self) -> Iterator[tuple[int, Tensor]]:
        """Yield log p of every word after some nodes, ``(nodes, words)`` float32, and the first.

        Each is valid, and may be changed, until the next is asked for.
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
            yield start, found[0] if len(found) == 1 else self._mean(found)
        self._normalizers = [torch.cat(normalizers) for normalizers in parts]

    def _mean(self, found: list[Tensor]) -> Tensor:
        """Return the log of the networks' mean, rounded to float32."""
        total = torch.zeros(len(found[0]), self._num_words, device=self._device)
        for network, log_probs in zip(self._networks, found, strict=True):
            probabilities = log_probs.exp_()
            if network.columns is not None:
                columns = on_device(network.columns, self._device)
                probabilities = probabilities.index_select(1, columns)
            total += probabilities
        return total.div_(len(found)).log_()

    def log_probs(self, places: Ids, words: Ids) -> Floats:
        """Return log p of ``words[i]`` after the node ``places[i]``, to the last bit.

        :raises ModelError: if a value is not a finite log-probability.
        """
        found = []
        for network, rows, normalizers in zip(
            self._networks, self._rows, self._normalizers, strict=True
        ):
            log_probs = network.probabilities.log_probs(
                rows, normalizers, places, network.own_ids(words)
            )
            found.append(network.probabilities.check(log_probs.cpu().numpy()))
        return found[0] if len(found) == 1 else log_mean_exp(found)

    def advance(self, parents: Ids, words: Ids, roots: Ids) -> None:
        """Go on to nodes of the next level.

        :param parents: ``(nodes,)`` nodes of this level, not falling.
        :param words: the last word of each.
        :param roots: the number of the source of each.
        """
        self._states, self._rows = self._split(
            network.decoder.advance(
                state, TreeStep.of(parents, network.own_ids(words), roots, self._device)
            )
            for network, state in zip(self._networks, self._states, strict=True)
        )
        self.num_nodes = len(parents)
        self._roots = roots

    def attended(self) -> Ids:
        """Return the word of its source that each node's next word is aligned with most.

        That is its place, 0 if the source has no words; the networks that align are added up.
        """
        weights: Tensor | None = None
        for network, state in zip(self._networks, self._states, strict=True):
            if network.can_align:
                of_network = network.decoder.attention(state)  # type: ignore[attr-defined]
                weights = of_network if weights is None else weights + of_network
        assert weights is not None
        # The last place of a source, behind its words, is its </s>.
        behind = on_device(self._lengths[self._roots], self._device).unsqueeze(1)
        places: Ids = weights.scatter(1, behind, 0.0).argmax(1).cpu().numpy()
        return places


def _words(vocabulary: Vocabulary) -> Iterator[str]:
    return (vocabulary.word(number) for number in range(len(vocabulary)))
