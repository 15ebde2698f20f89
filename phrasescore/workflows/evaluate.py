"""Score translations, n-best lists and groups of sentences with metrics and paired tests."""

import json
import logging
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric

from phrasescore.arguments import METRICS, ReportFormat, StrPath, check_sequences
from phrasescore.errors import ArgumentError, show_controls
from phrasescore.evaluation.comparison import (
    SEED,
    BreakdownScores,
    ComparedSystem,
    Comparison,
    Score,
    read_translations,
)
from phrasescore.evaluation.sentences import Text, find_references, name_texts, read_text
from phrasescore.evaluation.significance import (
    MeanMetric,
    PairedComparison,
    PairedTest,
    run_paired_test,
)
from phrasescore.evaluation.systems_table import is_of_tuning
from phrasescore.features.program import ProgramScore
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text_table import text_table
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.declaration import check
from phrasescore.settings.evaluation import Evaluating
from phrasescore.systems.text_checks import (
    known_words,
    warn_of_lengths,
    warn_of_texts,
    warn_of_tokenization,
)
from phrasescore.vocabulary import load_vocabulary
from tuning.metrics import BleuScore, Statistics, oracle_rows

_logger = logging.getLogger(__name__)

TRIALS = {"bootstrap": 1000, "approximate": 10000}  # sacrebleu's default number of samples
_ERROR_RATES = ("TER", "CER")  # lower is better
_TEST_NAMES = {"bootstrap": "paired bootstrap", "approximate": "paired approximate randomization"}
_SACREBLEU_NAMES = ("bleu", "chrf2", "chrf2++", "ter")


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """The scores of a system."""

    path: str  # or the name of sentences from Python
    empty_lines: int
    multi_bleu: BleuScore
    scores: tuple[Score, ...]
    prints_multi_bleu: bool = False


@dataclass(frozen=True, slots=True)
class NbestFigures:
    """BLEU for the first hypotheses in n-best lists, and for the oracle, the best selection."""

    path: str
    hypotheses: int  # number of distinct hypotheses
    first: BleuScore
    oracle: BleuScore


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All scores of an evaluation, from 0 to 100."""

    references: tuple[str, ...]
    sentences: int
    systems: tuple[SystemFigures, ...]
    test: PairedTest | None
    comparisons: tuple[PairedComparison, ...]
    nbest: NbestFigures | None
    breakdowns: tuple[BreakdownScores, ...]

    def to_json(self) -> str:
        """Convert the scores to a JSON object."""
        report: dict[str, Any] = {
            "references": self.references,
            "sentences": self.sentences,
            "systems": [_system_json(system) for system in self.systems],
        }
        if self.test is not None:
            report["paired"] = {
                **asdict(self.test),
                "baseline": self.systems[0].path,
                "metrics": [self._comparison_json(result) for result in self.comparisons],
            }
        if self.nbest is not None:
            report["nbest"] = {
                "path": self.nbest.path,
                "distinct_hypotheses": self.nbest.hypotheses,
                "first": _bleu_json(self.nbest.first),
                "oracle": _bleu_json(self.nbest.oracle),
            }
        if self.breakdowns:
            report["breakdowns"] = [asdict(breakdown) for breakdown in self.breakdowns]
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"

    def _comparison_json(self, comparison: PairedComparison) -> dict[str, Any]:
        systems = zip(self.systems, comparison.systems, strict=True)
        return {
            "metric": comparison.metric,
            "signature": comparison.signature,
            "systems": [{"path": system.path, **paired._asdict()} for system, paired in systems],
        }

    def to_text(self) -> str:
        """Format the scores as text; for one system, as multi-bleu.perl and sacrebleu do."""
        return "\n\n".join("\n".join(lines) for lines in self._parts()) + "\n"

    __repr__ = to_text

    def _parts(self) -> Iterator[list[str]]:
        for system in self.systems:
            lines = [str(system.multi_bleu)] * system.prints_multi_bleu
            lines += [figures.line for figures in system.scores]
            yield lines if len(self.systems) == 1 else [system.path, *(f"  {x}" for x in lines)]
        if self.test is not None:
            for comparison in self.comparisons:
                yield self._comparison_lines(self.test, comparison)
        if self.nbest is not None:
            rows = [("first", str(self.nbest.first)), ("oracle", str(self.nbest.oracle))]
            head = f"{self.nbest.path}: {self.nbest.hypotheses:,} distinct hypotheses"
            yield [head, *text_table(rows, "l", indent="  ")]
        for breakdown in self.breakdowns:
            cells = [["", "sentences", *(system.path for system in self.systems)]]
            for group in breakdown.groups:
                scores = (f"{bleu:.2f}" for bleu in group.bleu)
                cells.append([group.label, f"{group.sentences:,}", *scores])
            yield [f"BLEU by {breakdown.title}", *text_table(cells, indent="  ")]

    def _comparison_lines(self, test: PairedTest, comparison: PairedComparison) -> list[str]:
        has_interval = test.kind == "bootstrap"
        interval = ["mean and 95% interval"] if has_interval else []
        rows = [["system", comparison.metric, *interval, "p", ""]]
        choose = min if comparison.metric in _ERROR_RATES else max
        best = choose(paired.score for paired in comparison.systems)
        # A program does not say whether high or low numbers are good.
        is_known = "package:program" not in comparison.signature
        for system, paired in zip(self.systems, comparison.systems, strict=True):
            digits = comparison.digits
            interval = (
                [f"{paired.mean:.{digits}f} ± {paired.confidence:.{digits}f}"]
                if has_interval
                else []
            )
            p_value = "baseline" if paired.p_value is None else f"{paired.p_value:.4f}"
            mark = "best" if paired.score == best and is_known else ""
            rows.append([system.path, f"{paired.score:.{digits}f}", *interval, p_value, mark])
        return [
            f"{_TEST_NAMES[test.kind]} against {self.systems[0].path}",
            f"{comparison.metric}|{comparison.signature}",
            *text_table(rows, indent="  "),
        ]


def _system_json(system: SystemFigures) -> dict[str, Any]:
    report: dict[str, Any] = {
        "path": system.path,
        "empty_lines": system.empty_lines,
        "multi-bleu": _bleu_json(system.multi_bleu),
    }
    for figures in system.scores:
        values = figures._asdict()
        report[values.pop("metric")] = values
    return report


def _bleu_json(score: BleuScore) -> dict[str, Any]:
    return {
        "score": 100 * score.bleu,
        "precisions": [100 * precision for precision in score.precisions],
        "brevity_penalty": score.brevity_penalty,
        "length": score.length,
        "reference_length": score.reference_length,
        "line": str(score),
    }


def evaluate(
    hypotheses: Sequence[Text] | Mapping[str, Text],
    references: Sequence[Text],
    *,
    settings: Evaluating = Evaluating(),
    lists: StrPath | None = None,
    source: Text | None = None,
    output: StrPath | None = None,
    report_format: ReportFormat = "text",
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Score translations against references.

    A text is a file with one sentence per line, or a list of sentences: strings, or sequences of
    words. Scores from sacrebleu include its signature. Groups and n-best lists are scored with BLEU
    as in multi-bleu.perl: on the words in the text, without smoothing, from 0 to 100.

    :param hypotheses: one text per system, or a mapping from the systems' names to their texts;
        may be empty if ``lists`` is not None.
    :param references: one text per set of references, or NAME for NAME0, NAME1 and so on.
    :param lists: file with n-best lists; the first hypotheses and the oracle are scored.
    :param source: the source sentences, for groups of sentences and programs.
    """
    check_sequences(hypotheses=hypotheses, references=references)
    check(ReportFormat, format=report_format)
    translated = name_texts("translations", hypotheses)
    # A path may stand for several files.
    found = [
        text
        for each in references
        for text in (find_references([each]) if isinstance(each, str | os.PathLike) else [each])
    ]
    reference_texts = name_texts("references", found)
    lists, written = optional_path(lists), optional_path(output)
    _check_arguments(settings, len(translated), len(reference_texts), lists, source)
    programs = load_programs(settings)
    texts = [lists, source, *(text for _, text in translated + reference_texts)]
    paths = [os.fspath(text) for text in texts if isinstance(text, str | os.PathLike)]
    check_files(paths, (written,))
    comparison = Comparison(
        [ComparedSystem(name, [read_translations(text, name)]) for name, text in translated],
        [read_text(text, name) for name, text in reference_texts],
        None if source is None else read_text(source, "source", is_source=True),
    )
    _warn_of_texts(comparison, settings, lists)
    names = (name for name in dict.fromkeys(settings.metrics) if name != "multi-bleu")
    built = [comparison.build_metric(name, settings.tokenize) for name in names]
    built += [score_with_program(name, one, comparison, progress) for name, one in programs.items()]
    test = _choose_test(settings, paths)
    breakdowns = [comparison.by_length(side) for side in dict.fromkeys(settings.by_length)]
    if (unknown_to := optional_path(settings.by_unknown)) is not None:
        breakdowns += comparison.by_unknown_words(_read_shortlists(unknown_to, comparison))
    evaluation = Evaluation(
        tuple(name for name, _ in reference_texts),
        len(comparison.references[0].texts),
        tuple(
            SystemFigures(
                system.name,
                system.text.num_empty,
                multi_bleu,
                tuple(Score.of(metric, system.text.texts) for metric in built),
                "multi-bleu" in settings.metrics,
            )
            for system, multi_bleu in zip(comparison.systems, comparison.multi_bleu(), strict=True)
        ),
        test,
        ()
        if test is None
        else tuple(run_paired_test(test, built, [each.text.texts for each in comparison.systems])),
        None
        if lists is None
        else _score_nbest(lists, comparison, progress, allow_missing=settings.allow_missing),
        tuple(comparison.score_groups(breakdown) for breakdown in breakdowns),
    )
    if written is not None:
        text = evaluation.to_json() if report_format == "json" else evaluation.to_text()
        with open_output(written) as stream:
            stream.write(show_controls(text).encode())
    return evaluation


def _check_arguments(
    settings: Evaluating,
    num_systems: int,
    num_references: int,
    lists: str | None,
    source: Text | None,
) -> None:
    paired, by_length = settings.paired, settings.by_length
    if not num_systems and lists is None:
        raise ArgumentError("nothing to evaluate: give translations or --lists")
    if settings.allow_missing and lists is None:
        raise ArgumentError("--allow-missing requires --lists")
    if not num_references:
        raise ArgumentError("--references: expected at least one text")
    if paired is not None and num_systems < 2:
        raise ArgumentError("--paired requires a second file of translations")
    if paired is not None and set(settings.metrics) == {"multi-bleu"} and not settings.commands:
        raise ArgumentError("--paired requires a --metric from sacrebleu, such as bleu")
    if (_is_grouped(settings) or settings.commands) and not num_systems:
        raise ArgumentError("--by-length, --by-unknown and --command require translations")
    if "source" in by_length and source is None:
        raise ArgumentError("--by-length source requires --source")
    reads_source = "source" in by_length or settings.by_unknown is not None or settings.commands
    if source is not None and not reads_source:
        problem = "--by-length source, --by-unknown or --command"
        raise ArgumentError(f"--source requires {problem}")


def _is_grouped(settings: Evaluating) -> bool:
    return bool(settings.by_length) or settings.by_unknown is not None


def _warn_of_texts(comparison: Comparison, settings: Evaluating, lists: str | None) -> None:
    metrics, is_grouped = settings.metrics, _is_grouped(settings)
    systems = [system.text for system in comparison.systems]
    warn_of_texts(systems, comparison.references)
    if is_grouped or lists is not None or not set(metrics) <= {"chrf", "chrf++"}:
        warn_of_tokenization(
            [*systems, *comparison.references],
            tokenized=lists,
            is_bleu_split="bleu" in metrics and settings.tokenize == "none",
            is_split=is_grouped or "multi-bleu" in metrics,
        )


def _choose_test(settings: Evaluating, paths: Sequence[str]) -> PairedTest | None:
    """Return the paired test; warn, and return None, if weights were tuned on one of the files."""
    if settings.paired is None:
        return None
    if any(map(is_of_tuning, paths)):
        text = "the weights were tuned on this text, where a p-value says nothing: it is left out"
        _logger.warning("%s", text)
        return None
    return PairedTest(settings.paired, TRIALS[settings.paired], SEED)


def _score_nbest(
    path: str, comparison: Comparison, progress: ProgressCallback | None, *, allow_missing: bool
) -> NbestFigures:
    from moses_integration.nbest import read_every_list  # imports numba

    metric = comparison.metric
    parts: list[Statistics] = []
    segments: list[int] = []
    words_of_first = 0
    cure = "--allow-missing uses an empty translation"
    count = len(comparison.references[0].texts)
    lists = read_every_list(path, count, allow_missing=allow_missing, cure=cure)
    with Meter("oracle", "hypotheses", progress, lines_of=path) as meter:
        for nbest in lists:
            words = list(nbest.distinct().values())
            owners = [nbest.id] * len(words)
            parts.append(metric.statistics(words, owners))
            segments += owners
            words_of_first += len(words[0])
            meter.update(nbest.num_lines)
    warn_of_lengths(path, words_of_first, comparison.references[0].num_words)
    first = BleuScore.of(np.array([part[0] for part in parts]).sum(axis=0))
    statistics = np.concatenate(parts)
    best = BleuScore.of(statistics[oracle_rows(statistics, np.array(segments))].sum(axis=0))
    return NbestFigures(path, len(segments), first, best)


def _read_shortlists(path: str, comparison: Comparison) -> dict[str, Container[str]]:
    """Return the known words for each side, from a model folder or a vocabulary file."""
    # A vocabulary file is used for the source, or for the reference if there is no source.
    if os.path.isdir(path):
        from phrasescore.models.checkpoint import load_checkpoint  # imports torch

        named = zip(("source", "reference"), known_words(load_checkpoint(path)), strict=True)
        return {side: words for side, words in named if words is not None}
    return {"reference" if comparison.source is None else "source": load_vocabulary(path)}


def load_programs(settings: Evaluating) -> dict[str, ProgramScore]:
    """Return the programs by their names in the output; they start when they are asked."""
    commands = settings.commands
    names = settings.names or [f"Program{number}" for number in range(len(commands))]
    if names and not commands:
        raise ArgumentError("--name requires --command")
    if len(names) != len(commands):
        problem = f"expected one for each of {len(commands)} programs, got {len(names)}"
        raise ArgumentError(f"--name: {problem}")
    taken = [*_SACREBLEU_NAMES, *METRICS]
    for number, name in enumerate(names):
        if name.lower() in taken or name in names[:number]:
            raise ArgumentError(f"--name: there is another metric named {name!r}")
    programs = (ProgramScore(each, seconds=settings.answer_timeout) for each in commands)
    return dict(zip(names, programs, strict=True))


def score_with_program(
    name: str, program: ProgramScore, comparison: Comparison, progress: ProgressCallback | None
) -> Metric:
    """Ask a program for the scores of all translations; return the metric that has them."""
    texts = [system.text.texts for system in comparison.systems]
    rows = list(dict.fromkeys(row for text in texts for row in comparison.rows(text)))
    scores = program.ask_all(name, rows, progress)
    known = dict(zip(rows, scores, strict=True))
    return MeanMetric(name, known, comparison.rows, len(comparison.references), program.version)
