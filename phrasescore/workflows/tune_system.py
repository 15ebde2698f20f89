"""Tune the weights of a system in rounds, and write the tuned system."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from moses_integration.moses_ini import WeightsSource, weights_path
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.sentences import check_aligned, find_references, read_sentences
from phrasescore.io.folders import check_folder_above
from phrasescore.io.output import check_files
from phrasescore.progress import ProgressCallback
from phrasescore.records import ConfidenceCurve, split_words
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import RoundTuning
from phrasescore.signals import EndedBySignal
from phrasescore.systems.folder import INI, SYSTEM, WEIGHTS, write_system
from phrasescore.systems.round_files import CACHE, Rounds, check_folder, describe_run
from phrasescore.systems.rounds import TuningRun, start_weights
from phrasescore.systems.system import System, read_system
from phrasescore.systems.text import TextProcessing, load_rules
from phrasescore.systems.text_checks import warn_of_form
from phrasescore.systems.translator import Translator
from phrasescore.systems.tuning import ListReader, Optimiser, TuneOutcome


def tune_system(
    system: StrPath | System,
    source: StrPath,
    references: Sequence[StrPath],
    output: StrPath,
    *,
    start: WeightsSource | None = None,
    settings: RoundTuning = RoundTuning(),
    work: StrPath | None = None,
    report: StrPath | None = None,
    tokenized: bool = False,
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TuneOutcome:
    """Tune the weights of a system in rounds, and write the system with the best ones.

    Each round translates, pools its lists with all earlier ones, and optimises, as mert-moses.pl
    does. The lists and the state of the run are stored in a folder. A stopped run can be resumed
    from them, and its result is the same to the last bit. Tables, language model and networks are
    loaded once. After Ctrl-C or SIGTERM the system with the best weights so far is written before
    the signal is raised.

    :param system: a system, its folder or file, or a moses.ini.
    :param references: the references, one line per sentence; ``NAME`` may stand for ``NAME0``,
        ``NAME1`` and so on, as in mert-moses.pl.
    :param output: the folder for the tuned system.
    :param start: weights for the first round: values, a file, a moses.ini or a system; None for the
        system's weights.
    :param work: the folder for the lists and the state; OUTPUT.work by default.
    :param report: a file for the report, as JSON if its name ends in ``.json``.
    :param tokenized: whether source and references are the system's words.
    :param compute: tuning has its threads, the networks of the lists its device.
    :raises PhrasescoreError: if a file is malformed, the decoder fails, or the folder has a
        different run.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    check_sequences(references=references)
    if not references:
        raise ArgumentError("--references is required")
    system = system if isinstance(system, System) else read_system(system)
    source, paths = os.fspath(source), find_references(references)
    folder, work = _check_folders(output, work)
    files = [] if report is None else [os.fspath(report)]
    _check_files(system, [source, *paths, weights_path(start)], folder, files, work)
    first = start_weights(system, start)
    ready = replace(system, weights=first)
    translator = Translator(ready, compute, tokenized=tokenized, path=source, cache=work / CACHE)
    text = TextProcessing() if tokenized else system.text
    given = read_sentences(source)
    warn_of_form(source, given.words, tokenizes=bool(text.tokenize))
    known = [*_read_references(paths, text)]
    if len(given.words) != len(known[0]):
        expected = f"expected {len(known[0]):,} lines, one per reference"
        raise DataError(source, None, f"{expected}, found {len(given.words):,}")
    lines = (" ".join(words).encode() for words in given.words)
    sentences = [translator.prepare(number, line) for number, line in enumerate(lines, start=1)]
    reader = ListReader(known, settings.metric)
    run = TuningRun(
        Rounds(translator, sentences, work, reader, progress, settings.iterations),
        settings,
        Optimiser(settings, compute.threads),
        first,
        describe_run(system, first, [[each.words for each in sentences], *known], settings),
    )

    def write() -> TuneOutcome:
        found = run.outcome(details=report is not None)
        curve = found.report.confidence or ConfidenceCurve()
        write_system(replace(system, weights=found.weights, confidence=curve), folder)
        if report is not None:
            found.write_report(report)
        found.log()
        return found

    try:
        run.run(resume=resume)
    except (KeyboardInterrupt, EndedBySignal):
        if run.result.best is not None:
            write()
        raise
    return write()


def _check_folders(output: StrPath, work: StrPath | None) -> tuple[Path, Path]:
    names = {"-o": output, "--working-dir": f"{os.fspath(output).rstrip('/')}.work"}
    names |= {} if work is None else {"--working-dir": work}
    for option, name in names.items():
        if os.fspath(name) in ("", "-"):
            problem = f"expected the name of a folder, found {os.fspath(name)!r}"
            raise ArgumentError(f"{option}: {problem}")
        check_folder_above(Path(name))
    folder, work = map(Path, names.values())
    return folder, work


def _check_files(
    system: System, read: Sequence[str | None], folder: Path, files: Sequence[str], work: Path
) -> None:
    read = [*read, system.path, *system.files()]
    own = [str(folder / name) for name in (INI, WEIGHTS, SYSTEM)] if folder.is_dir() else []
    check_files(read, [*files, *own])
    check_folder(work, [*filter(None, read), *files, *own])


def _read_references(paths: Sequence[str], text: TextProcessing) -> Iterator[list[tuple[str, ...]]]:
    references = [read_sentences(path) for path in paths]
    check_aligned(references)
    for each in references:
        warn_of_form(each.path, each.words, tokenizes=bool(text.tokenize))
        if (prepare := load_rules(text, each.path, 1)) is None:
            yield each.words
        else:
            lines = (" ".join(words).encode() for words in each.words)
            yield [split_words(prepare(number, line)) for number, line in enumerate(lines, start=1)]
