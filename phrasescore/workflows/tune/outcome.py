"""The results of tuning: files, the rows of the report, and messages about rounds."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import is_sparse, write_weights
from phrasescore.arguments import StrPath
from phrasescore.errors import show_controls, some_names
from phrasescore.evaluation.tune_report import FeatureRow, TuneReport
from phrasescore.io.output import check_files, open_output
from phrasescore.io.text_table import text_table
from phrasescore.progress import format_count
from phrasescore.records import WeightPair, Weights
from phrasescore.settings.tuning import TuningFiles
from tuning.loop import ROUND_LOSS, TOO_FAR, LoopResult
from tuning.metrics import Metric
from tuning.pool import Pool, Vector

_logger = logging.getLogger(__name__)

# Tuning on fewer sentences per weight is warned of. In cross-validation on the shipped example, 25
# per weight, the weights lost 3 BLEU on held-out sentences. The usual rule for
# regression is 10 to 20 observations per coefficient (Harrell, 2015, section 4.4).
FEW_SENTENCES = 20
_NEW = "  (new)"
_NOTABLE_GAIN = 0.005  # warn if decoding does not confirm a gain of this on the lists (0 to 1)


@dataclass(frozen=True, slots=True)
class TuneOutcome:
    """The best weights that tuning found; on n-best lists, both sets are the same."""

    weights: WeightPair
    report: TuneReport

    def __repr__(self) -> str:
        """Return the report as text."""
        return self.report.to_text()


def check_outputs(read: Sequence[str | None], *written: StrPath | None) -> list[str]:
    """Check that files can be written and are not inputs as well; return their names."""
    names = [os.fspath(name) for name in written if name is not None]
    check_files(read, names)
    return names


def write_outputs(
    output: StrPath | None,
    files: TuningFiles,
    weights: WeightPair,
    report: TuneReport,
    ini: MosesIni | None,
) -> None:
    """Write the files; log newly found weights and the final score."""
    if output is not None:
        write_weights(os.fspath(output), weights)
    if files.moses_ini_out is not None and ini is not None:
        write_ini(ini, weights.search, os.fspath(files.moses_ini_out))
    if files.report is not None:
        text = report.to_json() if files.report_format == "json" else report.to_text()
        with open_output(os.fspath(files.report)) as stream:
            stream.write(show_controls(text).encode())
    features: dict[str, list[FeatureRow]] = {}
    for row in report.features:  # its name is the feature's, "_" and an index
        features.setdefault(row.name.rpartition("_")[0], []).append(row)
    dense = {name: rows for name, rows in features.items() if not is_sparse(name)}
    table = [
        (name, " ".join(f"{row.weight:.4g}" for row in rows) + _NEW * _is_new(rows))
        for name, rows in dense.items()
    ]
    is_new = any(row.start != row.weight for row in report.features)
    what = "weights for reranking" if weights.search != weights.lists else "weights"
    lines = [f"{'new ' if is_new else 'unchanged '}{what}:", *text_table(table, "l", indent="  ")]
    if len(features) > len(dense):
        lines.append(f"  and {format_count(len(features) - len(dense), 'sparse features')}")
    _logger.info("%s", "\n".join(lines))
    number = sum(map(len, dense.values()))
    if report.reached > report.start and report.sentences < FEW_SENTENCES * number:
        _logger.warning(
            "%s are few to tune %s on: with fewer than %d per weight, part of the gain is "
            "overfitting; use %s or more, or keep some weights with --fix, and measure on other "
            "text",
            *(format_count(report.sentences, "sentences"), format_count(number, "weights")),
            *(FEW_SENTENCES, f"{FEW_SENTENCES * number:,}"),
        )
    _logger.info("%s", report.last_line(), extra={"bold": True})


def _is_new(rows: Sequence[FeatureRow]) -> bool:
    return not any(row.start for row in rows)


def write_ini(ini: MosesIni, weights: Weights, path: str) -> None:
    """Write a moses.ini with new weights; warn about weights for features that it lacks."""
    unknown = ini.set_weights(weights)
    if unknown:
        _logger.warning(
            f"{ini.path} has no features for these weights: {some_names(unknown)}; to get the "
            "measured translations, rescore the decoder's lists, and rerank them with all weights"
        )
    ini.write(path)


def describe_round(result: LoopResult, metric: str, added: Sequence[str]) -> str:
    """Return a line about the latest round; ``added`` are the features only in the lists."""
    *earlier, done = result.rounds
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if (before := max(earlier, key=lambda each: each.score, default=None)) is not None:
        change = 100 * (done.score - before.score)
        place = "best so far" if result.best is done else f"round {before.number} is the best"
        text += f" ({change:+.2f}, {place})"
    if added:
        text += f", {100 * done.decoded_score:.2f} before reranking"
    return f"{text}, {format_count(done.new, 'new hypotheses')}"


def find_problems(result: LoopResult, metric: str, added: Sequence[str]) -> list[str]:
    """Return warnings about rounds that became worse or did not improve."""
    best, promised = result.best, result.promised
    assert best is not None
    found = []
    for done in result.rounds:
        before = max((earlier.score for earlier in result.rounds[: done.number - 1]), default=0)
        if done.score < before - ROUND_LOSS:
            scores = f"{metric} fell from {100 * before:.2f} to {100 * done.score:.2f}"
            found.append(f"round {done.number} was ignored: {scores}")
    if result.reason == TOO_FAR:
        found.append(f"tuning ended after round {len(result.rounds)}: {TOO_FAR}")
    gain = 0.0 if promised is None else promised - best.decoded_score
    if not added and best.number == 1 and gain >= _NOTABLE_GAIN:
        found.append(
            f"some weights increase {metric} on the lists from {100 * best.decoded_score:.2f} to "
            f"{100 * (best.decoded_score + gain):.2f}, but no round decoded with them is better "
            "than the first: the result is the start weights (a larger --nbest-size or more "
            "--iterations may help)"
        )
    return found


def feature_rows(
    pool: Pool, start: Vector, found: Vector, search: Sequence[float | None] | None = None
) -> tuple[FeatureRow, ...]:
    """Return one report row per feature value; ``search`` has weights if there are two sets."""
    names = [str(label) for label in pool.labels]
    rows = zip(names, start.tolist(), found.tolist(), search or [None] * len(names), strict=True)
    return tuple(FeatureRow(*row) for row in rows)


def with_contributions(
    rows: Sequence[FeatureRow], pool: Pool, metric: Metric, found: Vector
) -> tuple[FeatureRow, ...]:
    """Return the rows with each feature value's contribution, which is slow to compute."""
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    contributions = []
    for index, (row, amount) in enumerate(zip(rows, amounts.tolist(), strict=True)):
        others = found.copy()
        others[index] = 0.0
        left_out = 100 * pool.score(metric, others)
        share = abs(amount) / total
        contributions.append(replace(row, contribution=amount, share=share, left_out=left_out))
    return tuple(contributions)
