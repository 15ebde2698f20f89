"""``phrasescore tune --decoder``: rounds of decoding, rescoring and optimising."""

import logging
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_integration.decoder.moses import Decoder, log_tail
from moses_integration.ini_paths import files_of
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import Weights, is_sparse, read_weights
from phrasescore.cli.file_names import check_files
from phrasescore.cli.fingerprints import Fingerprints
from phrasescore.cli.options import FLAGS
from phrasescore.cli.tune_options import TuneOptions
from phrasescore.cli.tune_pool import ListReader, by_label, by_name, read_references, some_names
from phrasescore.cli.tune_report import TuneReport
from phrasescore.cli.tune_search import Search
from phrasescore.cli.tune_state import (
    CACHE,
    INI,
    check_folder,
    fingerprint,
    read_state,
    write_state,
)
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.folders import locked
from phrasescore.text import read_lines
from tuning.loop import (
    Decoded,
    LoopResult,
    LoopSettings,
    NamedWeights,
    run_loop,
    weights_vector,
)
from tuning.metric import ReferenceMetric

if TYPE_CHECKING:
    from phrasescore.cli.tune_rescore import Rescorer

_logger = logging.getLogger(__name__)

# How a file of gzip begins.
_GZIP = b"\x1f\x8b"


class Rounds:
    """Decodes in a working folder; a round whose list is there is not decoded again."""

    def __init__(
        self,
        wanted: TuneOptions,
        decoder: Decoder,
        reader: ListReader,
        ini: MosesIni | None,
        rescorer: "Rescorer | None",
    ) -> None:
        assert wanted.source is not None
        self._wanted = wanted
        self._source = wanted.source
        self._decoder = decoder
        self._work = Path(wanted.working_dir)
        self._reader = reader
        # Features that are Moses' own; None where that is not known.
        self._own = None if ini is None else set(ini.tuneable_weights())
        self._rescorer = rescorer
        self._added = set() if rescorer is None else set(rescorer.names)

    def __call__(self, number: int, weights: NamedWeights) -> Decoded:
        """Return the lists of a round: a `tuning.loop.Decode`."""
        nbest = self._work / f"run{number}.nbest"
        if nbest.exists():
            _logger.info("round %d: taken from %s", number, nbest)
            return self._read(number, weights, str(nbest))
        _logger.info("round %d: decoding", number)
        run = str(self._work / f"run{number}")
        # It gets its name when it is known to be complete.
        part = f"{nbest}.part"
        size = self._wanted.nbest_size
        self._decoder.run(self._source, self._for_decoder(weights), part, size, work=run)
        decoded = self._read(number, weights, part)
        os.replace(part, nbest)
        return decoded

    def _for_decoder(self, weights: NamedWeights) -> Weights:
        """Return the weights that the decoder knows features for."""
        return {
            name: values
            for name, values in by_name(weights).items()
            if name not in self._added
            and (self._own is None or name in self._own or is_sparse(name))
        }

    def _read(self, number: int, weights: NamedWeights, nbest: str) -> Decoded:
        try:
            path = nbest
            if self._rescorer is not None:
                path = str(self._work / f"run{number}.rescored.gz")
                self._rescorer.rescore(nbest, self._source, path)
            pool = self._reader.read(path, check=number == 1)
        except DataError as error:
            log = str(self._work / f"run{number}.log")
            said = log_tail(log) if os.path.exists(log) else ""
            raise PhrasescoreError(f"{error}{said}") from error
        names = dict.fromkeys(label.name for label in pool.labels if label not in weights)
        if number == 1 and names:
            _logger.info("without a weight, and so from 0: %s", some_names(names))
        if self._rescorer is None:
            return Decoded(pool, pool.starts[:-1])  # the decoder's own best
        return Decoded(pool, pool.model_best(weights_vector(weights, pool)))


class LoopRun:
    """A run of the loop in a working folder.

    :ivar result: what it has found so far.
    :ivar ini: the moses.ini whose weights are tuned, where it is known.
    """

    def __init__(
        self,
        wanted: TuneOptions,
        metric: ReferenceMetric,
        references: Sequence[Sequence[Sequence[str]]],
        search: Search,
    ) -> None:
        assert wanted.decoder is not None
        self._wanted = wanted
        self._metric = metric
        self._references = references
        self._search = search
        self._work = Path(wanted.working_dir)
        self.result = LoopResult()
        # Features that rescoring adds.
        self._added: list[str] = []
        plain = Decoder(wanted.decoder, wanted.decoder_flags)
        path = wanted.moses_ini or (plain.ini_path() if plain.is_moses else None)
        self.ini = None if path is None else MosesIni.read(path)
        self._decoder = Decoder(wanted.decoder, wanted.decoder_flags, self.ini)
        if self.ini is None and wanted.weights is None:
            problem = "the weights to start from are needed: --weights, or --moses-ini"
            raise click.UsageError(f"{problem} (or -f moses.ini in the decoder's command)")

    def run(self) -> None:
        """Decode and optimise until nothing better is found; `result` is kept up to date.

        :raises KeyboardInterrupt: where the user stops it.
        """
        self._check_source()
        start = self._start()
        about = self._about(start)
        self._check_files()
        with locked(self._work), ExitStack() as stack:
            kept = read_state(self._work, about, resume=self._wanted.resume)
            if not kept:
                # With it, what the first round decodes is not lost either.
                write_state(self._work, about, LoopResult(next_weights=start))
            reader = ListReader(self._metric, self._references)
            rescorer = self._open_rescorer(stack)

            def on_round(result: LoopResult) -> None:
                self.result = result
                if self._search.stopped:
                    # A run that is resumed reads this round again, and optimises to the end.
                    *earlier, last = result.rounds
                    open_round = LoopResult(tuple(earlier), last.weights)
                    write_state(self._work, about, open_round)
                    self._search.end()
                write_state(self._work, about, result)
                _logger.info("%s", describe(result, self._metric.name))

            self.result = run_loop(
                Rounds(self._wanted, self._decoder, reader, self.ini, rescorer),
                self._metric,
                start,
                self._search,
                self._search.settings(()),
                LoopSettings(self._wanted.iterations, self._wanted.patience),
                seed=self._wanted.seed,
                decided=kept[1:],
                on_round=on_round,
            )
        _logger.info("%d rounds: %s", len(self.result.rounds), self.result.reason)
        if self._wanted.iterations == 1:
            _logger.warning(
                "the weights are still those of the start: those that a round finds are tried by "
                "the next one, and --iterations is 1"
            )

    def _open_rescorer(self, stack: ExitStack) -> "Rescorer | None":
        """Return what adds features to the lists, if any are wanted; the stack closes it."""
        if not self._wanted.columns():
            return None
        # Imports torch.
        from phrasescore.cli.tune_rescore import Rescorer

        rescorer = Rescorer(
            self._wanted.columns(),
            cache=str(self._work / CACHE),
            device=self._wanted.device,
            threads=self._wanted.threads,
            backoff_lm=self._wanted.backoff_lm,
            unnormalized=self._wanted.unnormalized,
        )
        self._added = rescorer.names
        return stack.enter_context(rescorer)

    def finish(self, report: TuneReport, *, details: bool) -> Weights:
        """Write the best moses.ini into the folder, fill the report, and return the weights."""
        best, pool = self.result.best, self.result.pool
        assert best is not None
        assert pool is not None
        weights = by_name(best.weights)
        if self.ini is not None:
            self.ini.set_weights(weights)
            self.ini.write(str(self._work / INI))
            _logger.info("%s has the weights of round %d", self._work / INI, best.number)
        if self._added:
            _logger.warning("%s", self._about_added())
        report.loop = self.result
        start = weights_vector(self.result.rounds[0].weights, pool)
        found = weights_vector(best.weights, pool)
        report.measure(pool, self._metric, start, found, details=details)
        report.start, report.reached = 100 * self.result.rounds[0].score, 100 * best.score
        return weights

    def _about_added(self) -> str:
        """Return how to translate with weights of which the decoder knows only some."""
        names = some_names(self._added)
        output = self._wanted.output
        kept, file = ("on stdout", "WEIGHTS") if output == "-" else (f"in {output}", output)
        lacks = "" if self.ini is None else f"{self._work / INI} lacks these weights, and "
        columns = shlex.join([*self._column_options(), *self._cslm_options()])
        return (
            f"the decoder does not know {names}: {lacks}what it chooses by itself is not what was "
            f"measured; all weights are {kept}. To translate with them: phrasescore rescore NBEST "
            f"--source SOURCE {columns} -o RESCORED, then phrasescore rerank RESCORED --weights "
            f"{shlex.quote(file)}"
        )

    def _column_options(self) -> list[str]:
        """Return the options by which rescore adds the same features; models come first."""
        options = []
        for column in self._wanted.columns():
            place = "" if column.model is None else f"@{column.model}"
            options += [FLAGS[column.option], f"{column.value}{place}"]
        return options

    def _cslm_options(self) -> list[str]:
        """Return the options of the command line that models of the kind cslm were given."""
        path = self._wanted.backoff_lm
        options = [] if path is None else ["--backoff-lm", path]
        return [*options, *(["--unnormalized"] if self._wanted.unnormalized else [])]

    def _check_source(self) -> None:
        """Check that the source is a text with a reference for each line: decoding takes long."""
        source = self._wanted.source
        assert source is not None
        with open(source, "rb") as stream:
            if stream.read(len(_GZIP)) == _GZIP:
                raise DataError(source, None, "the decoder is given this file as it is: unpack it")
        self._check_last_line(source)
        num_lines, num_references = sum(1 for _ in read_lines(source)), len(self._references[0])
        if num_lines != num_references:
            problem = f"expected {num_references:,} lines, as there are references"
            raise DataError(source, None, f"{problem}, found {num_lines:,}")

    def _check_last_line(self, source: str) -> None:
        """Refuse a last line without a newline, which Moses does not translate."""
        with open(source, "rb") as stream:
            if self._decoder.is_moses and stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                if stream.read() != b"\n":
                    problem = "expected a newline after the last line: Moses leaves it out"
                    raise DataError(source, None, problem)

    def _check_files(self) -> None:
        """Check that no file is in another's way, before anything is written."""
        wanted = self._wanted
        read = [
            *(wanted.source, wanted.weights, wanted.backoff_lm),
            *read_references(wanted.references),
            *(column.value for column in wanted.columns() if column.option != "features"),
            *([] if self.ini is None else [self.ini.path, *map(str, files_of(self.ini.path))]),
        ]
        inputs = [name for name in read if name is not None]
        check_files(inputs, wanted.outputs())
        check_folder(self._work, [*inputs, *wanted.outputs()])

    def _start(self) -> NamedWeights:
        # What a file of weights does not name, Moses takes from its moses.ini.
        start = {} if self.ini is None else self.ini.tuneable_weights()
        given = {} if self._wanted.weights is None else read_weights(self._wanted.weights)
        return by_label({**start, **given})

    def _content_of_models(self) -> list[str]:
        """Return a number for what is in each file or folder that rescoring uses."""
        columns = [column.value for column in self._wanted.columns() if column.option != "features"]
        if self._wanted.backoff_lm is not None:
            columns.append(self._wanted.backoff_lm)
        contents = Fingerprints({}, {})
        return [contents.of(Path(path)) for path in columns]

    def _about(self, start: NamedWeights) -> dict[str, Any]:
        """Return what a run must have in common with one that it resumes."""
        wanted = self._wanted
        assert wanted.source is not None
        return {
            "decoder": wanted.decoder,
            "decoder flags": wanted.decoder_flags,
            "source": fingerprint(wanted.source),
            "references": [fingerprint(path) for path in read_references(wanted.references)],
            "moses.ini": None if self.ini is None else fingerprint(self.ini.path),
            "start weights": {name: list(values) for name, values in by_name(start).items()},
            "n-best size": wanted.nbest_size,
            "models": [
                *wanted.rescore,
                *self._column_options()[2 * len(wanted.rescore) :],
                *self._cslm_options(),
            ],
            "content of the models": self._content_of_models(),
            "method": wanted.method,
            "metric": wanted.metrics,
            "reference length": wanted.reference_length,
            "starts": wanted.starts,
            "plateau smoothing": wanted.plateau_smoothing,
            "fixed features": list(wanted.fixed),
            "seed": wanted.seed,
        }


def describe(result: LoopResult, metric: str) -> str:
    """Return a line about the latest round."""
    done = result.rounds[-1]
    text = f"round {done.number}: {metric} {100 * done.score:.2f}"
    text += f", {done.new:,} new of {done.hypotheses:,} hypotheses"
    if done.found_score is not None:
        text += f", on all of them {100 * done.pool_score:.2f} -> {100 * done.found_score:.2f}"
    return text
