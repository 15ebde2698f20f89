"""A run of the tuning loop in its folder."""

import functools
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from moses_integration.decoder.moses import DecoderCommand
from moses_integration.decoder.source import read_source
from moses_integration.ini_paths import files_of
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import is_sparse, read_both_weights
from phrasescore.errors import ArgumentError, DataError
from phrasescore.features.column_spec import ColumnSpec
from phrasescore.io.folders import locked
from phrasescore.io.state import FileDigests, digest_content
from phrasescore.io.text import read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import WeightPair, Weights
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.lists import check_written
from phrasescore.workflows.tune.optimiser import Optimiser, read_metric
from phrasescore.workflows.tune.outcome import (
    column_options,
    describe_round,
    explain_two_sets,
    find_problems,
    write_translations,
)
from phrasescore.workflows.tune.pooling import ListReader, some_names
from phrasescore.workflows.tune.report import TuneReport, feature_rows, with_contributions
from phrasescore.workflows.tune.rounds import Decoder, Rounds
from phrasescore.workflows.tune.state import CACHE, INI, check_folder, read_decisions, write_rounds
from tuning.bleu import ReferenceLength
from tuning.loop import LoopResult, LoopSettings, run_loop
from tuning.metric import ReferenceMetric
from tuning.weights import weights_vector

if TYPE_CHECKING:
    from phrasescore.workflows.rescore import ListRescorer

_logger = logging.getLogger(__name__)

# How a file of gzip begins.
_GZIP = b"\x1f\x8b"


@dataclass
class LoopRun:
    """A run of the loop in its folder; the fields are the parameters of `tune_with_decoder`."""

    decoder: Decoder | SearchSettings | str
    flags: str
    source: str
    references: Sequence[str]
    start: str | Weights | WeightPair | None
    work: Path
    ini_path: str | None
    columns: Sequence[ColumnSpec]
    backoff_lm: str | None
    unnormalized: bool
    metrics: Mapping[str, float]
    reference_length: ReferenceLength
    optimiser: Optimiser
    nbest_size: int
    seed: int
    device: str
    progress: ProgressCallback | None
    # Of the rounds so far.
    result: LoopResult = field(default_factory=LoopResult)
    # The moses.ini whose weights are tuned, where it is known.
    ini: MosesIni | None = None
    # Features that rescoring adds.
    _added: Sequence[str] = ()
    _opened: Decoder | EmbeddedSearch = field(init=False)
    _metric: ReferenceMetric = field(init=False)
    _words: list[list[tuple[str, ...]]] = field(init=False)
    _start: WeightPair = field(init=False)

    def __post_init__(self) -> None:
        path = self.ini_path
        if isinstance(self.decoder, str):
            plain = DecoderCommand(self.decoder, self.flags)
            path = path or (plain.ini_path() if plain.is_moses else None)
        self.ini = None if path is None else MosesIni.read(path)
        if isinstance(self.decoder, str):
            self._opened = DecoderCommand(self.decoder, self.flags, self.ini)
        elif not isinstance(self.decoder, SearchSettings):
            self._opened = self.decoder
        elif self.ini is not None:
            self._opened = EmbeddedSearch(self.ini.path, self.decoder)
        else:
            raise ArgumentError("`decoder` embedded needs `moses_ini`, the moses.ini")
        if self.ini is None and self.start is None:
            raise ArgumentError(
                "give the weights to start from: `start` FILE, or `moses_ini` moses.ini, whose "
                "weights they are then (or -f moses.ini in the decoder's command)"
            )
        self._metric, self._words = read_metric(
            self.references, self.metrics, self.reference_length
        )
        self._start = self._start_weights()

    def _start_weights(self) -> WeightPair:
        # What a file of weights does not name, Moses takes from its moses.ini.
        usual = {} if self.ini is None else self.ini.tuneable_weights()
        start = self.start
        if isinstance(start, str):
            start = read_both_weights(start)
        elif not isinstance(start, WeightPair):
            start = WeightPair(start or {}, start or {})
        return WeightPair(*({**usual, **weights} for weights in start))

    def check_files(self, outputs: Sequence[str]) -> None:
        """Check the source, and that no file is in another's way, before anything is written.

        :raises PhrasescoreError: if one is.
        """
        files = [column.value for column in self.columns if column.kind != "feature"]
        inis = [] if self.ini is None else [self.ini.path, *map(str, files_of(self.ini.path))]
        read = [self.source, *self.references, *files, *inis]
        read += [name for name in (self.start, self.backoff_lm) if isinstance(name, str)]
        check_written(read, outputs)
        self._check_source()
        check_folder(self.work, [*read, *outputs])

    def _check_source(self) -> None:
        """Check that the source has a line for each reference: decoding takes long."""
        if isinstance(self._opened, DecoderCommand):
            with open(self.source, "rb") as stream:
                if stream.read(len(_GZIP)) == _GZIP:
                    problem = "the decoder is given this file as it is: unpack it"
                    raise DataError(self.source, None, problem)
                # Moses does not translate a last line without a newline.
                if self._opened.is_moses and stream.seek(0, os.SEEK_END):
                    stream.seek(-1, os.SEEK_END)
                    if stream.read() != b"\n":
                        problem = "expected a newline after the last line: Moses leaves it out"
                        raise DataError(self.source, None, problem)
        num_lines, num_references = sum(1 for _ in read_lines(self.source)), len(self._words[0])
        if num_lines != num_references:
            problem = f"expected {num_references:,} lines, as there are references"
            raise DataError(self.source, None, f"{problem}, found {num_lines:,}")

    def run(self, limits: LoopSettings, *, resume: bool) -> None:
        """Decode and optimise until nothing better is found; `result` is kept up to date.

        :raises KeyboardInterrupt: where the user stops it.
        """
        start, about, optimiser = self._start, self._about(), self.optimiser
        with locked(self.work) as lock, ExitStack() as stack:
            decided = read_decisions(self.work, about, resume=resume)
            if decided is None:
                # With it, what the first round decodes is not lost either.
                write_rounds(self.work, about, LoopResult(next_weights=start.search))
            # First, because it forks, and what follows may start threads.
            decoder, own = self._open_decoder(stack, lock)
            rescorer = self._open_rescorer(stack)
            optimiser.others = self._added
            reader = ListReader(self._metric, self._words)
            files = (self.source, self.work, self.nbest_size, reader)
            rounds = Rounds(decoder, *files, own, rescorer, self.progress)

            def on_judged(result: LoopResult) -> None:
                self.result = result

            def on_round(result: LoopResult) -> None:
                self.result = result
                if optimiser.stopped:
                    # A run that is resumed reads this round again, and optimises to the end.
                    *earlier, last = result.rounds
                    open_round = LoopResult(tuple(earlier), last.weights.search)
                    write_rounds(self.work, about, open_round)
                    optimiser.raise_stop()
                write_rounds(self.work, about, result)
                said = describe_round(result, self._metric.name, self._added)
                _logger.info("%s", said, extra={"news": True})  # for an experiment's console

            self.result = run_loop(
                rounds,
                self._metric,
                start._replace(search=self._of_decoder(start.search)),
                optimiser,
                optimiser.settings(()),
                limits,
                seed=self.seed,
                list_features=self._added,
                # Version 0.1 had weights of all features there.
                decided=[
                    each._replace(search=self._of_decoder(each.search)) for each in decided or ()
                ],
                on_judged=on_judged,
                on_round=on_round,
                report=_logger.info,
                is_stopped=lambda: optimiser.stopped,
            )
        _logger.info("%d rounds: %s", len(self.result.rounds), self.result.reason)
        if limits.iterations == 1 and not self._added:
            _logger.warning(
                "the weights are still those of the start: those that a round finds are tried by "
                "the next one, and `iterations` is 1"
            )

    def _of_decoder(self, weights: Weights) -> Weights:
        """Return the weights of features that are not of lists alone."""
        return {name: values for name, values in weights.items() if name not in self._added}

    def _open_decoder(self, stack: ExitStack, lock: int) -> tuple[Decoder, Collection[str] | None]:
        """Return the decoder, and the features that it has, as far as that is known."""
        own: Collection[str] | None = None
        if not isinstance(self._opened, EmbeddedSearch):
            own = None if self.ini is None else self.ini.tuneable_weights().keys()
            return self._opened, own
        search = self._opened
        own = search.feature_names
        weights = {name: values for name, values in self._start.search.items() if name in own}
        # Its processes do not keep the lock, which after kill -9 must be free at once.
        stack.enter_context(search).open(read_source(self.source), weights, closed=(lock,))
        return functools.partial(search, progress=self.progress), own

    def _open_rescorer(self, stack: ExitStack) -> "ListRescorer | None":
        """Return the rescorer of lists, if there are columns; the stack closes it."""
        if not self.columns:
            return None
        from phrasescore.workflows.rescore import ListRescorer  # imports torch

        rescorer = ListRescorer(
            self.columns,
            cache=self.work / CACHE,
            device=self.device,
            threads=self.optimiser.threads,
            backoff_lm=self.backoff_lm,
            unnormalized=self.unnormalized,
        )
        self._added = rescorer.names
        return stack.enter_context(rescorer)

    def finish(
        self, output: str | os.PathLike[str] | None, *, details: bool
    ) -> tuple[WeightPair, TuneReport]:
        """Write the best moses.ini into the folder; return the weights and the report.

        :param output: where the weights will go, for a message.
        :param details: whether each feature is looked at, which takes time.
        """
        best, pool, added = self.result.best, self.result.pool, self._added
        assert best is not None
        assert pool is not None
        sizes = {label.name: label.place + 1 for label in pool.labels if label.name not in added}
        unnamed = {name: (0.0,) * size for name, size in sizes.items() if not is_sparse(name)}
        both = WeightPair(*({**unnamed, **weights} for weights in best.weights))
        written = None if self.ini is None else self.work / INI
        if self.ini is not None:
            unknown = self.ini.set_weights(both.search)
            self.ini.write(str(written))
            lacks = f", but not those of {some_names(unknown)}" if unknown else ""
            _logger.info("%s has the search weights of round %d%s", written, best.number, lacks)
        if added:
            options = [*column_options(self.columns), *self._cslm_options()]
            file = None if output is None else os.fspath(output)
            _logger.info("%s", explain_two_sets(added, options, file, written))
        problems = find_problems(self.result, self._metric.name, added)
        for problem in problems:
            _logger.warning("%s", problem)
        start = weights_vector(self.result.rounds[0].weights.search, pool.labels)
        found = weights_vector(best.weights.lists, pool.labels)
        search = None
        if added:
            known = best.weights.search
            search = [
                known[label.name][label.place] if label.name in known else None
                for label in pool.labels
            ]
        rows = feature_rows(pool, start, found, search)
        if details:
            rows = with_contributions(rows, pool, self._metric, found)
        report = TuneReport(
            *(self.optimiser.method, self._metric.name, self.seed),
            *(pool.num_segments, len(pool.stats)),
            *(100 * self.result.rounds[0].decoded_score, 100 * best.score),
            features=rows,
            loop=self.result,
            problems=tuple(problems),
        )
        return both, report

    def write_translations(self, path: str, lists: Weights) -> None:
        """Write the best round's translations: its lists, reranked where features were added."""
        assert self.result.best is not None
        number = self.result.best.number
        write_translations(path, self.work, number, lists if self._added else None)

    def _cslm_options(self) -> list[str]:
        """Return the options of the command line that models of the kind cslm were given."""
        options = [] if self.backoff_lm is None else ["--backoff-lm", self.backoff_lm]
        return [*options, *(["--unnormalized"] if self.unnormalized else [])]

    def _about(self) -> dict[str, Any]:
        """Return all that a run must have in common with one that it resumes."""
        start, optimiser, decoder = self._start, self.optimiser, self.decoder
        search = None
        if isinstance(decoder, SearchSettings):
            name = "embedded"
            if not self.flags and decoder != SearchSettings():
                search = msgspec.to_builtins(decoder)
        else:
            name = decoder if isinstance(decoder, str) else _name(decoder)
        files = [column.value for column in self.columns if column.kind != "feature"]
        files += [] if self.backoff_lm is None else [self.backoff_lm]
        digests = FileDigests({}, {})
        models = [column.value for column in self.columns if column.kind == "model"]
        options = column_options(self.columns)[2 * len(models) :]
        return {
            "decoder": name,
            "decoder flags": self.flags,
            "search": search,
            "source": digest_content(self.source),
            "references": [digest_content(path) for path in self.references],
            "moses.ini": None if self.ini is None else digest_content(self.ini.path),
            "start weights": start.lists,
            "start weights of the search": None if start.search == start.lists else start.search,
            "n-best size": self.nbest_size,
            "models": [*models, *options, *self._cslm_options()],
            "content of the models": [digests.digest(Path(path)) for path in files],
            "method": optimiser.method,
            "metric": self.metrics,
            "reference length": self.reference_length,
            "starts": optimiser.starts,
            "plateau smoothing": optimiser.plateau_smoothing,
            "fixed features": list(optimiser.fixed),
            "seed": self.seed,
        }


def _name(decoder: object) -> str:
    """Return the name of a callable, which stands for it in the state of a run."""
    named = decoder if hasattr(decoder, "__qualname__") else type(decoder)
    return f"{named.__module__}.{named.__qualname__}"
