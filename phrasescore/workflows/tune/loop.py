"""Tune in rounds of decoding, rescoring and optimising."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_integration.decoder.moses import DecoderCommand
from moses_integration.ini_text import files_of
from moses_integration.list_features import WeightedSum
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.nbest import read_nbest
from moses_integration.weight_lines import check_weights, is_sparse
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, DataError, some_names
from phrasescore.evaluation.sentences import find_references
from phrasescore.evaluation.tune_report import RoundRow, TuneReport
from phrasescore.features.columns import Column, as_columns, check_columns
from phrasescore.features.given_scores import GivenScores
from phrasescore.features.named import NamedFeature
from phrasescore.io.compression import is_gzip
from phrasescore.io.folders import locked
from phrasescore.io.journal import FileDigests, digest_content
from phrasescore.io.output import open_output, optional_path
from phrasescore.io.text import MARKUP, decode, is_stream, read_lines
from phrasescore.progress import ProgressCallback, format_count
from phrasescore.records import WeightPair, Weights
from phrasescore.settings import old_names
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.settings.tuning import RoundTuning, RoundTuningFiles
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune import outcome
from phrasescore.workflows.tune import rounds as round_files
from phrasescore.workflows.tune.optimiser import ListReader, Optimiser, read_metric
from phrasescore.workflows.tune.rounds import ListDecoder, Rounds
from tuning.loop import LoopResult, TuningLoop
from tuning.pool import weights_vector

if TYPE_CHECKING:
    from phrasescore.systems.scoring import Scoring

_logger = logging.getLogger(__name__)
_NEWS = {"news": True}  # is shown on an experiment's console, too


def tune_with_decoder(
    decoder: ListDecoder | SearchSettings | str,
    source: StrPath,
    references: Sequence[StrPath],
    start: WeightsSource | None,
    folder: StrPath,
    *,
    output: StrPath | None = None,
    settings: RoundTuning = RoundTuning(),
    columns: Sequence[Column | StrPath] = (),
    files: RoundTuningFiles = RoundTuningFiles(),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> outcome.TuneOutcome:
    """Find feature weights in rounds of decoding, pooling lists and optimising.

    The result is the weights of the best round. The lists from each round and the state of the run
    are stored in the folder. A stopped run can be resumed from them, and its result is the same to
    the last bit. Tables, language model and networks are loaded once. After Ctrl-C or SIGTERM the
    best weights so far are written before the signal is raised. The rounds are as in mert-moses.pl.

    :param decoder: a callable, see `ListDecoder`; settings for the embedded search, which requires
        ``moses_ini``; or a command: Moses', or one that contains ``{nbest}``, ``{weights}`` and
        ``{size}``.
    :param start: weights for the first round: a file or values; None for the weights in
        ``moses_ini``.
    :param output: the file for the weights, as ``Name= value`` lines: two sets if ``columns`` add
        features that the decoder does not know.
    :param columns: features to add to the lists in each round; a path is a model's folder.
    :param compute: settings for networks among the columns; tuning uses its threads, too.
    :raises PhrasescoreError: if a file is malformed, the decoder fails, or the folder has a
        different run.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    check_sequences(references=references)
    inputs = [source, files.moses_ini, *references]
    if any(is_stream(os.fspath(name)) for name in inputs if name is not None):
        problem = "--source, --references and --moses-ini cannot be streams with --decoder,"
        raise ArgumentError(f"{problem} because they are read more than once")
    wanted = as_columns(columns)
    if any(isinstance(column, GivenScores) for column in wanted):
        problem = "a file of scores belongs to existing lists: it cannot be used with --decoder"
        raise ArgumentError(problem)
    if wanted:
        check_columns(wanted, of_phrases=False)
    if not os.fspath(folder):
        raise ArgumentError("--working-dir: expected the name of a folder, found ''")
    source, work = os.fspath(source), Path(folder)
    ini, opened = _open_decoder(decoder, optional_path(files.moses_ini))
    first = _start_weights(start, ini)
    paths = find_references(references)
    metrics = settings.metric_weights
    metric, words = read_metric(paths, metrics)
    contents = [path for column in wanted for path in column.inputs()]
    if isinstance(decoder, SearchSettings):
        contents += [*decoder.models, *filter(None, [optional_path(decoder.backoff_lm)])]
    read = [source, *paths, *contents]
    read += [] if ini is None else [ini.path, *map(str, files_of(ini.path))]
    read += [name for name in (weights_path(start),) if name is not None]
    written = outcome.check_outputs(
        read, output, files.moses_ini_out, files.report, files.translations
    )
    _check_source(source, opened, len(words[0]), is_rescored=bool(wanted))
    round_files.check_folder(work, [*read, *written])

    def open_rescorer() -> "Scoring":
        from phrasescore.systems.scoring import Scoring  # imports numba

        return Scoring.of(
            wanted,
            Rescoring(cache=work / round_files.CACHE),
            compute if compute.engine == "here" else replace(compute, threads=None),
        )

    digests = FileDigests({}, {})
    about = {
        **round_files.about_decoder(decoder),
        "source": digest_content(source),
        "references": [digest_content(path) for path in paths],
        "moses.ini": None if ini is None else digest_content(ini.path),
        "start weights": first.lists,
        "start weights of the search": None if first.search == first.lists else first.search,
        "n-best size": settings.nbest_size,
        # The folder may move, and so may the models.
        "models": [column.with_paths(os.path.basename).to_toml() for column in wanted],
        "content of the models": [digests.digest(Path(path)) for path in contents],
        "method": settings.method,
        "metric": metrics,
        "starts": settings.starts,
        "fixed features": list(settings.fixed),
        "seed": settings.seed,
    }
    found = [column.find_class() for column in wanted if isinstance(column, NamedFeature)]
    if packages := [each.fingerprint for each in found if each is not None]:
        about["packages"] = packages
    reader, rescorer = ListReader(metric, words), open_rescorer if wanted else None
    rounds = Rounds(opened, ini, source, work, settings.nbest_size, reader, rescorer, progress)
    run = _LoopRun(rounds, settings, Optimiser(settings, compute.threads), first, about)

    def write() -> outcome.TuneOutcome:
        weights, report = run.finish(details=files.report is not None)
        if files.translations is not None:
            run.write_translations(os.fspath(files.translations), weights.lists)
        outcome.write_outputs(output, files, weights, report, ini)
        return outcome.TuneOutcome(weights, report)

    try:
        run.run(resume=resume)
    except (KeyboardInterrupt, EndedBySignal):
        if run.result.best is not None:
            write()
        raise
    return write()


def _open_decoder(
    decoder: ListDecoder | SearchSettings | str, path: str | None
) -> tuple[MosesIni | None, ListDecoder | EmbeddedSearch]:
    """Return the moses.ini to tune (by default the one in Moses' command), and the decoder."""
    command = DecoderCommand(decoder) if isinstance(decoder, str) else None
    if path is None and command is not None and command.is_moses:
        path = command.ini_path()
    ini = None if path is None else MosesIni.read(path)
    if command is not None:
        return ini, replace(command, ini=ini)
    if isinstance(decoder, SearchSettings):
        if ini is None:
            raise ArgumentError("--decoder embedded requires --moses-ini")
        return ini, EmbeddedSearch(ini.path, decoder)
    assert not isinstance(decoder, str)
    return ini, decoder


def _start_weights(start: WeightsSource | None, ini: MosesIni | None) -> WeightPair:
    if ini is None and start is None:
        problem = "the start weights are missing: give --weights FILE, or a moses.ini with weights:"
        raise ArgumentError(f"{problem} --moses-ini INI, or -f INI in the decoder's command")
    # For weights missing from the file, Moses uses its moses.ini.
    usual = {} if ini is None else ini.tuneable_weights()
    given = load_weights({} if start is None else start)
    pair = WeightPair(*({**usual, **weights} for weights in given))
    where = weights_path(start) or ("the start weights" if ini is None else ini.path)
    for weights in pair:
        check_weights(weights, where)
    return pair


def _check_source(
    path: str, decoder: ListDecoder | EmbeddedSearch, num_references: int, *, is_rescored: bool
) -> None:
    """Check, before the first round, that the source has a line for each reference."""
    if isinstance(decoder, DecoderCommand):
        with open(path, "rb") as stream:
            if is_gzip(stream.read(16)):
                problem = "the decoder cannot read compressed text: decompress it"
                raise DataError(path, None, problem)
            # Moses does not translate a last line without a newline.
            if decoder.is_moses and stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                if stream.read() != b"\n":
                    problem = "expected a newline after the last line: Moses would omit it"
                    raise DataError(path, None, problem)
    num_lines = 0
    for num_lines, raw in enumerate(read_lines(path), start=1):
        if is_rescored:
            MARKUP.check(path, num_lines, decode(path, num_lines, raw))
    if num_lines != num_references:
        expected = f"expected {num_references:,} lines, one per reference"
        raise DataError(path, None, f"{expected}, found {num_lines:,}")


@dataclass
class _LoopRun:
    """A run of the tuning loop in its folder; `result` has all rounds so far."""

    rounds: Rounds
    settings: RoundTuning
    optimiser: Optimiser
    start: WeightPair
    # All properties that a run must have in common with the run that it resumes.
    about: Mapping[str, Any]
    _loop: TuningLoop | None = field(default=None, init=False)

    @property
    def result(self) -> LoopResult:
        return LoopResult() if self._loop is None else self._loop.result

    def run(self, *, resume: bool) -> None:
        """Decode and optimise until a limit is reached or translations stop improving."""
        rounds, optimiser, settings = self.rounds, self.optimiser, self.settings
        with locked(rounds.work) as lock:
            earlier = round_files.read_decisions(rounds.work, self.about, resume=resume)
            if earlier is None:
                # The journal marks the folder as a run's.
                first = LoopResult(next_weights=self.start.search)
                round_files.write_rounds(rounds.work, self.about, first)
            start, decided = earlier or (self.start.search, [])
            with rounds.opened(start, lock):
                added = optimiser.others = rounds.added
                start, lists = (
                    old_names.weights_for(added, weights, "the start weights")
                    for weights in (start, self.start.lists)
                )
                self._loop = TuningLoop(
                    rounds,
                    rounds.reader.metric,
                    WeightPair({name: start[name] for name in start if name not in added}, lists),
                    optimiser,
                    settings.seed,
                    settings.iterations,
                    settings.patience,
                    list_features=frozenset(added),
                    report=partial(_logger.info, extra=_NEWS),
                    is_stopped=lambda: optimiser.stopped,
                )
                fixed = {*settings.fixed, *(name.rpartition("_")[0] for name in settings.fixed)}
                new = [name for name in rounds.new_features(start) if name not in fixed]
                if new and earlier is None:
                    self._loop.choose_start(new, rounds.reader.num_segments)
                    # Written before the first round, so that its lists are not lost.
                    round_files.write_rounds(rounds.work, self.about, self.result)
                self._loop.run(decided, self._keep_round)
        best, count = self.result.best, format_count(len(self.result.rounds), "rounds")
        assert best is not None
        text = "stopped after %s: %s; the best is round %d"
        _logger.info(text, count, self.result.reason, best.number)
        if settings.iterations == 1 and not added:
            _logger.warning(
                "the result is the start weights: new weights are only tried in the next round; "
                "use --iterations 2 or more"
            )

    def _keep_round(self, result: LoopResult) -> None:
        """Write the state after a round, and raise the signal if the user stopped the run."""
        work = self.rounds.work
        if self.optimiser.stopped:
            # A resumed run reads this round again, and optimises to the end.
            *earlier, last = result.rounds
            round_files.write_rounds(
                work, self.about, LoopResult(tuple(earlier), last.weights.search)
            )
            self.optimiser.raise_stop()
        round_files.write_rounds(work, self.about, result)
        text = outcome.describe_round(result, self.rounds.reader.metric.name, self.rounds.added)
        is_best = result.best is result.rounds[-1]
        _logger.info("%s", text, extra={**_NEWS, "bold": is_best})
        last = result.rounds[-1]
        if last.found_score is not None:
            scores = 100 * last.pool_score, 100 * last.found_score
            _logger.debug("reranking all lists so far: %.2f -> %.2f", *scores)

    def finish(self, *, details: bool) -> tuple[WeightPair, TuneReport]:
        """Write the best moses.ini into the folder; return the weights and the report."""
        result, added, metric = self.result, self.rounds.added, self.rounds.reader.metric
        best, pool, ini = result.best, result.pool, self.rounds.ini
        assert best is not None
        assert pool is not None
        sizes = {label.name: label.place + 1 for label in pool.labels if label.name not in added}
        unnamed = {name: (0.0,) * size for name, size in sizes.items() if not is_sparse(name)}
        both = WeightPair(*({**unnamed, **weights} for weights in best.weights))
        written = None if ini is None else self.rounds.work / round_files.INI
        if ini is not None and written is not None:
            unknown = ini.set_weights(both.search)
            if written.is_symlink() or not written.is_file():
                written.unlink(missing_ok=True)
            ini.write(str(written))
            lacks = f", except the weights of {some_names(unknown)}" if unknown else ""
            _logger.info("%s has the search weights of round %d%s", written, best.number, lacks)
        if added:
            _logger.info(
                "the decoder does not know %s: there are two sets of weights, [search] for "
                "decoding and [lists] for reranking",
                some_names(added),
            )
        problems = outcome.find_problems(result, metric.name, added)
        for problem in problems:
            _logger.warning("%s", problem)
        first = result.rounds[0]
        found = weights_vector(best.weights.lists, pool.labels)
        known = best.weights.search
        search = [
            known[label.name][label.place] if label.name in known else None for label in pool.labels
        ]
        start = weights_vector(first.weights.search, pool.labels)
        rows = outcome.feature_rows(pool, start, found, search if added else None)
        lists = self.rounds.reader.read(str(self.rounds.lists(best.number)), check=False)
        calibration = self.optimiser.calibrate(lists, metric, best.weights.lists)
        report = TuneReport(
            self.settings.method,
            metric.name,
            self.settings.seed,
            pool.num_segments,
            len(pool.stats),
            100 * first.decoded_score,
            100 * best.score,
            features=outcome.with_contributions(rows, pool, metric, found) if details else rows,
            rounds=tuple(
                RoundRow(
                    done.number,
                    100 * done.score,
                    done.hypotheses,
                    100 * done.decoded_score,
                    done.new,
                )
                for done in result.rounds
            ),
            warnings=tuple(problems),
            ended=result.reason,
            ended_by_itself=not result.is_cut,
            confidence=calibration.curve,
            reliability=calibration.reliability,
        )
        return both, report

    def write_translations(self, path: str, lists: Weights) -> None:
        """Write the best hypothesis in each list of the best round, reranked with ``lists``."""
        assert self.result.best is not None
        score = WeightedSum(lists, ignore_missing=True, ignore_unweighted=True)
        nbest = self.rounds.lists(self.result.best.number)
        with open_output(path) as stream:
            for found in read_nbest(str(nbest)):
                index = int(score(found).argmax()) if self.rounds.added else 0
                stream.write(found.hypotheses[index].strip(b" ") + b"\n")
