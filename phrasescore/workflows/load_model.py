"""Load a trained model, to score and to translate from Python."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phrasescore.arguments import AtLeastOne, StrPath, check_sequences
from phrasescore.devices import choose_device
from phrasescore.engines import callers
from phrasescore.features.model import Network
from phrasescore.features.request import ScoringRequest
from phrasescore.generation.beam_search import beam_work
from phrasescore.generation.generator import Generated, Generator, GeneratorLoader
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.models.summary import ModelReport
from phrasescore.records import (
    HypothesisList,
    PairLines,
    PhraseBlock,
    PhrasePair,
    Sentence,
    each_words,
    group_pairs,
    to_sentences,
)
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import check
from phrasescore.settings.scoring import Generating
from phrasescore.systems.scoring import Scoring
from phrasescore.systems.text_checks import unknown_words_of
from phrasescore.workflows.generate import beam_settings

# The input type of `HypothesisList`.
_List = tuple[Sentence, Sequence[Sentence]]
Vector = NDArray[np.float64]


def load_model(path: StrPath, *, compute: Compute = Compute()) -> "ScoringModel":
    """Load a trained model, to score and translate on its device with threads in this process."""
    compute.check_only("precision", "device", "threads")
    return ScoringModel(load_checkpoint(os.fspath(path)), os.fspath(path), compute)


class ScoringModel:
    """A trained model that scores and translates; `load_model` returns it.

    A score is log p(target ``</s>`` | source), or log p(source ``</s>`` | target) for a reverse
    model, and log p(target ``</s>``) for a language model: a natural logarithm, summed over
    the words of the predicted side and its ``</s>``, and not divided by length. A word outside the
    shortlist is scored as ``<unk>``; a warning is logged once if the model knows fewer than half
    of the words. A text is a string with blanks between the words, or a sequence of words.

    :ivar kind: the kind of the network, such as ``encoder-decoder``.
    :ivar reverse: whether the source is predicted.
    :ivar right_to_left: whether the last word is predicted first.
    :ivar record: the `TrainingRecord`, whose ``curve`` has a `CurvePoint` for each validation.
    """

    def __init__(
        self, checkpoint: Checkpoint, path: str, compute: Compute, *, warns: bool = True
    ) -> None:
        self.kind: str = checkpoint.config.kind
        self.reverse, self.right_to_left = checkpoint.reverse, checkpoint.right_to_left
        self.record = checkpoint.record
        self._report, self._precision = ModelReport(path, checkpoint), compute.precision
        self._device = str(choose_device(compute.device))
        self._engine = Compute(workers=callers(compute.on_workers()))
        # Unknown words are counted over all inputs, so that there is one warning.
        networks = [(path, checkpoint)] if warns else []
        self._checks = unknown_words_of("the sources", "the targets", networks)

    def __repr__(self) -> str:
        """Return the model's kind, sizes, vocabularies and perplexity."""
        return f"ScoringModel\n{self._report.summary()}"

    def score(self, sources: Sequence[Sentence], targets: Sequence[Sentence]) -> Vector:
        """Return the scores that `phrasescore.score` writes: shape ``(pairs,)``.

        :raises ArgumentError: if one of the two is a string, or their lengths differ.
        """
        texts = to_sentences(sources=sources, targets=targets)
        pairs = map(PhrasePair._make, zip(*texts, strict=True))
        return np.concatenate([np.empty(0), *self._score(group_pairs(pairs))])

    def translate(
        self,
        sentences: Iterable[Sentence],
        *,
        settings: Generating = Generating(),
        num_best: int = 1,
    ) -> Iterator[list[Generated]]:
        """Yield the best translations of each sentence, as `phrasescore.generate` finds them.

        A model trained in reverse reads the target side. Sentences are read ahead.

        :param settings: the fields about the search.
        :param num_best: maximum number of translations of a sentence.
        :raises ModelError: if the model reads no source, so that it cannot translate.
        """
        check_sequences(sentences=sentences)
        check(AtLeastOne, num_best=num_best)
        settings.check_only("beam", "normalize", "unknown", "max_length")
        work = beam_work(self._generator, beam_settings(settings, num_best, "num_best"))
        texts = self._checks[self.reverse].counted(each_words("sentences", sentences))
        return work.targets(texts, self._engine)

    @cached_property
    def _scoring(self) -> Scoring:
        columns, models = (Network(self._report.path),), (self._report.checkpoint,)
        request = ScoringRequest(
            columns, models, self._device, self._precision, callers(self._engine)
        )
        return Scoring(request, self._engine, unit="pair")

    @cached_property
    def _generator(self) -> Generator:
        return GeneratorLoader((self._report.checkpoint,), self._device, self._precision).load()

    def _score(self, lines: Iterable[PairLines]) -> Iterator[Vector]:
        with self._scoring as scoring:
            for each, values in scoring.score_lines(lines):
                for side, check in enumerate(self._checks):
                    check.count_side(each.block, side)
                yield values[0]
        for check in self._checks:
            check.warn()

    def score_lists(self, lists: Iterable[HypothesisList | _List]) -> Iterator[list[float]]:
        """Yield the scores of each list's hypotheses, in order; lists are read lazily.

        Prefixes shared by hypotheses in a list are computed once.

        :param lists: each a `phrasescore.records.HypothesisList`, or a tuple of its fields.
        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        """
        # A list that is one already is not checked again: see `Segmenter`.
        made = (
            each if isinstance(each, HypothesisList) else HypothesisList(*each) for each in lists
        )
        blocks = (PhraseBlock.of_source(*each) for each in made)
        lines = (PairLines(place, block) for place, block in enumerate(blocks))
        for scores in self._score(lines):
            yield scores.tolist()
