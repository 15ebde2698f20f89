"""Tune in rounds of decoding, rescoring and optimising."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from phrasescore.errors import ArgumentError
from phrasescore.features.column_spec import ColumnSpec, check_columns, column_specs
from phrasescore.io.text import is_stream
from phrasescore.progress import ProgressCallback
from phrasescore.records import WeightPair, Weights
from phrasescore.signals import EndedBySignal
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.lists import write_outcome
from phrasescore.workflows.tune.loop_run import LoopRun
from phrasescore.workflows.tune.optimiser import Optimiser
from phrasescore.workflows.tune.pooling import find_references
from phrasescore.workflows.tune.report import TuneReport
from phrasescore.workflows.tune.rounds import Decoder
from phrasescore.workflows.warnings import collecting_warnings
from tuning.bleu import ReferenceLength
from tuning.loop import LoopSettings


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """The best weights of tuning with a decoder."""

    weights: WeightPair
    report: TuneReport
    warnings: tuple[str, ...] = ()


def tune_with_decoder(
    decoder: Decoder | SearchSettings | str,
    source: str | os.PathLike[str],
    references: Sequence[str | os.PathLike[str]],
    start: str | os.PathLike[str] | Weights | WeightPair | None,
    folder: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    moses_ini: str | os.PathLike[str] | None = None,
    moses_ini_out: str | os.PathLike[str] | None = None,
    decoder_flags: str = "",
    columns: Sequence[ColumnSpec | str] = (),
    backoff_lm: str | os.PathLike[str] | None = None,
    unnormalized: bool = False,
    method: str = "mert",
    metrics: Mapping[str, float] | None = None,
    reference_length: ReferenceLength = "closest",
    starts: int = 20,
    plateau_smoothing: int = 0,
    fixed: Sequence[str] = (),
    iterations: int = 25,
    nbest_size: int = 100,
    patience: int = 5,
    translations: str | os.PathLike[str] | None = None,
    resume: bool = False,
    report: str | os.PathLike[str] | None = None,
    report_format: Literal["text", "json"] = "text",
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> LoopOutcome:
    """Find feature weights in rounds: decode, pool the n-best lists, optimise, as mert-moses.pl.

    The weights of the best round are kept. Each round's lists and the state of the run stay in the
    folder, and a run that was stopped goes on from there; its result is the same, bit for bit.
    Tables, language model and networks are loaded once. After Ctrl-C or SIGTERM the best weights so
    far are written, before the signal is raised.

    :param decoder: a callable, see `Decoder`; the settings of the embedded search, which needs
        ``moses_ini``; or a command, Moses' or one with ``{nbest}``, ``{weights}`` and ``{size}`` in
        it.
    :param source: a sentence per line.
    :param references: of all sentences; ``NAME`` may stand for ``NAME0``, ``NAME1`` and so on.
    :param start: weights of the first round, or a file of them; where None, those of ``moses_ini``.
    :param folder: where the run keeps lists, logs, its state and the best moses.ini.
    :param output: gets the weights as ``Name= value`` lines: two sets of them, where ``columns``
        add features that the decoder does not know.
    :param moses_ini: its weights are the start of features that ``start`` does not name.
    :param moses_ini_out: gets the moses.ini with the best weights.
    :param decoder_flags: more of a command; of `SearchSettings`, the text they were made from, if
        any, which a resumed run must have in common.
    :param columns: features that lists get in each round; a string is a model's folder.
    :param backoff_lm: of models of the kind cslm among the columns, as is ``unnormalized``.
    :param iterations: rounds at most.
    :param nbest_size: hypotheses per list.
    :param patience: rounds without a better translation after which the loop ends.
    :param translations: gets the best round's translations of the source: its lists, reranked.
    :param resume: go on with the run in the folder.
    :param device: of the networks among the columns.
    :raises ArgumentError: if arguments do not go together.
    :raises PhrasescoreError: if a file is not what it should be, the decoder fails, or the run in
        the folder is another one. The other parameters are those of `tune`.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    read = [source, moses_ini, *references]
    if any(is_stream(os.fspath(name)) for name in read if name is not None):
        problem = "`source`, `references` and `moses_ini` cannot be streams with `decoder`"
        raise ArgumentError(f"{problem}: they are read more than once")
    specs = column_specs(columns)
    if specs:
        check_columns(specs, of_phrases=False)
    models = [column for column in specs if column.kind == "model"]
    if (backoff_lm is not None or unnormalized) and not models:
        raise ArgumentError("`backoff_lm` and `unnormalized` go with models that rescore lists")
    if not os.fspath(folder):
        raise ArgumentError("`folder`: expected the name of a folder, found ''")
    outputs = [
        os.fspath(name)
        for name in (output, moses_ini_out, report, translations)
        if name is not None
    ]
    with collecting_warnings() as warnings:
        run = LoopRun(
            decoder=decoder,
            flags=decoder_flags,
            source=os.fspath(source),
            references=find_references([os.fspath(path) for path in references]),
            start=start if start is None or isinstance(start, dict | tuple) else os.fspath(start),
            work=Path(folder),
            ini_path=None if moses_ini is None else os.fspath(moses_ini),
            columns=specs,
            backoff_lm=None if backoff_lm is None else os.fspath(backoff_lm),
            unnormalized=unnormalized,
            metrics=dict(metrics) if metrics else {"bleu": 1.0},
            reference_length=reference_length,
            optimiser=Optimiser(method, starts, plateau_smoothing, fixed, threads),
            nbest_size=nbest_size,
            seed=seed,
            device=device,
            progress=progress,
        )
        run.check_files(outputs)

        def write() -> LoopOutcome:
            weights, made = run.finish(output, details=report is not None)
            if translations is not None:
                run.write_translations(os.fspath(translations), weights.lists)
            write_outcome(weights, made, output, run.ini, moses_ini_out, report, report_format)
            return LoopOutcome(weights, made, tuple(warnings))

        try:
            run.run(LoopSettings(iterations, patience), resume=resume)
        except (KeyboardInterrupt, EndedBySignal):
            if run.result.best is not None:
                write()
            raise
        return write()
