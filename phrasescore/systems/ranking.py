"""The translation of a sentence: after the search, features of its list choose the hypothesis."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from moses_integration.alignments import PhraseSpan, parse_segmentation
from moses_integration.decoder.moses import ListRequest
from moses_integration.list_features import WeightedSum, sorted_lines, totals
from moses_integration.nbest import NbestList, parse_nbest
from moses_integration.nbest_values import Hypothesis, hypotheses_of
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.scoring import Floats, Scoring
from phrasescore.systems.search import SearchOutput
from phrasescore.systems.sourced_lists import SourcedList, rescored_lines
from phrasescore.systems.system import System
from phrasescore.systems.text import SystemSentence
from tuning.confidence import confidence

_LIST = "the n-best list"
_TOGETHER = 32  # lists that are parsed together

# The weights of source words and their ``</s>``, a row for each word of a translation and ``</s>``.
Attention = tuple[tuple[float, ...], ...]


class FeaturePart(NamedTuple):
    """A feature of a hypothesis: its values, their weights, and the sum of their products."""

    name: str
    values: tuple[float, ...]
    weights: tuple[float, ...]
    contribution: float


class ExplainedHypothesis(NamedTuple):
    """A hypothesis with everything that its score consists of."""

    words: str  # separated by spaces
    score: float
    features: tuple[FeaturePart, ...]
    phrases: tuple[PhraseSpan, ...]  # in target order; none of another decoder or of characters


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of a sentence by a system."""

    source: tuple[str, ...]  # the words that were translated
    text: str
    words: tuple[str, ...]  # the text before detokenising
    # The probability, 0 to 1, that no other hypothesis of the list is better (docs/translate.md).
    confidence: float | None
    nbest: bytes  # the n-best list in Moses' format with the system's features, if requested
    # The best hypotheses with their features, if requested.
    hypotheses: tuple[ExplainedHypothesis, ...]
    attention: tuple[Attention, ...] = ()  # of each hypothesis, if requested
    untranslated: bool = False  # whether there is no translation within the limits
    unknown: tuple[str, ...] = ()  # words of the source that are no phrase of the table
    texts: tuple[str, ...] = ()  # of the hypotheses, detokenised, if requested

    def __str__(self) -> str:
        return self.text

    def to_list(self) -> list[Hypothesis]:
        """Return the hypotheses of the n-best list, if it was requested."""
        return hypotheses_of(_parse(self.nbest)) if self.nbest else []

    def to_json(self) -> bytes:
        """Return the fields as a JSON object, except those about lists, networks and limits."""
        others = ("nbest", "attention", "untranslated", "unknown", "texts")
        names = [name for name in self.__slots__ if name not in others]
        fields = {name: getattr(self, name) for name in names}
        fields["hypotheses"] = [
            {
                **each._asdict(),
                "features": [part._asdict() for part in each.features],
                "phrases": [span._asdict() for span in each.phrases],
            }
            for each in self.hypotheses
        ]
        return msgspec.json.encode(fields)


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

    def request(self, system: System, *, characters: bool) -> ListRequest | None:
        """Return the n-best list that the decoder must write, or None if it need not write one.

        A system with features of lists has lists of one size, on which the translation depends.
        """
        if system.lists:
            size = system.nbest_size
        elif self.nbest or self.confidence or self.explain:
            size = max(self.nbest, system.nbest_size if self.confidence or self.explain else 1)
        else:
            return None
        wanted = self.lists or ListRequest(size, distinct=True)
        return wanted._replace(
            size=size,
            distinct=wanted.distinct or bool(system.lists),
            segmentation=wanted.segmentation or (self.explain and not characters),
        )


class Ranking:
    """Chooses the best hypothesis of each list by the weights of a system.

    The text of a translation is then its words, not yet detokenised.

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
        self, tasks: Sequence[TranslationTask], outputs: Iterable[SearchOutput]
    ) -> Iterator[Translation]:
        """Yield the translation of each sentence of a text, given the decoder's outputs."""
        sentences = [task.sentence for task in tasks]
        lists = featured_lists(self._scoring, sentences, outputs)
        for task, (searched, found) in zip(tasks, lists, strict=True):
            yield self._ranked(task, searched, found)

    def output(self, task: TranslationTask, searched: SearchOutput) -> Translation:
        """Return the translation of a sentence of a stream."""
        found = None
        if searched.nbest:
            found = _parse(searched.nbest)
            if self._scoring is not None:
                each = SourcedList(0, found, task.sentence.words)
                found = _with_features(self._scoring, each, self._scoring.score_list(each))
        return self._ranked(task, searched, found)

    def _ranked(
        self, task: TranslationTask, searched: SearchOutput, found: NbestList | None
    ) -> Translation:
        best, sure, nbest = searched.words, 0.0, b""
        explained: tuple[ExplainedHypothesis, ...] = ()
        if found is not None:  # a list is needed, and there is a translation within the limits
            scores = totals(found) if self._scoring is None else WeightedSum(self._weights)(found)
            order, nbest = list(range(found.num_lines)), found.raw
            if self._scoring is not None:
                order = (-scores).argsort(kind="stable").tolist()
                best = found.hypothesis(order[0]).strip(b" ").decode()
                nbest = sorted_lines(found, scores)
            nbest = b"".join(nbest.splitlines(True)[: task.nbest])
            shown = order[: max(1, task.nbest)] if task.explain else []
            explained = tuple(
                self._explain(found, index, float(scores[index]), task, searched) for index in shown
            )
            # The curve is for lists of this size.
            listed = scores[: self._system.nbest_size]
            sure = confidence(listed, order[0], self._system.confidence)
        return Translation(
            task.sentence.words,
            best,
            tuple(best.split(" ")) if best else (),
            sure if task.confidence else None,
            nbest,
            explained,
            self._attend(task, explained) if task.attention else (),
            searched.untranslated,
            searched.unknown,
        )

    def _explain(
        self,
        found: NbestList,
        index: int,
        score: float,
        task: TranslationTask,
        searched: SearchOutput,
    ) -> ExplainedHypothesis:
        """Return a hypothesis with the features whose sum is its score."""
        # Without features of lists, the score is the one of the search, which also has features
        # that lists omit, such as UnknownWordPenalty.
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
        source = task.sentence.words
        models = () if self._scoring is None else self._scoring.request.checkpoints_of(None)
        for network in models if source else ():
            if network.config.network.aligns_words and not network.reverse:
                from phrasescore.models.attention import attention_weights

                texts = (each.words.split(" ") if each.words else [] for each in explained)
                return tuple(attention_weights(network, source, words) for words in texts)
        return ()


def load_list_features(
    system: System,
    compute: Compute,
    settings: Rescoring = Rescoring(),
    *,
    sets_threads: bool = True,
) -> Scoring | None:
    """Load the features of a system's lists; None if it has none."""
    if not system.lists:
        return None
    try:
        return Scoring.of(system.lists, settings, compute, sets_threads=sets_threads)
    except ArgumentError as error:
        raise ConfigError(system.path, "lists", str(error)) from error


def featured_lists(
    scoring: Scoring | None, sentences: Sequence[SystemSentence], outputs: Iterable[SearchOutput]
) -> Iterator[tuple[SearchOutput, NbestList | None]]:
    """Yield the decoder's output for each sentence with its list, or None if it has none.

    The features of the lists are computed for many lists at once.
    """
    if scoring is None:
        yield from _parsed(outputs)
        return
    waiting: deque[SearchOutput] = deque()

    def lists() -> Iterator[SourcedList]:
        numbered = enumerate(zip(sentences, _parsed(outputs), strict=True))
        for number, (sentence, (searched, found)) in numbered:
            waiting.append(searched)
            if found is not None:
                yield SourcedList(number, found, sentence.words)

    for each, scores in scoring.score(lists(), "the source", "the hypotheses"):
        while not waiting[0].nbest:
            yield waiting.popleft(), None
        yield waiting.popleft(), _with_features(scoring, each, scores)
    yield from ((searched, None) for searched in waiting)


def _parsed(outputs: Iterable[SearchOutput]) -> Iterator[tuple[SearchOutput, NbestList | None]]:
    """Yield outputs with their lists, which are parsed together, because that is faster."""
    remaining = iter(outputs)
    while some := list(islice(remaining, _TOGETHER)):
        raw = b"".join(each.nbest for each in some)
        lists = parse_nbest([raw], _LIST) if raw else iter(())
        yield from ((each, next(lists) if each.nbest else None) for each in some)


def _with_features(scoring: Scoring, each: SourcedList, values: Floats) -> NbestList:
    return _parse(rescored_lines(scoring, each, values))


def _parse(nbest: bytes) -> NbestList:
    (found,) = parse_nbest([nbest], _LIST)
    return found
