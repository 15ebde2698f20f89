"""Tune in rounds of decoding, rescoring and optimising."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from moses_integration.decoder.moses import DecoderCommand
from moses_integration.ini_text import files_of
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.plugin_metric import metric_packages
from phrasescore.evaluation.sentences import find_references
from phrasescore.features import (
    ColumnSpec,
    check_columns,
    column_specs,
    feature_packages,
    rescore_options,
)
from phrasescore.io.compression import compression_of
from phrasescore.io.journal import FileDigests, digest_content
from phrasescore.io.output import optional_path
from phrasescore.io.text import MARKUP, decode, is_stream, read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import WeightPair
from phrasescore.report.tuning import TuneReport
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.settings.tuning import RoundTuning, RoundTuningFiles
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.loop_run import LoopRun
from phrasescore.workflows.tune.optimiser import Optimiser, read_metric
from phrasescore.workflows.tune.outcome import OutputFiles
from phrasescore.workflows.tune.pooling import ListReader
from phrasescore.workflows.tune.rounds import CACHE, Decoder, Rounds, check_folder

if TYPE_CHECKING:
    from phrasescore.workflows.scoring.list_scorer import ListScorer


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """The best weights of tuning with a decoder."""

    weights: WeightPair
    report: TuneReport


def tune_with_decoder(
    decoder: Decoder | SearchSettings | str,
    source: StrPath,
    references: Sequence[StrPath],
    start: WeightsSource | None,
    folder: StrPath,
    *,
    output: StrPath | None = None,
    settings: RoundTuning = RoundTuning(),
    columns: Sequence[ColumnSpec | StrPath] = (),
    files: RoundTuningFiles = RoundTuningFiles(),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> LoopOutcome:
    """Find feature weights in rounds: decode, pool the n-best lists, optimise, as mert-moses.pl.

    The weights of the best round are kept. Each round's lists and the state of the run stay in the
    folder, and a stopped run continues from there; its result is the same, bit for bit.
    Tables, language model and networks are loaded once. After Ctrl-C or SIGTERM the best weights so
    far are written, before the signal is raised.

    :param decoder: a callable, see `Decoder`; the settings of the embedded search, which needs
        ``moses_ini``; or a command, Moses' or one with ``{nbest}``, ``{weights}`` and ``{size}`` in
        it.
    :param source: a sentence per line.
    :param references: their references; ``NAME`` may stand for ``NAME0``, ``NAME1`` and so on.
    :param start: weights of the first round: a file or values; None for the weights of
        ``moses_ini``.
    :param folder: the folder for the run's lists, logs, state and best moses.ini.
    :param output: the file for the weights, as ``Name= value`` lines: two sets if ``columns`` add
        features that the decoder does not know.
    :param columns: features to add to the lists in each round; a string is a model's folder.
    :param resume: continue the run in the folder.
    :param compute: settings for networks among the columns; tuning uses its threads, too.
    :raises ArgumentError: if arguments do not go together, or a number is too low.
    :raises PhrasescoreError: if a file is malformed, the decoder fails, or the run in
        the folder is another one. The other parameters are as in `tune`.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    check_sequences(references=references)
    inputs = [source, files.moses_ini, *references]
    if any(is_stream(os.fspath(name)) for name in inputs if name is not None):
        problem = "--source, --references and --moses-ini cannot be streams with --decoder"
        raise ArgumentError(f"{problem}: they are read more than once")
    specs = column_specs(columns)
    if specs:
        check_columns(specs, of_phrases=False)
    if any(column.kind == "scores" for column in specs):
        raise ArgumentError("scores of a file are of lists that are there: not with --decoder")
    if any(column.kind == "ctranslate2" for column in specs):
        raise ArgumentError("models of CTranslate2 score lists that are there: not with --decoder")
    models = [column.value for column in specs if column.kind == "model"]
    if (settings.backoff_lm is not None or settings.unnormalized) and not models:
        raise ArgumentError("--backoff-lm and --unnormalized go with models that rescore lists")
    if not os.fspath(folder):
        raise ArgumentError("--working-dir: expected the name of a folder, found ''")
    outputs = OutputFiles(output, files)
    source, work, backoff = os.fspath(source), Path(folder), optional_path(settings.backoff_lm)
    ini, opened = _open_decoder(decoder, optional_path(files.moses_ini))
    first = _start_weights(start, ini)
    paths = find_references(references)
    metrics = settings.metric_weights
    metric, words = read_metric(paths, metrics, settings.reference_length)
    contents = [column.value for column in specs if column.kind != "feature"]
    contents += [] if backoff is None else [backoff]
    read = [source, *paths, *contents]
    read += [] if ini is None else [ini.path, *map(str, files_of(ini.path))]
    read += [name for name in (weights_path(start),) if name is not None]
    written = outputs.check(read, files.translations)
    _check_source(source, opened, len(words[0]), is_rescored=bool(specs))
    check_folder(work, [*read, *written])
    options = rescore_options(specs, backoff, unnormalized=settings.unnormalized)

    def open_rescorer() -> "ListScorer":
        from phrasescore.workflows.scoring.list_scorer import ListScorer  # imports torch

        return ListScorer(
            specs,
            Rescoring(cache=work / CACHE, backoff_lm=backoff, unnormalized=settings.unnormalized),
            compute if compute.engine == "here" else replace(compute, threads=None),
        )

    digests = FileDigests({}, {})
    about = {
        **_about_decoder(decoder),
        "source": digest_content(source),
        "references": [digest_content(path) for path in paths],
        "moses.ini": None if ini is None else digest_content(ini.path),
        "start weights": first.lists,
        "start weights of the search": None if first.search == first.lists else first.search,
        "n-best size": settings.nbest_size,
        "models": [*models, *options[2 * len(models) :]],
        "content of the models": [digests.digest(Path(path)) for path in contents],
        "method": settings.method,
        "metric": metrics,
        "reference length": settings.reference_length,
        "starts": settings.starts,
        "plateau smoothing": settings.plateau_smoothing,
        "fixed features": list(settings.fixed),
        "seed": settings.seed,
    }
    names = [column.value for column in specs if column.kind == "feature"]
    if packages := [*feature_packages(names), *metric_packages(metrics)]:
        about["packages"] = packages
    reader, rescorer = ListReader(metric, words), open_rescorer if specs else None
    rounds = Rounds(opened, ini, source, work, settings.nbest_size, reader, rescorer, progress)
    optimiser = Optimiser(settings, compute.threads)
    run = LoopRun(rounds, optimiser, first, settings.seed, about)

    def write() -> LoopOutcome:
        weights, made = run.finish(output, options, details=files.report is not None)
        if files.translations is not None:
            run.write_translations(os.fspath(files.translations), weights.lists)
        outputs.write(weights, made, ini)
        return LoopOutcome(weights, made)

    try:
        run.run(settings.iterations, settings.patience, resume=resume)
    except (KeyboardInterrupt, EndedBySignal):
        if run.result.best is not None:
            write()
        raise
    return write()


def _open_decoder(
    decoder: Decoder | SearchSettings | str, path: str | None
) -> tuple[MosesIni | None, Decoder | EmbeddedSearch]:
    """Return the moses.ini whose weights are tuned (None if unknown), and the decoder.

    :param path: the path of the moses.ini; None for the one in a command of Moses.
    """
    command = DecoderCommand(decoder) if isinstance(decoder, str) else None
    if path is None and command is not None and command.is_moses:
        path = command.ini_path()
    ini = None if path is None else MosesIni.read(path)
    if command is not None:
        return ini, replace(command, ini=ini)
    if isinstance(decoder, SearchSettings):
        if ini is None:
            raise ArgumentError("--decoder embedded needs --moses-ini, the moses.ini")
        return ini, EmbeddedSearch(ini.path, decoder)
    assert not isinstance(decoder, str)
    return ini, decoder


def _start_weights(start: WeightsSource | None, ini: MosesIni | None) -> WeightPair:
    if ini is None and start is None:
        raise ArgumentError(
            "give the weights to start from: --weights FILE, or --moses-ini moses.ini, whose "
            "weights they are then (or -f moses.ini in the decoder's command)"
        )
    # Weights that a file does not name Moses takes from its moses.ini.
    usual = {} if ini is None else ini.tuneable_weights()
    given = load_weights({} if start is None else start)
    pair = WeightPair(*({**usual, **weights} for weights in given))
    where = weights_path(start) or ("the start weights" if ini is None else ini.path)
    for weights in pair:
        check_weights(weights, where)
    return pair


def _check_source(
    path: str, decoder: Decoder | EmbeddedSearch, num_references: int, *, is_rescored: bool
) -> None:
    """Check, before the first round, that the source has a line for each reference.

    :param is_rescored: whether networks read it, to which markup is no words.
    """
    if isinstance(decoder, DecoderCommand):
        with open(path, "rb") as stream:
            if compression_of(stream.read(16)) is not None:
                raise DataError(path, None, "the decoder is given this file as it is: unpack it")
            # Moses does not translate a last line without a newline.
            if decoder.is_moses and stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                if stream.read() != b"\n":
                    problem = "expected a newline after the last line: Moses leaves it out"
                    raise DataError(path, None, problem)
    num_lines = 0
    for num_lines, raw in enumerate(read_lines(path), start=1):
        if is_rescored:
            MARKUP.check(path, num_lines, decode(path, num_lines, raw))
    if num_lines != num_references:
        problem = f"expected {num_references:,} lines, as there are references"
        raise DataError(path, None, f"{problem}, found {num_lines:,}")


def _about_decoder(decoder: Decoder | SearchSettings | str) -> dict[str, object]:
    """Return all properties of a decoder that a resumed run must share."""
    if isinstance(decoder, SearchSettings):
        return {"decoder": "embedded", "search": about_search(decoder)}
    if isinstance(decoder, str):
        return {"decoder": decoder}
    named = decoder if hasattr(decoder, "__qualname__") else type(decoder)
    return {"decoder": f"{named.__module__}.{named.__qualname__}"}


def about_search(search: SearchSettings) -> dict[str, Any] | None:
    """Return a search's settings that change translations and differ from the defaults, if any."""
    usual = SearchSettings()
    changed = {
        name: value
        for name, value in msgspec.json.decode(msgspec.json.encode(search)).items()
        if getattr(search, name) != getattr(usual, name)
        and name not in ("processes", "threads", "buffer_size")
    }
    return changed or None
