"""Small models whose scores are known: random weights, and an independent implementation."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from phrasescore.io.ragged import RaggedArray
from phrasescore.kernels.gates import TreeStep
from phrasescore.models.checkpoint import (
    FORWARD,
    Checkpoint,
    TrainingRecord,
    direction_of,
    empty_network,
    save_checkpoint,
)
from phrasescore.scoring.products import Products
from phrasescore.scoring.tree_scorer import TreeDecoder
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import CslmConfig, EncoderDecoderConfig, JointConfig
from phrasescore.vocabulary import Vocabulary
from tests import reference_cslm, reference_joint
from tests.reference_encoder_decoder import Array, log_prob, random_parameters

SIZES = {"hidden_size": 9, "embedding_size": 5, "maxout_units": 6, "output_rank": 4}


def as_vocabulary(words: Iterable[str] | Vocabulary) -> Vocabulary:
    """Return words as a shortlist; a vocabulary stays as it is."""
    return words if isinstance(words, Vocabulary) else Vocabulary(words)


def filled(
    config: Config,
    source: Vocabulary,
    target: Vocabulary,
    parameters: Mapping[str, Array],
    direction: str = FORWARD,
    fingerprint: str = "",
) -> Checkpoint:
    """Return a model with the parameters of a reference."""
    network = empty_network(config, len(source), len(target)).to_empty(device="cpu").eval()
    network.load_state_dict({k: torch.from_numpy(v).float() for k, v in parameters.items()})
    record = TrainingRecord(direction=direction)
    return Checkpoint(network, config, source, target, record, fingerprint)


class RandomModel:
    """An RNN Encoder-Decoder with random weights, as a folder and as the reference's parameters.

    :param source_words: shortlist of the table's source side.
    :param target_words: shortlist of the table's target side.
    :param reverse: whether it predicts the source side.
    :param right_to_left: whether it predicts the last word first.
    """

    def __init__(
        self,
        path: Path,
        source_words: Iterable[str] | Vocabulary,
        target_words: Iterable[str] | Vocabulary,
        *,
        seed: int = 0,
        reverse: bool = False,
        right_to_left: bool = False,
    ) -> None:
        self.path = path
        self.reverse, self.right_to_left = reverse, right_to_left
        sides = [as_vocabulary(source_words), as_vocabulary(target_words)]
        self.vocabularies = sides[::-1] if reverse else sides
        sizes = [len(vocabulary) for vocabulary in self.vocabularies]
        self.parameters = random_parameters(
            np.random.default_rng(seed), **SIZES, source_size=sizes[0], target_size=sizes[1]
        )
        source, target = self.vocabularies
        direction = direction_of(reverse=reverse, right_to_left=right_to_left)
        config = Config(model=EncoderDecoderConfig(*SIZES.values()))
        save_checkpoint(path, filled(config, source, target, self.parameters, direction))

    def log_prob(self, source: Sequence[str], target: Sequence[str]) -> float:
        """Return the score of a pair of the table, by the independent implementation."""
        sides = (target, source) if self.reverse else (source, target)
        ids = [voc.ids(words) for voc, words in zip(self.vocabularies, sides, strict=True)]
        return log_prob(self.parameters, ids[0], ids[1][:: -1 if self.right_to_left else 1])


class RandomCslm:
    """A feed-forward language model with random weights, and as the reference's parameters."""

    def __init__(
        self,
        words: Iterable[str] | Vocabulary,
        *,
        order: int = 4,
        seed: int = 0,
        self_normalization: float = 0.0,
        path: Path | None = None,
    ) -> None:
        sizes = {"embedding_size": 5, "hidden_size": 9, "upper_size": 6}
        self.vocabulary = as_vocabulary(words)
        self.parameters = reference_cslm.random_parameters(
            np.random.default_rng(seed), order=order, size=len(self.vocabulary), **sizes
        )
        config = CslmConfig(order=order, self_normalization=self_normalization, **sizes)
        vocabularies = Vocabulary([]), self.vocabulary
        self.checkpoint = filled(
            Config(kind="cslm", model=config),
            *vocabularies,
            self.parameters,
            fingerprint=f"random {seed}",
        )
        if path is not None:
            save_checkpoint(path, self.checkpoint)


class RandomJoint:
    """A joint model with random weights, and as the reference's parameters.

    :param upper_size: 0 for one layer.
    """

    def __init__(
        self,
        source_words: Iterable[str],
        target_words: Iterable[str],
        *,
        order: int = 3,
        window: int = 2,
        upper_size: int = 6,
        seed: int = 0,
        self_normalization: float = 0.1,
        path: Path | None = None,
    ) -> None:
        layers = {"embedding_size": 5, "hidden_size": 9, "upper_size": upper_size}
        self.vocabularies = Vocabulary(source_words), Vocabulary(target_words)
        self._order, self._window = order, window
        self._sizes = sizes = len(self.vocabularies[0]), len(self.vocabularies[1])
        self.parameters = reference_joint.random_parameters(
            np.random.default_rng(seed), order=order, window=window, sizes=sizes, **layers
        )
        config = JointConfig(order, window, self_normalization=self_normalization, **layers)
        self.checkpoint = filled(
            Config(kind="joint", model=config),
            *self.vocabularies,
            self.parameters,
            fingerprint=f"random joint {seed}",
        )
        if path is not None:
            save_checkpoint(path, self.checkpoint)

    def word_scores(
        self,
        source: Sequence[str],
        target: Sequence[str],
        affiliations: Sequence[int],
        *,
        normalized: bool = True,
    ) -> list[float]:
        """Return log p of each word and of ``</s>``, by the independent implementation."""
        read, predicted = self.vocabularies
        return reference_joint.word_scores(
            *(self.parameters, read.ids(source), predicted.ids(target), affiliations),
            order=self._order,
            window=self._window,
            sizes=self._sizes,
            normalized=normalized,
        )

    def log_prob(
        self, source: Sequence[str], target: Sequence[str], affiliations: Sequence[int]
    ) -> float:
        return sum(self.word_scores(source, target, affiliations))


class BigramNetwork(nn.Module):
    """A network with scores known by hand: the next word depends on the last one alone.

    :param logits: ``(words, words)``: those of each next word, by the last word; the first word
        comes after ``</s>``.
    """

    def __init__(self, logits: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))


class BigramDecoder(TreeDecoder):
    """Runs a :class:`BigramNetwork` over a tree: a state is the last word."""

    # Nodes whose predicting row was made, over all instances: what was shared was made once.
    rows_made = 0

    def __init__(self, network: nn.Module, products: Products) -> None:
        assert isinstance(network, BigramNetwork)
        logits = network.logits.detach()
        self.output = logits.t(), torch.zeros(len(logits))
        assert products.device.type == "cpu"

    def encode(self, sources: RaggedArray) -> int:
        return len(sources)

    def start(self, encoded: int, sources: torch.Tensor) -> tuple[int, torch.Tensor]:
        assert int(sources.max()) < encoded
        return len(sources), self._rows(torch.zeros_like(sources))

    def advance(self, state: int, step: TreeStep) -> tuple[int, torch.Tensor]:
        assert int(step.roots.max()) < state
        return state, self._rows(step.words)

    def _rows(self, words: torch.Tensor) -> torch.Tensor:
        BigramDecoder.rows_made += len(words)
        return torch.nn.functional.one_hot(words, len(self.output[1])).float()
