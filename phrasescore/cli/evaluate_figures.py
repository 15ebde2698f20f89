"""The figures of ``phrasescore evaluate``: where metrics, n-best lists and groups meet."""

import os
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from moses_integration.nbest import read_nbest
from phrasescore.cli.evaluate_report import BreakdownReport, ListReport, Row
from phrasescore.cli.progress import show_progress
from phrasescore.cli.reference_check import warn_of_lists
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import DataError
from phrasescore.evaluation.breakdowns import (
    Breakdown,
    by_length,
    by_unknown_words,
    count_unknown,
)
from phrasescore.evaluation.metrics import PairedComparison, Score, build_metric, compare, score
from phrasescore.evaluation.sentences import Sentences
from phrasescore.progress import Meter
from phrasescore.vocabulary import Vocabulary
from tuning.bleu import Bleu, BleuScore, bleu
from tuning.oracle import oracle_bleu


class Test(NamedTuple):
    """A paired test of each system against the first."""

    kind: Literal["bootstrap", "approximate"]
    trials: int
    seed: int


def multi_bleu(metric: Bleu, system: Sentences) -> BleuScore:
    """Return the figure that multi-bleu.perl prints: words as they stand, no smoothing."""
    statistics = metric.statistics(system.words, range(len(system.words)))
    return BleuScore.of(statistics.sum(axis=0))


def by_sacrebleu(
    names: Sequence[str],
    references: Sequence[Sentences],
    systems: Sequence[Sentences],
    tokenize: str,
    test: Test | None,
) -> tuple[list[list[Score]], list[PairedComparison]]:
    """Return sacrebleu's figures by system and metric, and the paired tests by metric."""
    if not names or not systems:
        return [[] for _ in systems], []
    texts = [sentences.texts for sentences in references]
    metrics = [build_metric(name, texts, tokenize) for name in names]
    scores = [[score(metric, system.texts) for metric in metrics] for system in systems]
    if test is None:
        return scores, []
    return scores, compare(metrics, [system.texts for system in systems], *test)


def of_lists(path: str, metric: Bleu, references: Sequence[Sentences]) -> ListReport:
    """Return what BLEU the first and the best hypotheses of n-best lists have.

    References that cannot well be those of the lists are warned of.

    :param references: those of the metric.
    :raises DataError: if a sentence has no list, or a list no sentence.
    """
    parts, segments, firsts = [], [], []
    with Meter("oracle", "hypotheses", show_progress) as progress:
        for expected, found in enumerate(read_nbest(path)):
            if found.id != expected or found.id >= metric.num_segments:
                problem = f"expected id {expected} of {metric.num_segments:,} sentences"
                if expected >= metric.num_segments:
                    problem = f"expected no more than {metric.num_segments:,} sentences"
                raise DataError(path, found.first_line, f"{problem}, found id {found.id}")
            words = list(found.distinct().values())
            owners = [found.id] * len(words)
            parts.append(metric.statistics(words, owners))
            firsts.append(words[0])
            segments += owners
            progress.update(len(found.raws))
    if len(parts) < metric.num_segments:
        problem = f"expected lists of {metric.num_segments:,} sentences, found {len(parts):,}"
        raise DataError(path, None, problem)
    warn_of_lists(path, firsts, references)
    first = BleuScore.of(np.array([part[0] for part in parts]).sum(axis=0))
    best = oracle_bleu(np.concatenate(parts), np.array(segments)).score
    return ListReport(path, len(segments), first, best)


def breakdowns(
    lengths_of: Sequence[str],
    width: int,
    unknown_to: str | None,
    source: Sentences | None,
    reference: Sentences,
) -> list[Breakdown]:
    """Return the groups that were asked for.

    :param lengths_of: sides, ``source`` or ``reference``.
    :param unknown_to: a model folder, whose shortlists are for both sides; or a vocabulary file,
        for the source where there is one, and otherwise for the reference.
    :raises PhrasescoreError: if ``unknown_to`` is neither.
    """
    sides = {"reference": reference}
    if source is not None:
        sides["source"] = source
    found = [
        by_length(side, [len(words) for words in sides[side].words], width)
        for side in dict.fromkeys(lengths_of)
    ]
    for side, vocabulary in _vocabularies(unknown_to, has_source=source is not None).items():
        found += by_unknown_words(side, count_unknown(vocabulary, sides[side].words))
    return found


def _vocabularies(path: str | None, *, has_source: bool) -> dict[str, Vocabulary]:
    """Return the words that are known, by side."""
    if path is None:
        return {}
    if not os.path.isdir(path):
        return {"source" if has_source else "reference": Vocabulary.load(path)}
    from phrasescore.models.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    known = {"reference": checkpoint.table_target_vocabulary}
    if checkpoint.config.kind in LANGUAGE_MODELS:
        return known  # it reads no source
    return {"source": checkpoint.table_source_vocabulary, **known} if has_source else known


def of_breakdowns(
    metric: Bleu, systems: Sequence[Sentences], found: Sequence[Breakdown]
) -> list[BreakdownReport]:
    """Return BLEU of every group and system, as multi-bleu.perl would print it of the group."""
    if not found:
        return []
    statistics = np.array(
        [metric.statistics(system.words, range(len(system.words))) for system in systems]
    )  # (systems, sentences, statistics)
    return [
        BreakdownReport(
            breakdown.title,
            [
                Row(
                    group.label,
                    len(group.members),
                    (100 * bleu(statistics[:, group.members].sum(axis=1))).tolist(),
                )
                for group in breakdown.groups
            ],
        )
        for breakdown in found
    ]
