"""The results of tuning: files, the rows of the report, and messages about rounds."""

import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import write_weights
from phrasescore.arguments import StrPath
from phrasescore.errors import show_controls, some_names
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.records import WeightPair, Weights
from phrasescore.report.tuning import FeatureRow, TuneReport
from phrasescore.settings.tuning import TuningFiles
from tuning.loop import ROUND_LOSS, TOO_FAR, LoopResult
from tuning.metrics import Metric
from tuning.pool import Pool, Vector

_logger = logging.getLogger(__name__)

_NOTABLE_GAIN = 0.005  # warn if decoding does not confirm a gain of this on the lists (0 to 1)


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
    new = [
        " ".join([f"{name}=", *(f"{row.weight:.6g}" for row in rows)])
        for name, rows in features.items()
        if not any(row.start for row in rows)
    ]
    if new:
        _logger.info("new weights (started at 0): %s", some_names(new))
    _logger.info("%s", report.last_line())


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
    done = result.rounds[-1]
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if added:
        text += f" reranked, {100 * done.decoded_score:.2f} as decoded"
    text += f", {done.new:,} new of {done.hypotheses:,} hypotheses"
    if done.found_score is not None:
        text += "; reranking all lists so far: "
        text += f"{100 * done.pool_score:.2f} -> {100 * done.found_score:.2f}"
    return text


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


def explain_two_sets(
    added: Sequence[str], options: Sequence[str], output: StrPath | None, ini: Path | None
) -> str:
    """Return the commands that translate with separate weights for search and lists."""
    output = optional_path(output)
    kept, file = ("stdout", "WEIGHTS") if output in ("-", None) else (output, output)
    moses = "" if ini is None else f", or Moses with {ini}"
    return (
        f"the decoder does not know {some_names(added)}: {kept} has two sets of weights, "
        "[search] for decoding and [lists] for reranking. To translate, make n-best lists with "
        f"phrasescore decode --weights {shlex.quote(str(file))}{moses}; phrasescore "
        f"rescore NBEST --source SOURCE {shlex.join(options)} -o RESCORED; phrasescore rerank "
        f"RESCORED --weights {shlex.quote(str(file))}"
    )


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
