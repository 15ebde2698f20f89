"""Load a trained model, to score phrase pairs and lists of hypotheses from Python."""

import os
from collections.abc import Iterable, Iterator, Sequence

import torch

from phrasescore.arguments import PrecisionName, StrPath, check_compute
from phrasescore.devices import choose_device, torch_threads, usable_threads
from phrasescore.engines import EngineSettings
from phrasescore.features.neural import NeuralScore
from phrasescore.features.sentences import SentenceScores
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import HypothesisList, PhrasePair

# What `PhrasePair` and `HypothesisList` are made of: a text is a string, or a sequence of words.
_Text = str | Sequence[str]
_Pair = tuple[_Text, _Text]
_List = tuple[_Text, Sequence[_Text]]


def load_model(
    path: StrPath,
    *,
    device: str = "auto",
    precision: PrecisionName = "float32",
    threads: int | None = None,
) -> "ScoringModel":
    """Return a trained model, ready to score on its device."""
    check_compute(device, precision, threads)
    checkpoint = load_checkpoint(os.fspath(path))
    place = choose_device(device)
    return ScoringModel(checkpoint, place, precision=precision, threads=usable_threads(threads))


class ScoringModel:
    """A trained model that scores phrase pairs and translations.

    A score is log p(target ``</s>`` | source), or log p(source ``</s>`` | target) of a model that
    was trained so, and log p(target ``</s>``) of a language model: a natural logarithm, summed over
    the words of the predicted side and its ``</s>``, and not divided by length. A word outside the
    shortlist is scored as ``<unk>``. `load_model` makes it.

    :ivar kind: of the network, such as ``encoder-decoder``.
    :ivar reverse: whether the source is predicted.
    :ivar right_to_left: whether the last word is predicted first.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        precision: PrecisionName,
        threads: int,
    ) -> None:
        self.kind: str = checkpoint.config.kind
        self.reverse, self.right_to_left = checkpoint.reverse, checkpoint.right_to_left
        self._checkpoint, self._device = checkpoint, device
        self._precision, self._threads = precision, threads
        self._pairs: NeuralScore | None = None
        self._lists: SentenceScores | None = None

    def score_pairs(self, pairs: Iterable[PhrasePair | _Pair]) -> Iterator[float]:
        """Yield the score of each pair, in order, lazily.

        Pairs are read ahead in blocks; blocks change speed and memory only. A network that scores
        whole sentences takes each pair as a sentence and its translation.

        :param pairs: each a `PhrasePair`, or what one is made of.
        :raises ModelError: on reaching a pair whose score is not a finite log-probability.
        """
        phrases = (PhrasePair(*pair) for pair in pairs)
        if isinstance(self._checkpoint.model, EncoderDecoder):
            with torch_threads(1):  # scoring has threads of its own
                if self._pairs is None:
                    self._pairs = NeuralScore(
                        *(self._checkpoint, self._device),
                        precision=self._precision,
                        threads=self._threads,
                    )
                yield from self._pairs.values(phrases)
        else:
            lists = (HypothesisList(source, [target]) for source, target in phrases)
            for scores in self.score_lists(lists):
                yield from scores

    def score_lists(self, lists: Iterable[HypothesisList | _List]) -> Iterator[list[float]]:
        """Yield the scores of each list's hypotheses, in order, lazily.

        The beginnings that hypotheses of a list share are computed once.

        :param lists: each a `phrasescore.records.HypothesisList`, or what one is made of.
        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        """
        with torch_threads(1):
            if self._lists is None:
                self._lists = SentenceScores(
                    *([self._checkpoint], self._device),
                    precision=self._precision,
                    engine=EngineSettings(workers=self._threads),
                )
            for scores in self._lists.values(HypothesisList(*each) for each in lists):
                yield scores.columns[0].tolist()
