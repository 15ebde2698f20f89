"""The actions of an experiment's steps: calls of the library, each with its command.

An action is a value that goes to a process of its own as JSON (`phrasescore.workflows.experiment.
step`) and runs there as a call. Its command is what a user could type instead.
"""

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec

from phrasescore.features.column_spec import ColumnSpec
from phrasescore.progress import ProgressCallback
from phrasescore.workflows.search_settings import SearchSettings

_STEP = (sys.executable, "-m", "phrasescore.workflows.experiment.step")


class _LibraryCall(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What all actions have in common."""

    # Whether it goes on with a run that was stopped.
    resume: bool = False
    # The verb of the command line, and whether it has --resume.
    verb: ClassVar[str]
    resumable: ClassVar[bool] = False

    def run(self, progress: ProgressCallback) -> None:
        """Call the library."""
        raise NotImplementedError

    def _arguments(self) -> Iterable[str]:
        """Yield the words behind the verb, but for ``--resume``."""
        raise NotImplementedError

    def command(self, *, resume: bool = False) -> tuple[str, ...]:
        """Return the command that does the same, as a user could type it."""
        end = ("--resume",) if resume and self.resumable else ()
        return ("phrasescore", self.verb, *self._arguments(), *end)

    def program(self, *, resume: bool = False) -> tuple[str, ...]:
        """Return the words that start the process."""
        action = msgspec.structs.replace(self, resume=resume and self.resumable)
        return (*_STEP, msgspec.json.encode(action).decode())


class TrainCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Train a network."""

    verb = "train"
    resumable = True
    kind: str
    inputs: tuple[str, ...]
    output: str
    preset: str | None = None
    reverse: bool = False
    # minutes, epochs, updates, seed, as far as they are given.
    limits: dict[str, int | float] = {}
    # As "training.batch_size=32".
    settings: tuple[str, ...] = ()
    threads: int | None = None

    def run(self, progress: ProgressCallback) -> None:
        """Train the network."""
        from phrasescore.workflows.train import train

        train(
            self.kind,
            self.inputs,
            self.output,
            preset=self.preset,
            reverse=self.reverse,
            settings=(*self.settings, *(f"training.{key}={n}" for key, n in self.limits.items())),
            threads=self.threads,
            resume=self.resume,
            progress=progress,
        )

    def _arguments(self) -> Iterable[str]:
        yield from (self.kind, *self.inputs, "-o", self.output)
        yield from _option("preset", self.preset)
        yield from _option("reverse", self.reverse)
        for name, value in self.limits.items():
            yield from _option(name, value)
        for setting in self.settings:
            yield from _option("set", setting)
        yield from _option("threads", self.threads)


class AnnotateCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Add columns to the phrase table."""

    verb = "annotate"
    resumable = True
    table: str
    columns: tuple[ColumnSpec, ...]
    output: str
    moses_ini: str
    moses_ini_out: str
    threads: int | None = None

    def run(self, progress: ProgressCallback) -> None:
        """Add the columns."""
        from phrasescore.workflows.annotate import annotate

        annotate(
            self.table,
            self.columns,
            self.output,
            moses_ini=self.moses_ini,
            moses_ini_out=self.moses_ini_out,
            threads=self.threads,
            resume=self.resume,
            progress=progress,
        )

    def _arguments(self) -> Iterable[str]:
        yield self.table
        yield from _columns(self.columns)
        yield from ("-o", self.output, "--moses-ini", self.moses_ini)
        yield from ("--moses-ini-out", self.moses_ini_out, *_option("threads", self.threads))


class DecodeCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Translate a text, with n-best lists where ``nbest`` names a file."""

    verb = "decode"
    source: str
    config: str
    weights: str
    output: str
    search: SearchSettings
    moses_bin: str | None = None
    nbest: str | None = None
    nbest_size: int = 100

    def run(self, progress: ProgressCallback) -> None:
        """Translate the text."""
        from phrasescore.workflows.decode import decode

        decode(
            self.source,
            self.config,
            self.output,
            weights=self.weights,
            nbest=None if self.nbest is None else (self.nbest, self.nbest_size),
            distinct=self.nbest is not None,
            decoder="embedded" if self.moses_bin is None else "moses",
            moses_bin=self.moses_bin,
            search=self.search,
            progress=progress,
        )

    def _arguments(self) -> Iterable[str]:
        yield from (self.source, "--config", self.config)
        if self.moses_bin is not None:
            yield from ("--decoder", "moses", "--moses-bin", self.moses_bin)
        yield from search_options(self.search)
        yield from ("--weights", self.weights)
        if self.nbest is not None:
            yield from ("--nbest", self.nbest, str(self.nbest_size), "--distinct")
        yield from ("-o", self.output)


class TuneCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Tune weights in rounds."""

    verb = "tune"
    resumable = True
    # "embedded", or the command of a decoder.
    decoder: str
    config: str
    source: str
    references: tuple[str, ...]
    weights: str
    working_dir: str
    output: str
    translations: str
    report: str
    # Of the embedded decoder.
    search: SearchSettings
    # Features of n-best lists.
    columns: tuple[ColumnSpec, ...] = ()
    backoff_lm: str | None = None
    unnormalized: bool = False
    method: str
    seed: int
    nbest_size: int
    iterations: int
    patience: int
    threads: int | None = None

    def run(self, progress: ProgressCallback) -> None:
        """Tune the weights."""
        from phrasescore.workflows.tune.loop import tune_with_decoder

        is_embedded = self.decoder == "embedded"
        tune_with_decoder(
            self.search if is_embedded else self.decoder,
            self.source,
            self.references,
            self.weights,
            self.working_dir,
            output=self.output,
            moses_ini=self.config,
            columns=self.columns,
            backoff_lm=self.backoff_lm,
            unnormalized=self.unnormalized,
            method=self.method,
            iterations=self.iterations,
            nbest_size=self.nbest_size,
            patience=self.patience,
            translations=self.translations,
            resume=self.resume,
            report=self.report,
            report_format="json",
            seed=self.seed,
            threads=self.threads,
            progress=progress,
        )

    def _flags(self) -> str:
        """Return the settings of the search as the command line has them."""
        return shlex.join(search_options(self.search)) if self.decoder == "embedded" else ""

    def _arguments(self) -> Iterable[str]:
        yield from ("--decoder", self.decoder)
        if flags := self._flags():
            yield from ("--decoder-flags", flags)
        yield from ("--config", self.config, "--source", self.source)
        for path in self.references:
            yield from ("--references", path)
        yield from ("--weights", self.weights, "--working-dir", self.working_dir)
        yield from ("--method", self.method, "--seed", str(self.seed))
        yield from ("--nbest-size", str(self.nbest_size), "--iterations", str(self.iterations))
        yield from ("--patience", str(self.patience), *_option("threads", self.threads))
        for column in self.columns:
            end = "" if column.kind == "model" else f"-{column.kind}"
            yield from _option(f"rescore{end}", column.value)
        yield from _option("backoff_lm", self.backoff_lm)
        yield from _option("unnormalized", self.unnormalized)
        yield from ("--translations", self.translations, "-o", self.output)
        yield from ("--report", self.report, "--format", "json")


class RescoreCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Add features to n-best lists."""

    verb = "rescore"
    nbest: str
    source: str
    columns: tuple[ColumnSpec, ...]
    output: str
    backoff_lm: str | None = None
    unnormalized: bool = False
    threads: int | None = None

    def run(self, progress: ProgressCallback) -> None:
        """Add the features."""
        from phrasescore.workflows.rescore import rescore

        rescore(
            self.nbest,
            self.source,
            self.columns,
            self.output,
            backoff_lm=self.backoff_lm,
            unnormalized=self.unnormalized,
            threads=self.threads,
            progress=progress,
        )

    def _arguments(self) -> Iterable[str]:
        yield from (self.nbest, "--source", self.source, *_columns(self.columns))
        yield from _option("backoff_lm", self.backoff_lm)
        yield from _option("unnormalized", self.unnormalized)
        yield from (*_option("threads", self.threads), "-o", self.output)


class RerankCall(_LibraryCall, frozen=True, tag=True, kw_only=True):
    """Take the best of each n-best list."""

    verb = "rerank"
    nbest: str
    weights: str
    output: str

    def run(self, progress: ProgressCallback) -> None:
        """Take the best hypotheses."""
        from phrasescore.workflows.rerank import rerank

        rerank(self.nbest, self.output, weights=self.weights, progress=progress)

    def _arguments(self) -> Iterable[str]:
        return (self.nbest, "--weights", self.weights, "-o", self.output)


AnyCall = TrainCall | AnnotateCall | DecodeCall | TuneCall | RescoreCall | RerankCall


def search_options(search: SearchSettings) -> Iterable[str]:
    """Yield the options of ``phrasescore decode`` for settings of the search."""
    for feature, model in zip(search.features, search.models, strict=True):
        yield from ("--feature", feature, "--model", model)
    yield from _option("backoff_lm", search.backoff_lm)
    yield from _option("unnormalized", search.unnormalized)
    yield from _option("threads", search.threads)
    yield from _option("processes", search.processes)
    for name, value in search.limits().items():
        yield from _option(name, value)
    if search.buffer_size != SearchSettings().buffer_size:
        yield from _option("buffer_size", search.buffer_size)


def _columns(columns: Sequence[ColumnSpec]) -> Iterable[str]:
    for column in columns:
        yield from _option(column.kind, column.value)


def _option(name: str, value: str | float | None) -> tuple[str, ...]:
    """Return an option; nothing for None and false."""
    if value is None or value is False:
        return ()
    flag = f"--{name.replace('_', '-')}"
    return (flag,) if value is True else (flag, str(value))
