"""What follows the search: the features of the n-best list, and the hypothesis with the most."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from moses_integration.alignments import PhraseSpan, parse_segmentation
from moses_integration.decoder.moses import ListRequest
from moses_integration.list_features import Values, WeightedSum, sorted_lines
from moses_integration.nbest import NbestList, parse_nbest
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.scoring import Floats, Scoring
from phrasescore.systems.search import SearchOutput
from phrasescore.systems.sourced_lists import SourcedList, rescored_lines
from phrasescore.systems.system import System
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.translation import Attention, ExplainedHypothesis, FeaturePart
from tuning.confidence import confidence

_LIST = "the n-best list"


class TranslationTask(NamedTuple):
    """A sentence to translate, and what is wanted besides its translation."""

    number: int  # from 0, the id in n-best lists
    sentence: SystemSentence
    nbest: int = 0  # number of hypotheses to return
    confidence: bool = False
    explain: bool = False  # whether to return the features and the phrases
    attention: bool = False  # whether to return the attention of a network, with ``explain``
    # What the list has besides; a system without features of lists returns the search's own list.
    lists: ListRequest | None = None

    def request(self, system: System) -> ListRequest | None:
        """Return the n-best list that is needed of the decoder; None if none is.

        A system with features of lists has lists of one size, on which the translation depends.
        """
        if system.lists:
            size = system.nbest_size
        elif self.nbest or self.confidence or self.explain:
            size = max(self.nbest, system.nbest_size if self.confidence or self.explain else 1)
        else:
            return None
        wanted = self.lists or ListRequest(size, distinct=True)
        has_phrases = self.explain and self.sentence.tokens is self.sentence.words
        return wanted._replace(
            size=size,
            distinct=wanted.distinct or bool(system.lists),
            segmentation=wanted.segmentation or has_phrases,
        )


class TranslationOutput(NamedTuple):
    """What a worker returns for a sentence."""

    words: str  # separated by spaces
    confidence: float  # from 0 to 1
    nbest: bytes  # the n-best list in Moses' format, best first
    explained: tuple[ExplainedHypothesis, ...]  # best first
    untranslated: int
    attention: tuple[Attention, ...] = ()  # of each of ``explained``; none without such a network


class Ranking:
    """Chooses the best hypothesis of each list by the weights of a system.

    :param scoring: the features of the lists, which are loaded; None for a system without any.
    :param weights: the weights of all features of the lists.
    :param omitted: features in the decoder's scores that its lists omit.
    :param has_phrases: whether the lists say which phrases were used.
    """

    def __init__(
        self,
        system: System,
        scoring: Scoring | None,
        weights: Weights,
        *,
        omitted: Sequence[str] = (),
        has_phrases: bool = True,
    ) -> None:
        self._system, self._scoring, self._weights = system, scoring, weights
        self._omitted, self._has_phrases = omitted, has_phrases

    def outputs(
        self, found: Iterable[tuple[TranslationTask, SearchOutput]]
    ) -> Iterator[TranslationOutput]:
        """Yield the output for each sentence; the features are computed for many lists at once."""
        if self._scoring is None:
            yield from (self.output(*each) for each in found)
            return
        waiting: deque[tuple[TranslationTask, SearchOutput]] = deque()

        def lists() -> Iterator[SourcedList]:
            for task, searched in found:
                waiting.append((task, searched))
                if searched.nbest:
                    yield sourced_list(task.number, task.sentence, searched.nbest)

        for each, scores in self._scoring.score(lists(), "the source", "the hypotheses"):
            while not waiting[0][1].nbest:
                yield self._without_list(waiting.popleft()[1])
            yield self._ranked(*waiting.popleft(), *self._rescore(each, scores.values))
        yield from (self._without_list(searched) for _, searched in waiting)

    def output(self, task: TranslationTask, searched: SearchOutput) -> TranslationOutput:
        """Return the output for a sentence."""
        if not searched.nbest:  # not needed, or no translation within the distortion limit
            return self._without_list(searched)
        each = sourced_list(task.number, task.sentence, searched.nbest)
        if self._scoring is None:
            scores = np.array([each.nbest.total(index) for index in range(each.num_lines)])
            return self._ranked(task, searched, each.nbest, scores)
        return self._ranked(task, searched, *self._rescore(each, self._scoring.score_list(each)))

    @staticmethod
    def _without_list(searched: SearchOutput) -> TranslationOutput:
        return TranslationOutput(searched.words, 0.0, b"", (), searched.untranslated)

    def _rescore(self, each: SourcedList, values: Floats) -> tuple[NbestList, Values]:
        """Return the list with the system's features, and the score of each hypothesis.

        As in files, the features have the digits of an n-best list.
        """
        assert self._scoring is not None
        (found,) = parse_nbest([rescored_lines(self._scoring, each, values)], _LIST)
        return found, WeightedSum(self._weights)(found)

    def _ranked(
        self, task: TranslationTask, searched: SearchOutput, found: NbestList, scores: Values
    ) -> TranslationOutput:
        best, nbest = searched.words, found.raw
        order = list(range(found.num_lines))
        if self._scoring is not None:
            order = (-scores).argsort(kind="stable").tolist()
            best = found.hypothesis(order[0]).strip(b" ").decode()
            nbest = sorted_lines(found, scores)
        nbest = b"".join(nbest.splitlines(True)[: task.nbest])
        shown = order[: max(1, task.nbest)] if task.explain else []
        explained = tuple(
            self._explain(found, index, float(scores[index]), task, searched) for index in shown
        )
        attention = self._attend(task, explained) if task.attention else ()
        # The curve is for lists of this size.
        listed = scores[: self._system.nbest_size]
        sure = confidence(listed, order[0], self._system.confidence)
        untranslated = searched.untranslated
        return TranslationOutput(best, sure, nbest, explained, untranslated, attention)

    def _explain(
        self,
        found: NbestList,
        index: int,
        score: float,
        task: TranslationTask,
        searched: SearchOutput,
    ) -> ExplainedHypothesis:
        """Return a hypothesis with the features whose sum is its score.

        Without features of lists, the score is the one of the search, which also has features that
        lists omit, such as UnknownWordPenalty.
        """
        words = found.hypothesis(index).strip(b" ").decode()
        values = found.features(index)
        if self._scoring is None and searched.exact:
            score, values = searched.exact[index]  # with all digits
        features = [self._part(name, own) for name, own in values.items()]
        if self._omitted:
            rest = score - sum(part.contribution for part in features)
            features.append(FeaturePart(" + ".join(self._omitted), (rest,), (1.0,), rest))
        phrases: tuple[PhraseSpan, ...] = ()
        source, target = task.sentence.words, words.split(" ") if words else []
        if target and self._has_phrases and task.sentence.tokens is source:
            raw, line = found.raws[index], found.first_line + index
            phrases = tuple(parse_segmentation(raw, len(source), len(target), _LIST, line))
        return ExplainedHypothesis(words, score, tuple(features), phrases)

    def _part(self, name: str, values: tuple[float, ...]) -> FeaturePart:
        weights = self._weights.get(name, (0.0,) * len(values))
        total = sum(one * other for one, other in zip(values, weights, strict=True))
        return FeaturePart(name, values, weights, total)

    def _attend(
        self, task: TranslationTask, explained: Sequence[ExplainedHypothesis]
    ) -> tuple[Attention, ...]:
        """Return the weights of the first network with attention that reads the source, if any."""
        models = () if self._scoring is None else self._scoring.request.checkpoints_of(None)
        for network in models if task.sentence.words else ():
            if network.config.network.aligns_words and not network.reverse:
                from phrasescore.models.attention import attention_weights

                texts = (each.words.split(" ") if each.words else [] for each in explained)
                return tuple(
                    attention_weights(network, task.sentence.words, words) for words in texts
                )
        return ()


def load_list_features(
    system: System,
    compute: Compute,
    settings: Rescoring = Rescoring(),
    *,
    sets_threads: bool = True,
) -> Scoring | None:
    """Load the features of a system's lists; None if it has none.

    :raises ConfigError: if they cannot be combined.
    """
    if not system.lists:
        return None
    try:
        return Scoring.of(system.lists, settings, compute, sets_threads=sets_threads)
    except ArgumentError as error:
        raise ConfigError(system.path, "lists", str(error)) from error


def sourced_list(number: int, sentence: SystemSentence, nbest: bytes) -> SourcedList:
    """Return the n-best list of a sentence."""
    (found,) = parse_nbest([nbest], _LIST)
    return SourcedList(number, found, sentence.words)
