"""Load a trained model, to score phrase pairs and lists of hypotheses from Python."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from phrasescore.arguments import StrPath
from phrasescore.devices import choose_device
from phrasescore.engines import callers
from phrasescore.features import ColumnSpec
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.records import HypothesisList, PhraseBlock, PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.scoring.columns import FeatureLoader
from phrasescore.workflows.scoring.scorer import PairLines, Scorer, group_pairs
from phrasescore.workflows.text_checks import known_words, unknown_words_of

# The input types of `PhrasePair` and `HypothesisList`: a text is a string, or words in order.
_Text = str | Sequence[str]
_Pair = tuple[_Text, _Text]
_List = tuple[_Text, Sequence[_Text]]
_Words = tuple[str, ...]
_Scored = TypeVar("_Scored", PhrasePair, HypothesisList)


def load_model(path: StrPath, *, compute: Compute = Compute()) -> "ScoringModel":
    """Load a trained model, to score on its device with threads in this process."""
    compute.check_only("precision", "device", "threads")
    return ScoringModel(load_checkpoint(os.fspath(path)), os.fspath(path), compute)


class NetworkScorer:
    """Scores with one network, in threads of this process; several iterators may be active."""

    def __init__(
        self, checkpoint: Checkpoint, compute: Compute, *, of_phrases: bool = False
    ) -> None:
        device, threads = str(choose_device(compute.device)), callers(compute.on_workers())
        columns = (ColumnSpec("model", checkpoint.folder),)
        self._loader = FeatureLoader(
            columns, (checkpoint,), device, compute.precision, threads, of_phrases=of_phrases
        )
        self._features, self._engine = self._loader.load(), Compute(workers=threads)

    def score_pairs(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the score of each pair, in order; blocks are read ahead."""
        for values in self._values(group_pairs(pairs)):
            yield from values

    def score_lists(self, lists: Iterable[HypothesisList]) -> Iterator[list[float]]:
        """Yield the scores of each list's hypotheses, in order; lists are read ahead."""
        blocks = (PhraseBlock.of_source(*each) for each in lists)
        return self._values(PairLines(place, block) for place, block in enumerate(blocks))

    def _values(self, lines: Iterable[PairLines]) -> Iterator[list[float]]:
        with Scorer(self._loader, self._engine, features=self._features, unit="pair") as scorer:
            for _, scores in scorer.score(lines):
                yield scores.values[0].tolist()


class ScoringModel:
    """A trained model that scores phrase pairs and translations; `load_model` returns it.

    A score is log p(target ``</s>`` | source), or log p(source ``</s>`` | target) for a reverse
    model, and log p(target ``</s>``) for a language model: a natural logarithm, summed over
    the words of the predicted side and its ``</s>``, and not divided by length. A word outside the
    shortlist is scored as ``<unk>``; a warning is logged once if the model knows fewer than half
    of the words.

    :ivar kind: the kind of the network, such as ``encoder-decoder``.
    :ivar reverse: whether the source is predicted.
    :ivar right_to_left: whether the last word is predicted first.
    """

    def __init__(self, checkpoint: Checkpoint, path: str, compute: Compute) -> None:
        self.kind: str = checkpoint.config.kind
        self.reverse, self.right_to_left = checkpoint.reverse, checkpoint.right_to_left
        self._lists = self._pairs = NetworkScorer(checkpoint, compute)
        if checkpoint.config.network.scores_phrases:
            self._pairs = NetworkScorer(checkpoint, compute, of_phrases=True)
        # Unknown words are counted over all inputs, so that there is one warning.
        self._sources, self._targets = unknown_words_of(
            "the sources", "the targets", [known_words(path, checkpoint)]
        )

    def score_pairs(self, pairs: Iterable[PhrasePair | _Pair]) -> Iterator[float]:
        """Yield the score of each pair, in order; pairs are read lazily, in blocks.

        A network that scores whole sentences treats each pair as a sentence and its translation.

        :param pairs: each a `PhrasePair`, or a tuple of its fields.
        :raises ModelError: on reaching a pair whose score is not a finite log-probability.
        :raises TypeError: if a single pair is passed instead of an iterable of pairs.
        """
        if isinstance(pairs, PhrasePair):
            raise TypeError(f"expected a list of pairs, got the pair {pairs}")
        phrases = (PhrasePair(*pair) for pair in pairs)
        counted = (self._count(pair, pair.source, [pair.target]) for pair in phrases)
        yield from self._pairs.score_pairs(counted)
        self._warn()

    def score_lists(self, lists: Iterable[HypothesisList | _List]) -> Iterator[list[float]]:
        """Yield the scores of each list's hypotheses, in order; lists are read lazily.

        Prefixes shared by hypotheses in a list are computed once.

        :param lists: each a `phrasescore.records.HypothesisList`, or a tuple of its fields.
        :raises ModelError: on reaching a hypothesis whose score is not a finite log-probability.
        """
        texts = (HypothesisList(*each) for each in lists)
        counted = (self._count(each, each.source, each.hypotheses) for each in texts)
        yield from self._lists.score_lists(counted)
        self._warn()

    def _count(self, scored: _Scored, source: _Words, targets: Iterable[_Words]) -> _Scored:
        """Count the unknown words in the input, and return the input."""
        self._sources.count(source)
        for target in targets:
            self._targets.count(target)
        return scored

    def _warn(self) -> None:
        self._sources.warn()
        self._targets.warn()
