"""Sentence networks with random weights, as checkpoints and as the references' parameters."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.models.checkpoint import direction_of
from phrasescore.settings.config import Config, TrainingConfig
from phrasescore.settings.kinds import GrconvConfig, LstmConfig, RnnsearchConfig
from phrasescore.vocabulary import Vocabulary
from tests import reference_grconv, reference_lstm, reference_rnnsearch
from tests.doubles import as_vocabulary, filled

Array = NDArray[np.float64]


class RandomNetwork:
    """A network of the kind rnnsearch, grconv or lstm.

    :param source_words: shortlist of what it reads.
    :param target_words: shortlist of what it predicts.
    :param max_length: of the sentences that it was trained on, as it says.
    """

    def __init__(
        self,
        kind: str,
        source_words: Iterable[str] | Vocabulary,
        target_words: Iterable[str] | Vocabulary,
        *,
        seed: int = 0,
        reverse: bool = False,
        right_to_left: bool = False,
        max_length: int = 100,
    ) -> None:
        source, target = as_vocabulary(source_words), as_vocabulary(target_words)
        numbers = np.random.default_rng(seed)
        sizes = {"source_size": len(source), "target_size": len(target)}
        model: Any
        if kind == "rnnsearch":
            model = RnnsearchConfig(7, 5, 6, 4)
            self.parameters: Mapping[str, Array] = reference_rnnsearch.random_parameters(
                numbers, hidden_size=7, embedding_size=5, maxout_units=6, alignment_size=4, **sizes
            )
        elif kind == "grconv":
            model = GrconvConfig(8, 7, 5, 6, 4)
            self.parameters = reference_grconv.random_parameters(
                numbers,
                encoder_size=8,
                hidden_size=7,
                embedding_size=5,
                maxout_units=6,
                output_rank=4,
                **sizes,
            )
        else:
            model = LstmConfig(layers=2, hidden_size=6, embedding_size=5)
            self.parameters = reference_lstm.random_parameters(
                numbers, layers=2, hidden_size=6, embedding_size=5, **sizes
            )
        config = Config(kind=kind, model=model, training=TrainingConfig(max_length=max_length))
        direction = direction_of(reverse=reverse, right_to_left=right_to_left)
        self.checkpoint = filled(config, source, target, self.parameters, direction)
