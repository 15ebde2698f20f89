"""Measure translations: metrics, paired tests, n-best lists, groups of sentences."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Literal

import numpy as np

from moses_integration.nbest import read_nbest
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.breakdowns import (
    Breakdown,
    count_unknown,
    group_by_length,
    group_by_unknown_words,
)
from phrasescore.evaluation.metrics import PairedComparison, Score, build_metric, compare, score
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.io.output import check_files, open_output
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.evaluation import (
    BreakdownFigures,
    Evaluation,
    GroupFigures,
    NbestFigures,
    PairedTest,
    SystemFigures,
)
from phrasescore.workflows.text_checks import warn_of_lengths, warn_of_texts
from phrasescore.workflows.warnings import collecting_warnings
from tuning.bleu import Bleu, BleuScore, bleu
from tuning.oracle import oracle_bleu

MULTI_BLEU = "multi-bleu"
# What sacrebleu draws by default.
TRIALS = {"bootstrap": 1000, "approximate": 10000}
PLOT_FORMATS = ("pdf", "png", "svg")


def evaluate(
    hypotheses: Sequence[str | os.PathLike[str]],
    references: Sequence[str | os.PathLike[str]],
    *,
    metrics: Sequence[str] = (MULTI_BLEU, "bleu"),
    tokenize: str = "none",
    paired: Literal["bootstrap", "approximate"] | None = None,
    trials: int | None = None,
    seed: int = 12345,
    nbest: str | os.PathLike[str] | None = None,
    by_length: Sequence[str] = (),
    width: int = 10,
    by_unknown: str | os.PathLike[str] | None = None,
    source: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    report_format: Literal["text", "json"] = "text",
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Measure translations against references: one sentence per line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are those of multi-bleu.perl: text as it is split, and no smoothing. BLEU is from 0 to 100.

    :param hypotheses: a file per system, in order; may be empty where ``nbest`` is given.
    :param references: a file per set of references.
    :param metrics: of multi-bleu (the papers' figure, of text as it is split), and of sacrebleu's
        bleu, chrf, chrf++ and ter.
    :param tokenize: how the metric bleu splits text: ``none`` for tokenised text.
    :param paired: test each system against the first, by paired bootstrap (Koehn, 2004) or
        approximate randomization (Riezler and Maxwell, 2005).
    :param trials: samples drawn for ``paired``; None for sacrebleu's number.
    :param seed: of ``paired``, 1 or more; the same one gives the same p-values as in sacrebleu.
    :param nbest: n-best lists; measured are their first hypotheses, and the best choice (oracle).
    :param by_length: sides, ``source`` or ``reference``: groups by their number of words.
    :param width: how many lengths share a group.
    :param by_unknown: groups by the number of words that a model (a folder) does not know, or that
        are not in a word list (a file).
    :param source: the source, for ``by_length`` and ``by_unknown``.
    :param plot: where a figure of the groups goes: a name in .png, .svg or .pdf.
    :param output: where the figures go as text or JSON; None for nowhere, ``-`` for stdout.
    :raises ArgumentError: if arguments do not go together.
    :raises DataError: if files are not what they should be, or of different numbers of lines.
    """
    translated = [os.fspath(path) for path in hypotheses]
    reference_paths = [os.fspath(path) for path in references]
    nbest, by_unknown, source, plot, output = (
        None if path is None else os.fspath(path)
        for path in (nbest, by_unknown, source, plot, output)
    )
    _check_arguments(translated, metrics, paired, trials, nbest, by_length, by_unknown, source)
    if plot is not None:
        _check_plot(plot, is_grouped=bool(by_length) or by_unknown is not None)
    inputs = (
        *translated,
        *reference_paths,
        *(path for path in (nbest, source) if path is not None),
    )
    check_files(inputs, (output, plot))
    with collecting_warnings() as warnings:
        sets = [read_sentences(path) for path in reference_paths]
        systems = [read_sentences(path) for path in translated]
        for system in systems:
            if system.texts[0].count(" ||| ") >= 3:
                problem = "expected one translation per line, found an n-best list"
                raise DataError(system.path, 1, f"{problem}: name it as `nbest`")
        sources = read_sentences(source) if source is not None else None
        check_aligned([*sets, *systems, *([sources] if sources else ())])
        warn_of_texts(systems, sets)
        tokenised = Bleu([sentences.words for sentences in sets])
        names = [name for name in dict.fromkeys(metrics) if name != MULTI_BLEU]
        test = None if paired is None else PairedTest(paired, trials or TRIALS[paired], seed)
        scores, comparisons = _score_with_sacrebleu(names, sets, systems, tokenize, test)
        breakdowns = _group_sentences(by_length, width, by_unknown, sources, sets[0])
        found = Evaluation(
            references=reference_paths,
            sentences=tokenised.num_segments,
            systems=[
                SystemFigures(
                    system.path,
                    system.num_empty,
                    _multi_bleu(tokenised, system) if MULTI_BLEU in metrics else None,
                    of_system,
                )
                for system, of_system in zip(systems, scores, strict=True)
            ],
            test=test,
            comparisons=comparisons,
            nbest=None if nbest is None else score_nbest(nbest, tokenised, sets[0], progress),
            breakdowns=score_breakdowns(tokenised, systems, breakdowns),
        )
        if plot is not None:
            _draw(plot, found)
        if output is not None:
            text = found.to_json() if report_format == "json" else found.to_text()
            with open_output(output) as stream:
                stream.write(text.encode())
    return dataclasses.replace(found, warnings=tuple(warnings))


def _check_arguments(
    hypotheses: Sequence[str],
    metrics: Sequence[str],
    paired: str | None,
    trials: int | None,
    nbest: str | None,
    by_length: Sequence[str],
    by_unknown: str | None,
    source: str | None,
) -> None:
    """Check that the arguments go together."""
    if not hypotheses and nbest is None:
        raise ArgumentError("nothing to evaluate: give `hypotheses`, or `nbest`")
    if paired is not None and len(hypotheses) < 2:
        raise ArgumentError("`paired` needs a second file of `hypotheses`")
    if paired is not None and set(metrics) == {MULTI_BLEU}:
        raise ArgumentError("`paired` needs one of sacrebleu's `metrics`, such as bleu")
    if trials is not None and paired is None:
        raise ArgumentError("`trials` goes with `paired`")
    if (by_length or by_unknown is not None) and not hypotheses:
        raise ArgumentError("`by_length` and `by_unknown` need `hypotheses`")
    if "source" in by_length and source is None:
        raise ArgumentError("`by_length` source needs `source`")
    if source is not None and "source" not in by_length and by_unknown is None:
        raise ArgumentError("`source` goes with `by_length` source and `by_unknown`")


def _check_plot(path: str, *, is_grouped: bool) -> None:
    if not is_grouped:
        raise ArgumentError("`plot` goes with `by_length` and `by_unknown`")
    if _ending(path) not in PLOT_FORMATS:
        endings = ", ".join(f".{name}" for name in PLOT_FORMATS)
        raise ArgumentError(f"`plot`: expected a name in {endings}, got {path!r}")


def _multi_bleu(metric: Bleu, system: Sentences) -> BleuScore:
    """Return the figure that multi-bleu.perl prints: words as they stand, no smoothing."""
    statistics = metric.statistics(system.words, range(len(system.words)))
    return BleuScore.of(statistics.sum(axis=0))


def _score_with_sacrebleu(
    names: Sequence[str],
    references: Sequence[Sentences],
    systems: Sequence[Sentences],
    tokenize: str,
    test: PairedTest | None,
) -> tuple[list[list[Score]], list[PairedComparison]]:
    """Return sacrebleu's figures by system and metric, and the paired tests by metric."""
    if not names or not systems:
        return [[] for _ in systems], []
    texts = [sentences.texts for sentences in references]
    metrics = [build_metric(name, texts, tokenize) for name in names]
    scores = [[score(metric, system.texts) for metric in metrics] for system in systems]
    if test is None:
        return scores, []
    translations = [system.texts for system in systems]
    return scores, compare(metrics, translations, test.kind, test.trials, test.seed)


def score_nbest(
    path: str, metric: Bleu, reference: Sentences, progress: ProgressCallback | None = None
) -> NbestFigures:
    """Return BLEU of the first and of the best hypotheses of n-best lists.

    :param reference: one set of those of the metric, for a warning about lengths.
    :raises DataError: if a sentence has no list, or a list no sentence.
    """
    parts, segments, words_of_first = [], [], 0
    with Meter("oracle", "hypotheses", progress) as meter:
        for expected, found in enumerate(read_nbest(path)):
            if found.id != expected or found.id >= metric.num_segments:
                problem = f"expected id {expected} of {metric.num_segments:,} sentences"
                if expected >= metric.num_segments:
                    problem = f"expected no more than {metric.num_segments:,} sentences"
                raise DataError(path, found.first_line, f"{problem}, found id {found.id}")
            words = list(found.distinct().values())
            owners = [found.id] * len(words)
            parts.append(metric.statistics(words, owners))
            words_of_first += len(words[0])
            segments += owners
            meter.update(len(found.raws))
    if len(parts) < metric.num_segments:
        problem = f"expected lists of {metric.num_segments:,} sentences, found {len(parts):,}"
        raise DataError(path, None, problem)
    warn_of_lengths(path, words_of_first, reference.num_words)
    first = BleuScore.of(np.array([part[0] for part in parts]).sum(axis=0))
    best = oracle_bleu(np.concatenate(parts), np.array(segments)).score
    return NbestFigures(path, len(segments), first, best)


def _group_sentences(
    lengths_of: Sequence[str],
    width: int,
    unknown_to: str | None,
    source: Sentences | None,
    reference: Sentences,
) -> list[Breakdown]:
    """Return the groups by length and by unknown words.

    :param lengths_of: sides, ``source`` or ``reference``.
    :param unknown_to: a model folder, whose shortlists are for both sides; or a vocabulary file,
        for the source where there is one, and otherwise for the reference.
    :raises PhrasescoreError: if ``unknown_to`` is neither.
    """
    sides = {"reference": reference}
    if source is not None:
        sides["source"] = source
    found = [
        group_by_length(side, [len(words) for words in sides[side].words], width)
        for side in dict.fromkeys(lengths_of)
    ]
    for side, vocabulary in _vocabularies(unknown_to, has_source=source is not None).items():
        found += group_by_unknown_words(side, count_unknown(vocabulary, sides[side].words))
    return found


def _vocabularies(path: str | None, *, has_source: bool) -> dict[str, Vocabulary]:
    """Return the words that are known, by side."""
    if path is None:
        return {}
    if not os.path.isdir(path):
        return {"source" if has_source else "reference": Vocabulary.load(path)}
    from phrasescore.models.checkpoint import load_checkpoint  # imports torch

    checkpoint = load_checkpoint(path)
    known = {"reference": checkpoint.table_target_vocabulary}
    if checkpoint.config.kind in LANGUAGE_MODELS:
        return known  # it reads no source
    return {"source": checkpoint.table_source_vocabulary, **known} if has_source else known


def score_breakdowns(
    metric: Bleu, systems: Sequence[Sentences], breakdowns: Sequence[Breakdown]
) -> list[BreakdownFigures]:
    """Return BLEU of every group and system, as multi-bleu.perl would print it of the group."""
    if not breakdowns:
        return []
    statistics = np.array(
        [metric.statistics(system.words, range(len(system.words))) for system in systems]
    )  # (systems, sentences, statistics)
    return [
        BreakdownFigures(
            breakdown.title,
            [
                GroupFigures(
                    group.label,
                    len(group.members),
                    (100 * bleu(statistics[:, group.members].sum(axis=1))).tolist(),
                )
                for group in breakdown.groups
            ],
        )
        for breakdown in breakdowns
    ]


def _draw(path: str, found: Evaluation) -> None:
    from phrasescore.evaluation.plots import Panel, draw  # imports matplotlib

    panels = [
        Panel(
            f"{breakdown.title} (sentences)",
            [f"{group.label}\n({group.sentences:,})" for group in breakdown.groups],
            [list(line) for line in zip(*(each.bleu for each in breakdown.groups), strict=True)],
        )
        for breakdown in found.breakdowns
    ]
    image = draw(panels, [system.path for system in found.systems], _ending(path))
    with open_output(path) as stream:
        stream.write(image)


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].removeprefix(".").lower()
