"""The end of tuning: the files and the report that are written, and messages about the rounds."""

import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import write_weights
from phrasescore.arguments import StrPath
from phrasescore.errors import show_controls
from phrasescore.io.output import check_files, check_output, open_output, optional_path
from phrasescore.records import WeightPair, Weights
from phrasescore.report.tuning import FeatureRow, TuneReport
from phrasescore.settings.tuning import TuningFiles
from phrasescore.workflows.tune.pooling import some_names
from tuning.loop import ROUND_LOSS, TOO_FAR, LoopResult
from tuning.metrics import Metric
from tuning.pool import Pool, Vector

_logger = logging.getLogger(__name__)

# Warn if decoding does not confirm a gain on the lists of at least this much, 0 to 1.
_NOTABLE_GAIN = 0.005


@dataclass(frozen=True)
class OutputFiles:
    """The files that tuning writes at its end; None for files that are not requested."""

    weights: StrPath | None
    more: TuningFiles

    def check(self, read: Sequence[str | None], *more: str | os.PathLike[str] | None) -> list[str]:
        """Return the names of all files after checking that they can be written.

        :param read: the files that are read.
        :param more: others that are written.
        :raises ArgumentError, PhrasescoreError: as `check_files` and `check_output`.
        """
        found = [
            os.fspath(name)
            for name in (self.weights, self.more.moses_ini_out, self.more.report, *more)
            if name is not None
        ]
        for name in found:
            check_output(name)
        check_files(read, found)
        return found

    def write(self, weights: WeightPair, made: TuneReport, ini: MosesIni | None) -> None:
        """Write the files; log the weights of features that had no weight, and the final score."""
        if self.weights is not None:
            write_weights(os.fspath(self.weights), weights)
        if self.more.moses_ini_out is not None and ini is not None:
            write_ini(ini, weights.search, os.fspath(self.more.moses_ini_out))
        if self.more.report is not None:
            text = made.to_json() if self.more.report_format == "json" else made.to_text()
            with open_output(os.fspath(self.more.report)) as stream:
                stream.write(show_controls(text).encode())
        features: dict[str, list[FeatureRow]] = {}
        for row in made.features:  # whose name is the feature's, "_" and a place
            features.setdefault(row.name.rpartition("_")[0], []).append(row)
        new = [
            " ".join([f"{name}=", *(f"{row.weight:.6g}" for row in rows)])
            for name, rows in features.items()
            if not any(row.start for row in rows)
        ]
        if new:
            _logger.info("from 0: %s", some_names(new))
        _logger.info("%s", made.last_line())


def write_ini(ini: MosesIni, weights: Weights, path: str) -> None:
    """Write a moses.ini with new weights; warn of weights that it has no features for."""
    unknown = ini.set_weights(weights)
    if unknown:
        _logger.warning(
            "%s has no features for these weights: %s: the decoder alone will not choose what "
            "was measured; rescore and rerank its lists with all weights",
            ini.path,
            some_names(unknown),
        )
    ini.write(path)


def describe_round(result: LoopResult, metric: str, added: Sequence[str]) -> str:
    """Return a line about the latest round.

    :param added: features that only its lists have.
    """
    done = result.rounds[-1]
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    if added:
        text += f" reranked, {100 * done.decoded_score:.2f} as decoded"
    text += f", {done.new:,} new of {done.hypotheses:,} hypotheses"
    if done.found_score is not None:
        text += f", on all of them {100 * done.pool_score:.2f} -> {100 * done.found_score:.2f}"
    return text


def find_problems(result: LoopResult, metric: str, added: Sequence[str]) -> list[str]:
    """Return warnings about a run whose rounds became worse or did not improve.

    :param added: features that only its lists have.
    """
    best, promised = result.best, result.promised
    assert best is not None
    found = []
    for done in result.rounds:
        before = max((each.score for each in result.rounds[: done.number - 1]), default=0)
        if done.score < before - ROUND_LOSS:
            scores = f"{100 * done.score:.2f}, after {100 * before:.2f}"
            found.append(f"round {done.number} has {metric} {scores}, and does not count")
    if result.reason == TOO_FAR:
        found.append(f"it ended after round {len(result.rounds)}: {TOO_FAR}")
    gain = 0.0 if promised is None else promised - best.decoded_score
    if not added and best.number == 1 and gain >= _NOTABLE_GAIN:
        found.append(
            f"on the lists, weights were found that raise {metric} from "
            f"{100 * best.decoded_score:.2f} to {100 * (best.decoded_score + gain):.2f}, but no "
            "round decoded with such weights is better than the first: the weights are those "
            "of the start (a larger --nbest-size or more --iterations may help)"
        )
    return found


def explain_two_sets(
    added: Sequence[str],
    options: Sequence[str],
    output: str | os.PathLike[str] | None,
    ini: Path | None,
) -> str:
    """Return the commands that translate with separate weights for the search and the lists.

    :param added: the features that only the lists have.
    :param options: options of ``phrasescore rescore`` that add these features.
    :param output: the file of the weights.
    :param ini: the moses.ini with the search's weights.
    """
    output = optional_path(output)
    kept, file = ("stdout", "WEIGHTS") if output in ("-", None) else (output, output)
    moses = "" if ini is None else f", or Moses with {ini}"
    return (
        f"the decoder does not know {some_names(added)}: {kept} has two sets of weights, "
        "[search] to decode with and [lists] to rerank with. To translate: n-best lists by "
        f"phrasescore decode --weights {shlex.quote(str(file))}{moses}; phrasescore "
        f"rescore NBEST --source SOURCE {shlex.join(options)} -o RESCORED; phrasescore rerank "
        f"RESCORED --weights {shlex.quote(str(file))}"
    )


def feature_rows(
    pool: Pool, start: Vector, found: Vector, search: Sequence[float | None] | None = None
) -> tuple[FeatureRow, ...]:
    """Return the row of each feature value of a pool.

    :param search: the search's weight of each feature value, if there are two sets of weights.
    """
    names = [str(label) for label in pool.labels]
    rows = zip(names, start.tolist(), found.tolist(), search or [None] * len(names), strict=True)
    return tuple(FeatureRow(*row) for row in rows)


def with_contributions(
    rows: Sequence[FeatureRow], pool: Pool, metric: Metric, found: Vector
) -> tuple[FeatureRow, ...]:
    """Return the rows with the contribution of each feature value, which takes time."""
    amounts = found * pool.deviations()
    total = float(np.abs(amounts).sum()) or 1.0
    made = []
    for place, (row, amount) in enumerate(zip(rows, amounts.tolist(), strict=True)):
        others = found.copy()
        others[place] = 0.0
        left_out = 100 * pool.score(metric, others)
        made.append(replace(row, contribution=amount, share=abs(amount) / total, left_out=left_out))
    return tuple(made)
