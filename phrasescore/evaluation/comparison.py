"""Comparison of systems against the same references.

`evaluate`, `report` and the table of an experiment print what a `Comparison` computes. BLEU is
computed as in multi-bleu.perl: on the words in the files, without smoothing, from 0 to 100. Scores
with other metrics match sacrebleu's command line to the last digit, for the same files and settings
(Post, 2018, A Call for Clarity in Reporting BLEU Scores).
"""

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import msgspec
import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from phrasescore.arguments import TableMetric, Tokenizer
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.evaluation.sentences import Sentences, Text, check_aligned, read_text
from phrasescore.evaluation.significance import (
    Row,
    SummedMetric,
    TuningMetric,
    bootstrap_spread,
    difference_interval,
    digits_of,
    randomization_p_value,
)
from phrasescore.evaluation.systems_table import SystemScore, SystemsTable, TableRow, TableText
from tuning.metrics import Bleu, BleuScore, ReferenceMetric, Statistics, bleu, sentence_bleu
from tuning.metrics import Metric as TunedMetric

# Number of trials in the significance test, and its seed.
TRIALS = 10_000
SEED = 12345
P_VALUES = (
    "p: the probability of such a difference from the first row by chance, from approximate "
    f"randomization over sentences, {TRIALS:,} trials, seed {SEED}."
)
WIDTH = 10  # number of sentence lengths in a group
MOST_UNKNOWN = 10  # sentences with more unknown words than this are in one group


class Breakdown(NamedTuple):
    """Groups of sentences by a property, such as "words in the source"."""

    title: str
    groups: dict[str, list[int]]  # by heading: the indices of its sentences (at least one)


class ComparedSystem(NamedTuple):
    """The translations by a system: one text per tuning run (replica)."""

    name: str
    replicas: Sequence[Sentences]

    @property
    def text(self) -> Sentences:
        """The translations by the first replica."""
        return self.replicas[0]


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The BLEU score of each system on a group of sentences."""

    label: str
    sentences: int
    bleu: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BreakdownScores:
    """The BLEU scores for all groups in a breakdown; each group is scored as a corpus."""

    title: str
    groups: tuple[GroupScore, ...]


class Comparison:
    """Compares systems against references; all results are computed lazily.

    Only `scores` uses all replicas of a system; all other results are for the first one.

    :param source: the source text, for breakdowns.
    :param has_baseline: whether to compare all other systems with the first one.
    :param metric: what `scores` has; all other results are for BLEU.
    :raises DataError: if the texts differ in their number of lines.
    """

    def __init__(
        self,
        systems: Sequence[ComparedSystem],
        references: Sequence[Sentences],
        source: Sentences | None = None,
        *,
        has_baseline: bool = True,
        metric: TableMetric = "bleu",
    ) -> None:
        self.systems = systems
        self.references = references
        self.source = source
        self._has_baseline, self._metric_name = has_baseline, metric
        # The texts by whose words sentences can be grouped.
        self.sides = {"reference": references[0]}
        if source is not None:
            self.sides = {"source": source, **self.sides}
        translations = [text for system in systems for text in system.replicas]
        check_aligned([*references, *translations, *self.sides.values()])
        words = [text.words for text in references]
        self.metric: ReferenceMetric = Bleu(words)
        if metric != "bleu":
            from tuning.edit_distance import WordAccuracy  # imports numba

            self.metric = WordAccuracy(words)

    @cached_property
    def _statistics(self) -> list[Statistics]:
        """The metric's statistics for each system: ``(replicas, sentences, num_stats)``."""
        segments = range(len(self.references[0].texts))
        return [
            np.array([self.metric.statistics(text.words, segments) for text in system.replicas])
            for system in self.systems
        ]

    @cached_property
    def _first_statistics(self) -> Statistics:
        """BLEU statistics for the first replicas: ``(systems, sentences, num_stats)``."""
        return np.array([statistics[0] for statistics in self._statistics])

    def multi_bleu(self) -> list[BleuScore]:
        """Return BLEU with its components for each system."""
        return [BleuScore.of(statistics[0].sum(axis=0)) for statistics in self._statistics]

    @cached_property
    def scores(self) -> list[SystemScore]:
        """The scores of each system, in order, with significance tests against the baseline."""
        return self._compare(self.metric, self._statistics)

    def scores_by(self, metric: Metric) -> list[SystemScore]:
        """Return the same for another metric, such as one of `build_metric`."""
        summed = SummedMetric(metric)
        statistics = [
            np.array([summed.statistics(text.texts) for text in system.replicas])
            for system in self.systems
        ]
        return self._compare(summed, statistics, digits_of(metric))

    def _compare(
        self, metric: TunedMetric, systems: Sequence[Statistics], digits: int = 2
    ) -> list[SystemScore]:
        found: list[SystemScore] = []
        for statistics in systems:
            scores = tuple((100 * metric.score(statistics.sum(axis=1))).tolist())
            ratio = None
            if isinstance(metric, Bleu):
                whole = BleuScore.of(statistics[0].sum(axis=0))
                ratio = whole.length / whole.reference_length if whole.reference_length else 0.0
            score = SystemScore(scores, ratio, digits=digits)
            if found and self._has_baseline:
                pair = systems[0], statistics
                score = msgspec.structs.replace(
                    score,
                    difference=score.mean - found[0].mean,
                    interval=difference_interval(metric, *pair, SEED),
                    p_value=randomization_p_value(metric, *pair, trials=TRIALS, seed=SEED),
                )
            found.append(score)
        return found

    def to_table(self, text: str) -> SystemsTable:
        """Return the scores as a table of systems on a text with this name."""
        rows = (
            TableRow(system.name, scores={text: score})
            for system, score in zip(self.systems, self.scores, strict=True)
        )
        return SystemsTable(self._metric_name, texts=(TableText(text),), rows=tuple(rows))

    def sentence_scores(self) -> list[list[float]]:
        """Return smoothed sentence BLEU, 0 to 100, for each system and sentence."""
        scores: list[list[float]] = (100 * sentence_bleu(self._first_statistics)).tolist()
        return scores

    def build_metric(self, name: str, tokenize: Tokenizer = "none") -> Metric:
        """Build a metric with the references: one of sacrebleu's, or ours."""
        words = [text.words for text in self.references]
        if name in ("word_accuracy", "cer"):
            from tuning.edit_distance import CharacterAccuracy, WordAccuracy  # imports numba

            if name == "word_accuracy":
                return TuningMetric(WordAccuracy(words), len(words))
            return TuningMetric(CharacterAccuracy(words), len(words), error_rate="CER")
        references = [text.texts for text in self.references]
        if name == "bleu":
            try:
                # force=True disables the warning about text that is already tokenised.
                return BLEU(tokenize=tokenize, force=True, references=references)
            except (Exception, SystemExit) as error:  # sacrebleu exits if a certificate is wrong
                if tokenize != "flores200":
                    raise
                raise _no_flores_model(error) from error
        if name == "ter":
            return TER(references=references)
        return CHRF(word_order=2 if name == "chrf++" else 0, references=references)

    def rows(self, hypotheses: Sequence[str]) -> list[Row]:
        """Return the source ("" if it is unknown), hypothesis and references of each sentence."""
        references = [text.texts for text in self.references]
        source = [""] * len(hypotheses) if self.source is None else self.source.texts
        return list(zip(source, hypotheses, *references, strict=True))

    def by_length(self, side: str) -> Breakdown:
        """Group sentences by their number of words on a side: 0, 1 to 10, 11 to 20 and so on."""
        members: dict[int, list[int]] = {}
        for index, words in enumerate(self.sides[side].words):
            members.setdefault(-(-len(words) // WIDTH) * WIDTH, []).append(index)
        groups = {}
        for last in sorted(members):
            first = max(last - WIDTH + 1, 0)
            groups[str(last) if first == last else f"{first}-{last}"] = members[last]
        return Breakdown(f"words in the {side}", groups)

    def by_unknown_words(self, shortlists: Mapping[str, Container[str]]) -> list[Breakdown]:
        """Group the sentences by the words on each side that a network's shortlist lacks."""
        breakdowns = []
        for side, vocabulary in shortlists.items():
            if side in self.sides:
                sentences = self.sides[side].words
                counts = [sum(word not in vocabulary for word in words) for words in sentences]
                breakdowns += group_by_unknown_words(side, counts)
        return breakdowns

    def score_groups(self, breakdown: Breakdown) -> BreakdownScores:
        """Return the BLEU scores for each group of sentences."""
        groups = []
        for label, members in breakdown.groups.items():
            scores = 100 * bleu(self._first_statistics[:, members].sum(axis=1))
            groups.append(GroupScore(label, len(members), tuple(scores.tolist())))
        return BreakdownScores(breakdown.title, tuple(groups))

    def group_spreads(self, breakdown: Breakdown) -> list[list[float]]:
        """Return half the width of the 95% bootstrap interval for BLEU, by group and system."""
        return [
            bootstrap_spread(self.metric, self._first_statistics[:, members], SEED)
            for members in breakdown.groups.values()
        ]


def _no_flores_model(error: BaseException) -> PhrasescoreError:
    url = SPM_MODELS["flores200"]["url"]
    path = os.path.join(SACREBLEU_DIR, "models", os.path.basename(url))
    reason = " ".join(str(error).split())
    return PhrasescoreError(
        f"--tokenize flores200: sacrebleu cannot load its model, which it downloads once "
        f"({reason}); save {url} as {path}, in place of an incomplete file"
    )


class Score(NamedTuple):
    """The score of a system with a metric."""

    # The name in sacrebleu (BLEU, chrF2, chrF2++, TER), or of ours.
    metric: str
    score: float  # 0 to 100, or a program's mean; a lower TER or CER is better
    signature: str  # all settings that the score depends on
    line: str  # the line that sacrebleu prints, with the signature

    @classmethod
    def of(cls, metric: Metric, hypotheses: Sequence[str]) -> Self:
        """Score translations with a metric."""
        result = metric.corpus_score(hypotheses, None)
        signature = metric.get_signature().format()
        line = result.format(digits_of(metric), False, signature)
        return cls(result.name, result.score, signature, line)


def read_translations(translations: Text, name: str = "") -> Sentences:
    """Return translations as `read_text` does; an n-best list is an error."""
    text = read_text(translations, name)
    if text.texts[0].count(" ||| ") >= 3:
        problem = "expected one translation per line, found an n-best list: pass it with --lists"
        raise DataError(text.path, 1, problem)
    return text


def group_by_unknown_words(side: str, counts: Sequence[int]) -> list[Breakdown]:
    """Group sentences by their unknown words on a side: exactly n, and (Cho et al.) at most n."""
    exactly, at_most = {}, {}
    for number in range(min(max(counts), MOST_UNKNOWN) + 1):
        exactly[str(number)] = [index for index, count in enumerate(counts) if count == number]
        at_most[str(number)] = [index for index, count in enumerate(counts) if count <= number]
    if above := [index for index, count in enumerate(counts) if count > MOST_UNKNOWN]:
        exactly[f"> {MOST_UNKNOWN}"] = above
        at_most["any"] = list(range(len(counts)))
    return [
        Breakdown(title, {label: members for label, members in groups.items() if members})
        for title, groups in (
            (f"unknown words in the {side}", exactly),
            (f"at most this number of unknown words in the {side}", at_most),
        )
    ]
