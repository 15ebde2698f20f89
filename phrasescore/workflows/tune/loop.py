"""``phrasescore tune --decoder``: rounds of decoding, rescoring and optimising."""

import logging
import os
import shlex
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_integration.decoder.moses import Decoder
from moses_integration.ini_paths import files_of
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import Part, Weights, is_sparse, read_both_weights
from phrasescore.cli.file_names import check_files
from phrasescore.cli.options import COLUMN_FLAGS
from phrasescore.cli.tune_options import TuneOptions
from phrasescore.cli.tune_outcome import describe, warnings_of, write_translations
from phrasescore.cli.tune_pool import ListReader, by_label, by_name, read_references, some_names
from phrasescore.cli.tune_report import TuneReport
from phrasescore.cli.tune_rounds import EmbeddedDecoder, LoopDecoder, Rounds
from phrasescore.cli.tune_search import Search
from phrasescore.cli.tune_state import (
    CACHE,
    INI,
    check_folder,
    read_state,
    write_state,
)
from phrasescore.errors import DataError
from phrasescore.io.digests import FileDigests, digest_content
from phrasescore.io.folders import locked
from phrasescore.io.text import read_lines
from tuning.loop import (
    LoopResult,
    LoopSettings,
    NamedWeights,
    WeightPair,
    run_loop,
    weights_vector,
)
from tuning.metric import ReferenceMetric

if TYPE_CHECKING:
    from phrasescore.workflows.rescore import ListRescorer

_logger = logging.getLogger(__name__)

# The search of this package, as --decoder names it.
EMBEDDED = "embedded"
# How a file of gzip begins.
_GZIP = b"\x1f\x8b"


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
        flags = wanted.decoder_flags
        plain = Decoder(wanted.decoder, flags)
        has_own_ini = plain.is_moses and wanted.decoder != EMBEDDED
        path = wanted.moses_ini or (plain.ini_path() if has_own_ini else None)
        self.ini = None if path is None else MosesIni.read(path)
        self._command = Decoder(wanted.decoder, flags, self.ini)
        if self.ini is None and wanted.decoder == EMBEDDED:
            raise click.UsageError("--decoder embedded needs --config, the moses.ini")
        if self.ini is None and wanted.weights is None:
            raise click.UsageError(
                "give the weights to start from: --weights FILE, or --config moses.ini, whose "
                "weights they are then (or -f moses.ini in the decoder's command)"
            )

    def run(self) -> None:
        """Decode and optimise until nothing better is found; `result` is kept up to date.

        :raises KeyboardInterrupt: where the user stops it.
        """
        self._check_source()
        start = self._start()
        about = self._about(start)
        self._check_files()
        with locked(self._work) as lock, ExitStack() as stack:
            decided = read_state(self._work, about, resume=self._wanted.resume)
            if decided is None:
                # With it, what the first round decodes is not lost either.
                write_state(self._work, about, LoopResult(next_weights=start.search))
            reader = ListReader(self._metric, self._references)
            # First, because it forks, and what follows may start threads.
            decoder, own = self._open_decoder(stack, start, lock)
            rescorer = self._open_rescorer(stack)
            self._search.others = self._added

            def on_round(result: LoopResult) -> None:
                self._keep(result)
                if self._search.stopped:
                    # A run that is resumed reads this round again, and optimises to the end.
                    *earlier, last = result.rounds
                    open_round = LoopResult(tuple(earlier), last.weights.search)
                    write_state(self._work, about, open_round)
                    self._search.end()
                write_state(self._work, about, result)
                _logger.info("%s", describe(result, self._metric.name, self._added))

            self.result = run_loop(
                Rounds(self._wanted, decoder, reader, own, rescorer),
                self._metric,
                start._replace(search=self._of_decoder(start.search)),
                self._search,
                self._search.settings(()),
                LoopSettings(self._wanted.iterations, self._wanted.patience),
                seed=self._wanted.seed,
                list_features=self._added,
                # Version 0.1 had weights of all features there.
                decided=[
                    each._replace(search=self._of_decoder(each.search)) for each in decided or ()
                ],
                on_judged=self._keep,
                on_round=on_round,
                report=_logger.info,
                is_stopped=lambda: self._search.stopped,
            )
        _logger.info("%d rounds: %s", len(self.result.rounds), self.result.reason)
        if self._wanted.iterations == 1 and not self._added:
            _logger.warning(
                "the weights are still those of the start: those that a round finds are tried by "
                "the next one, and --iterations is 1"
            )

    def _of_decoder(self, weights: NamedWeights) -> NamedWeights:
        """Return the weights of features that are not of lists alone."""
        added = self._added
        return {label: weight for label, weight in weights.items() if label.name not in added}

    def _keep(self, result: LoopResult) -> None:
        self.result = result

    def _open_decoder(
        self, stack: ExitStack, start: WeightPair, lock: int
    ) -> tuple[LoopDecoder, Collection[str] | None]:
        """Return what decodes, and the features that it has, as far as that is known."""
        wanted, ini = self._wanted, self.ini
        if wanted.decoder != EMBEDDED:
            return self._command, None if ini is None else set(ini.tuneable_weights())
        from moses_integration.decoder.source import read_source
        from phrasescore.cli.decode import open_search

        assert ini is not None
        assert wanted.source is not None
        # Without the lock, which after kill -9 must be free at once.
        flags = shlex.split(wanted.decoder_flags)
        search = open_search(ini.path, wanted.source, flags, closed=(lock,))
        own = search.feature_names
        weights = {name: of for name, of in by_name(start.search).items() if name in own}
        stack.enter_context(search).start(weights, read_source(wanted.source))
        return EmbeddedDecoder(search), own

    def _open_rescorer(self, stack: ExitStack) -> "ListRescorer | None":
        """Return what adds features to the lists, if any are wanted; the stack closes it."""
        if not self._wanted.columns():
            return None
        # Imports torch.
        from phrasescore.workflows.rescore import ListRescorer

        rescorer = ListRescorer(
            self._wanted.columns(),
            cache=str(self._work / CACHE),
            device=self._wanted.device,
            threads=self._wanted.threads,
            backoff_lm=self._wanted.backoff_lm,
            unnormalized=self._wanted.unnormalized,
        )
        self._added = list(rescorer.names)
        return stack.enter_context(rescorer)

    def finish(self, report: TuneReport, *, details: bool) -> dict[Part, Weights]:
        """Write the best moses.ini into the folder, fill the report, and return the weights."""
        best, pool = self.result.best, self.result.pool
        assert best is not None
        assert pool is not None
        own = [label for label in pool.labels if label.name not in self._added]
        unnamed = {label: 0.0 for label in own if not is_sparse(label.name)}
        both: dict[Part, Weights] = {
            "search": by_name({**unnamed, **best.weights.search}),
            "lists": by_name({**unnamed, **best.weights.lists}),
        }
        if self.ini is not None:
            unknown = self.ini.set_weights(both["search"])
            self.ini.write(str(self._work / INI))
            lacks = f", but not those of {some_names(unknown)}" if unknown else ""
            text = "%s has the search weights of round %d%s"
            _logger.info(text, self._work / INI, best.number, lacks)
        if self._added:
            _logger.info("%s", self._about_added())
        report.loop = self.result
        report.warnings += warnings_of(self.result, self._metric.name, self._added)
        for problem in report.warnings:
            _logger.warning("%s", problem)
        start = weights_vector(self.result.rounds[0].weights.search, pool)
        found = weights_vector(best.weights.lists, pool)
        report.measure(pool, self._metric, start, found, details=details)
        if self._added:
            decoding = [best.weights.search.get(label) for label in pool.labels]
            report.features = [
                row._replace(search=weight)
                for row, weight in zip(report.features, decoding, strict=True)
            ]
        report.start, report.reached = (
            100 * self.result.rounds[0].decoded_score,
            100 * best.score,
        )
        if self._wanted.translations is not None:
            rescored = self._work / f"run{best.number}.rescored.gz"
            nbest = rescored if self._added else self._work / f"run{best.number}.nbest"
            chosen = both["lists"] if self._added else None
            write_translations(self._wanted.translations, str(nbest), chosen)
        return both

    def _about_added(self) -> str:
        """Return how to translate with two sets of weights."""
        output = self._wanted.output
        kept, file = ("stdout", "WEIGHTS") if output == "-" else (output, output)
        columns = shlex.join([*self._column_options(), *self._cslm_options()])
        return (
            f"the decoder does not know {some_names(self._added)}: {kept} has two sets of weights, "
            "[search] to decode with and [lists] to rerank with. To translate: n-best lists by "
            f"phrasescore decode --weights {shlex.quote(file)}"
            f"{'' if self.ini is None else f', or Moses with {self._work / INI}'}; phrasescore "
            f"rescore NBEST --source SOURCE {columns} -o RESCORED; phrasescore rerank RESCORED "
            f"--weights {shlex.quote(file)}"
        )

    def _column_options(self) -> list[str]:
        """Return the options by which rescore adds the same features; models come first."""
        options = []
        for column in self._wanted.columns():
            place = "" if column.model is None else f"@{column.model}"
            options += [COLUMN_FLAGS[column.kind], f"{column.value}{place}"]
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
        if self._wanted.decoder != EMBEDDED:
            with open(source, "rb") as stream:
                if stream.read(len(_GZIP)) == _GZIP:
                    problem = "the decoder is given this file as it is: unpack it"
                    raise DataError(source, None, problem)
            self._check_last_line(source)
        num_lines, num_references = sum(1 for _ in read_lines(source)), len(self._references[0])
        if num_lines != num_references:
            problem = f"expected {num_references:,} lines, as there are references"
            raise DataError(source, None, f"{problem}, found {num_lines:,}")

    def _check_last_line(self, source: str) -> None:
        """Refuse a last line without a newline, which Moses does not translate."""
        with open(source, "rb") as stream:
            if self._command.is_moses and stream.seek(0, os.SEEK_END):
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
            *(column.value for column in wanted.columns() if column.kind != "feature"),
            *([] if self.ini is None else [self.ini.path, *map(str, files_of(self.ini.path))]),
        ]
        inputs = [name for name in read if name is not None]
        check_files(inputs, wanted.outputs())
        check_folder(self._work, [*inputs, *wanted.outputs()])

    def _start(self) -> WeightPair:
        # What a file of weights does not name, Moses takes from its moses.ini.
        start = {} if self.ini is None else self.ini.tuneable_weights()
        if self._wanted.weights is None:
            return WeightPair(by_label(start), by_label(start))
        given = read_both_weights(self._wanted.weights)
        return WeightPair(
            by_label({**start, **given["search"]}), by_label({**start, **given["lists"]})
        )

    def _content_of_models(self) -> list[str]:
        """Return a number for what is in each file or folder that rescoring uses."""
        columns = [column.value for column in self._wanted.columns() if column.kind != "feature"]
        if self._wanted.backoff_lm is not None:
            columns.append(self._wanted.backoff_lm)
        contents = FileDigests({}, {})
        return [contents.digest(Path(path)) for path in columns]

    def _about(self, start: WeightPair) -> dict[str, Any]:
        """Return what a run must have in common with one that it resumes."""
        wanted = self._wanted
        assert wanted.source is not None
        return {
            "decoder": wanted.decoder,
            "decoder flags": wanted.decoder_flags,
            "source": digest_content(wanted.source),
            "references": [digest_content(path) for path in read_references(wanted.references)],
            "moses.ini": None if self.ini is None else digest_content(self.ini.path),
            "start weights": _as_lists(start.lists),
            "start weights of the search": (
                None if start.search == start.lists else _as_lists(start.search)
            ),
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


def _as_lists(weights: NamedWeights) -> dict[str, list[float]]:
    return {name: list(values) for name, values in by_name(weights).items()}
