"""Measure translations: metrics, paired tests, n-best lists, groups of sentences."""

import os
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric

from moses_integration.nbest import read_nbest
from phrasescore.arguments import (
    PairedTestName,
    ReportFormat,
    SideName,
    StrPath,
    Tokenizer,
    check_at_least,
    check_choice,
    check_sequences,
)
from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.errors import ArgumentError, DataError, show_controls
from phrasescore.evaluation.breakdowns import (
    Breakdown,
    count_unknown,
    group_by_length,
    group_by_unknown_words,
)
from phrasescore.evaluation.metrics import (
    OfPackage,
    PairedComparison,
    Score,
    build_metric,
    compare,
    score,
)
from phrasescore.evaluation.plugin_metric import OURS, PluginMetric, find_metric, known_metrics
from phrasescore.evaluation.sentences import (
    Sentences,
    check_aligned,
    find_references,
    read_sentences,
)
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.subwords import load_vocabulary
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
from tuning.bleu import Bleu, BleuScore, bleu
from tuning.oracle import oracle_bleu

# The number of samples that sacrebleu draws by default.
TRIALS = {"bootstrap": 1000, "approximate": 10000}
PLOT_FORMATS = ("pdf", "png", "svg")


def evaluate(
    hypotheses: Sequence[StrPath],
    references: Sequence[StrPath],
    *,
    metrics: Sequence[str] = ("multi-bleu", "bleu"),
    tokenize: Tokenizer = "none",
    paired: PairedTestName | None = None,
    trials: int | None = None,
    seed: int = 12345,
    nbest: StrPath | None = None,
    allow_missing: bool = False,
    by_length: Sequence[SideName] = (),
    width: int = 10,
    by_unknown: StrPath | None = None,
    source: StrPath | None = None,
    plot: StrPath | None = None,
    output: StrPath | None = None,
    report_format: ReportFormat = "text",
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Measure translations against references: one sentence per line in every file.

    Every figure of sacrebleu comes with its signature. The figures of groups and of n-best lists
    are those of multi-bleu.perl: text as it is split, and no smoothing. BLEU is from 0 to 100.

    :param hypotheses: a file per system, in order; may be empty where ``nbest`` is given.
    :param references: a file per set of references, or NAME for NAME0, NAME1 and so on.
    :param metrics: ``multi-bleu`` is the papers' figure, of text as it is split; ``bleu``,
        ``chrf``, ``chrf++`` and ``ter`` are sacrebleu's, and others those of other packages.
    :param tokenize: how the metric bleu splits text: ``none`` for tokenised text.
    :param paired: test each system against the first, by paired bootstrap (Koehn, 2004) or
        approximate randomization (Riezler and Maxwell, 2005).
    :param trials: samples drawn for ``paired``; None for sacrebleu's number.
    :param seed: of ``paired``, 1 or more; the same one gives the same p-values as in sacrebleu.
    :param nbest: n-best lists; measured are their first hypotheses, and the best choice (oracle).
    :param allow_missing: take an empty translation for a sentence without a list in ``nbest``.
    :param by_length: groups by the number of words of these sides.
    :param width: the number of lengths that share a group.
    :param by_unknown: groups by the number of words that a model (a folder) does not know, or that
        are not in a word list (a file).
    :param source: the source, for ``by_length`` and ``by_unknown``.
    :param plot: where a figure of the groups goes: a name in .png, .svg or .pdf.
    :param output: where the figures go as text or JSON; None for nowhere.
    :raises DataError: if files are of different numbers of lines.
    """
    check_sequences(hypotheses=hypotheses, references=references)
    check_sequences(metrics=metrics, by_length=by_length)
    plugins = {name: plugin for name in metrics if (plugin := find_metric(name)) is not None}
    check_choice(known_metrics(OURS), metric=metrics)
    check_choice(get_args(SideName), by_length=by_length)
    check_choice(get_args(Tokenizer), tokenize=tokenize)
    check_choice(TRIALS, paired=paired)
    check_choice(get_args(ReportFormat), format=report_format)
    check_at_least(1, trials=trials, seed=seed, width=width)
    translated = [os.fspath(path) for path in hypotheses]
    reference_paths = tuple(find_references(references))
    lists, vocabulary = optional_path(nbest), optional_path(by_unknown)
    source_path, figure = optional_path(source), optional_path(plot)
    if not translated and lists is None:
        raise ArgumentError("nothing to evaluate: give translations, or --nbest")
    if allow_missing and lists is None:
        raise ArgumentError("--allow-missing goes with --nbest")
    if not reference_paths:
        raise ArgumentError("--references: at least one file is needed")
    if paired is not None and len(translated) < 2:
        raise ArgumentError("--paired needs a second file of translations")
    if paired is not None and set(metrics) == {"multi-bleu"}:
        raise ArgumentError("--paired needs a --metric of sacrebleu, such as bleu")
    if trials is not None and paired is None:
        raise ArgumentError("--trials goes with --paired")
    is_grouped = bool(by_length) or vocabulary is not None
    if is_grouped and not translated:
        raise ArgumentError("--by-length and --by-unknown need translations")
    if "source" in by_length and source_path is None:
        raise ArgumentError("--by-length source needs --source")
    if source_path is not None and "source" not in by_length and vocabulary is None:
        raise ArgumentError("--source goes with --by-length source and --by-unknown")
    if figure is not None and not is_grouped:
        raise ArgumentError("--plot goes with --by-length and --by-unknown")
    if figure is not None and _ending(figure) not in PLOT_FORMATS:
        endings = ", ".join(f".{name}" for name in PLOT_FORMATS)
        raise ArgumentError(f"--plot: expected a name in {endings}, got {figure!r}")
    written = optional_path(output)
    check_files((*translated, *reference_paths, lists, source_path), (written, figure))
    sets = [read_sentences(path) for path in reference_paths]
    systems = [read_sentences(path) for path in translated]
    for system in systems:
        if system.texts[0].count(" ||| ") >= 3:
            problem = "expected one translation per line, found an n-best list"
            raise DataError(system.path, 1, f"{problem}: name it as --nbest")
    sides = {"reference": sets[0]}
    if source_path is not None:
        sides["source"] = read_sentences(source_path, is_source=True)
    check_aligned([*sets, *systems, *sides.values()])
    warn_of_texts(systems, sets)
    tokenised = Bleu([sentences.words for sentences in sets])
    names = [name for name in dict.fromkeys(metrics) if name != "multi-bleu"]
    test = None if paired is None else PairedTest(paired, trials or TRIALS[paired], seed)
    texts, words = [each.texts for each in sets], [each.words for each in sets]
    made = [
        OfPackage(PluginMetric(plugins[name], words), len(sets))
        if name in plugins
        else build_metric(name, texts, tokenize)
        for name in names
    ]
    scores, comparisons = _score_with_sacrebleu(made, systems, test)
    # (systems, sentences, statistics)
    statistics = [tokenised.statistics(each.words, range(len(each.words))) for each in systems]
    found = Evaluation(
        reference_paths,
        tokenised.num_segments,
        tuple(
            SystemFigures(
                system.path,
                system.num_empty,
                BleuScore.of(of_system.sum(axis=0)) if "multi-bleu" in metrics else None,
                by_sacrebleu,
            )
            for system, of_system, by_sacrebleu in zip(systems, statistics, scores, strict=True)
        ),
        test,
        comparisons,
        None
        if lists is None
        else _score_nbest(lists, tokenised, sets[0], progress, allow_missing=allow_missing),
        tuple(
            _score_groups(np.array(statistics), breakdown)
            for breakdown in _group_sentences(by_length, width, vocabulary, sides)
        ),
    )
    if figure is not None:
        _draw(figure, found)
    if written is not None:
        text = found.to_json() if report_format == "json" else found.to_text()
        with open_output(written) as stream:
            stream.write(show_controls(text).encode())
    return found


def _score_with_sacrebleu(
    metrics: Sequence[Metric], systems: Sequence[Sentences], test: PairedTest | None
) -> tuple[list[tuple[Score, ...]], tuple[PairedComparison, ...]]:
    """Return sacrebleu's figures by system and metric, and the paired tests by metric."""
    if not metrics or not systems:
        return [() for _ in systems], ()
    scores = [tuple(score(metric, system.texts) for metric in metrics) for system in systems]
    if test is None:
        return scores, ()
    translations = [system.texts for system in systems]
    return scores, tuple(compare(metrics, translations, test.kind, test.trials, test.seed))


def _score_nbest(
    path: str,
    metric: Bleu,
    reference: Sentences,
    progress: ProgressCallback | None,
    *,
    allow_missing: bool,
) -> NbestFigures:
    """Return BLEU of the first and of the best hypotheses of n-best lists.

    :param reference: one set of those of the metric, for a warning about lengths.
    :raises DataError: if a sentence has no list, or a list no sentence.
    """
    parts: list[NDArray[np.float64]] = []
    segments: list[int] = []
    words_of_first = 0

    def add(sent_id: int, words: list[tuple[str, ...]]) -> None:
        owners = [sent_id] * len(words)
        parts.append(metric.statistics(words, owners))
        segments.extend(owners)

    with Meter("oracle", "hypotheses", progress, lines_of=path) as meter:
        for found in read_nbest(path):
            expected = len(parts)
            is_missing = found.id != expected and not allow_missing
            if is_missing or found.id >= metric.num_segments:
                problem = f"expected id {expected} of {metric.num_segments:,} sentences"
                if expected >= metric.num_segments:
                    problem = f"expected no more than {metric.num_segments:,} sentences"
                raise DataError(path, found.first_line, f"{problem}, found id {found.id}")
            for sent_id in range(expected, found.id):
                add(sent_id, [()])
            words = list(found.distinct().values())
            add(found.id, words)
            words_of_first += len(words[0])
            meter.update(len(found.raws))
    if len(parts) < metric.num_segments and not allow_missing:
        problem = f"expected lists of {metric.num_segments:,} sentences, found {len(parts):,}"
        raise DataError(path, None, problem)
    for sent_id in range(len(parts), metric.num_segments):
        add(sent_id, [()])
    warn_of_lengths(path, words_of_first, reference.num_words)
    first = BleuScore.of(np.array([part[0] for part in parts]).sum(axis=0))
    best = oracle_bleu(np.concatenate(parts), np.array(segments)).score
    return NbestFigures(path, len(segments), first, best)


def _group_sentences(
    lengths_of: Sequence[str], width: int, unknown_to: str | None, sides: Mapping[str, Sentences]
) -> list[Breakdown]:
    """Return the groups by length and by unknown words.

    :param unknown_to: a model folder, whose shortlists are for both sides; or a vocabulary file,
        for the source where there is one, and otherwise for the reference.
    :raises PhrasescoreError: if ``unknown_to`` is neither.
    """
    found = [
        group_by_length(side, [len(words) for words in sides[side].words], width)
        for side in dict.fromkeys(lengths_of)
    ]
    known: dict[str, Vocabulary] = {}
    if unknown_to is not None and os.path.isdir(unknown_to):
        from phrasescore.models.checkpoint import load_checkpoint  # imports torch

        checkpoint = load_checkpoint(unknown_to)
        if checkpoint.config.kind not in LANGUAGE_MODELS:  # which read no source
            known["source"] = checkpoint.table_source_vocabulary
        known["reference"] = checkpoint.table_target_vocabulary
    elif unknown_to is not None:
        known["source" if "source" in sides else "reference"] = load_vocabulary(unknown_to)
    for side, vocabulary in known.items():
        if side in sides:
            found += group_by_unknown_words(side, count_unknown(vocabulary, sides[side].words))
    return found


def _score_groups(statistics: NDArray[np.int64], breakdown: Breakdown) -> BreakdownFigures:
    """Return BLEU of each group and system, as multi-bleu.perl would print it for the group.

    :param statistics: ``(systems, sentences, statistics)``.
    """
    groups = []
    for label, members in breakdown.groups:
        scores = 100 * bleu(statistics[:, members].sum(axis=1))
        groups.append(GroupFigures(label, len(members), tuple(scores.tolist())))
    return BreakdownFigures(breakdown.title, tuple(groups))


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
