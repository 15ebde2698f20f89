"""Write the file of a new experiment, from a moses.ini and parallel text."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import NbestRequest
from moses_integration.ini_text import named_files, with_paths_from
from moses_integration.moses_ini import MosesIni
from moses_integration.source_text import markup_of, read_source
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import usable_threads
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.io.folders import remove_folder, writing_folder
from phrasescore.io.output import check_output, open_output
from phrasescore.io.text import count_lines, is_stream, read_blocks, read_lines
from phrasescore.progress import format_duration
from phrasescore.settings.experiment import ExperimentStart
from phrasescore.workflows.embedded_search import SearchWork
from phrasescore.workflows.experiment.choice import (
    ROUNDS,
    choose_networks,
    divide_time,
)
from phrasescore.workflows.experiment.config import Experiment, TextSet, read_experiment
from phrasescore.workflows.experiment.forecast import Forecaster, Pace
from phrasescore.workflows.experiment.plan import build_plan, unique_names
from phrasescore.workflows.experiment.texts import (
    GivenText,
    SystemText,
    check_alignment,
    check_files,
    count_pairs,
    find_alignment,
    text_name,
)
from phrasescore.workflows.experiment.toml_text import render as render_experiment
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.translation.sentences import SentenceTask

_logger = logging.getLogger(__name__)

_TIMED = 20  # sentences of dev that are translated to measure the search
_MOST_JOBS = 4  # there are rarely more steps that can run at the same time
_SHORT = 4  # BLEU needs n-grams of four words
# As in docs/results.md. A stack of 100 takes three times as long (Multi30k, lists of 100).
_SEARCH = {"stack": 30}


@dataclass(frozen=True, slots=True)
class NewExperiment:
    """What `init_experiment` has written."""

    pairs: int  # sentence pairs in the training text
    rows: tuple[str, ...]
    without: dict[str, str]  # why the experiment does without a network, by its name
    steps: dict[str, float]  # how many seconds each step takes at most, in order
    seconds: float  # how long the experiment takes at most, with steps at the same time
    cores: int


def init_experiment(
    moses_ini: StrPath,
    output: StrPath,
    *,
    train: Sequence[StrPath],
    dev: Sequence[StrPath],
    tests: Sequence[Sequence[StrPath]],
    settings: ExperimentStart = ExperimentStart(),
) -> NewExperiment:
    """Write the file of an experiment, which `run_experiment` runs, and forecast its time.

    Rows and networks are chosen by the amount of text and the time. Everything is checked before
    the file is written. Texts that are not prepared as the system's own text, because the moses.ini
    of `build` says that it was tokenised or its case changed, are written to a folder ``NAME.text``
    beside the file.

    :param moses_ini: the system, which the embedded search must support. Its relative paths start
        in its folder, or else in the working folder.
    :param output: the TOML file to write, which must not exist.
    :param train: the source and the target side of the training text.
    :param dev: the source and the references of the text for tuning; a name may stand for NAME0,
        NAME1 and so on.
    :param tests: the same for each test set.
    """
    check_sequences(train=train, dev=dev, tests=tests)
    for name, text in (("train", train), ("dev", dev), *(("test", each) for each in tests)):
        check_sequences(**{name: text})
        if len(text) < 2 or (name == "train" and len(text) > 2):
            raise ArgumentError(f"--{name}: expected a source and its translation, got {text!r}")
    if not tests:
        raise ArgumentError("--test: expected at least one text")
    if is_stream(os.fspath(moses_ini)):
        raise ArgumentError("MOSES_INI: expected a file, as it is read again")
    path = Path(output)
    if str(output) == "-" or os.path.lexists(path):
        problem = "expected the name of a new file" if str(output) == "-" else "the file exists"
        raise PhrasescoreError(f"{output}: {problem}: name another one, or remove it")
    check_output(str(path))
    texts = [
        GivenText(name, (Path(source), *map(Path, find_references(others))))
        for name, (source, *others) in (
            ("--train", train),
            ("--dev", dev),
            *((f"--test {number}", text) for number, text in enumerate(tests, start=1)),
        )
    ]
    check_files(texts)
    return _Initialization(os.fspath(moses_ini), path, texts, settings).write()


def shown_time(seconds: float) -> str:
    """Return a duration with its unit, such as "5:53 minutes"."""
    return f"{format_duration(seconds)} {'hours' if round(seconds) >= 3600 else 'minutes'}"


class _Initialization:
    """A new experiment: what was given, and what is found in it."""

    def __init__(
        self, moses_ini: str, output: Path, texts: Sequence[GivenText], settings: ExperimentStart
    ) -> None:
        self._output, self._settings = output, settings
        self._folder = Path(os.path.abspath(output)).parent
        self._ini = ini = MosesIni.read(moses_ini)
        own = Path(moses_ini).parent
        files = [*named_files(ini)]
        is_beside = all((own / each).exists() or (own / f"{each}.gz").exists() for each in files)
        self._paths_from = None if is_beside else Path.cwd()
        with_paths_from(ini, self._paths_from or own)
        self._configuration = DecoderConfiguration.read(moses_ini, (), self._paths_from or own)
        self._table = Path(self._configuration.slot("PhraseDictionaryMemory").arguments["path"])
        self._given = texts
        self._system = SystemText(ini.text_settings(), self._table, self._paths_from or own)
        limits = ini.first_lines()
        self._search = {} if {"stack", "search-algorithm"} & limits.keys() else _SEARCH
        self._cores = usable_threads(None)

    def write(self) -> NewExperiment:
        """Check everything, and write the files; nothing is left if anything is wrong."""
        texts = self._system.check(self._given)
        if corpus := self._system.own_corpus(texts[0]):
            texts[0] = corpus
        folder = self._output.with_name(f"{self._output.name.removesuffix('.toml')}.text")
        changed = [text for text in texts if not text.is_prepared]
        if not changed:
            return self._write(texts)
        if os.path.lexists(folder):
            raise PhrasescoreError(
                f"{folder}: expected no such folder: the texts are written to it"
            )
        with writing_folder(folder) as new:
            for text in changed:
                self._system.write(text, new)
        _logger.info("%s has the prepared texts", folder)
        try:
            return self._write(
                [text if text.is_prepared else text.written(folder) for text in texts]
            )
        except BaseException:
            remove_folder(folder)
            raise

    def _write(self, texts: Sequence[GivenText]) -> NewExperiment:
        train, *others = texts
        pairs = count_pairs(train)
        alignments = self._find_alignment(train, pairs)
        names = unique_names(text_name(each.paths[0]) for each in self._given[2:])
        sets = [
            TextSet(name, text.paths[0], text.paths[1:])
            for name, text in zip(["dev", *names], others, strict=True)
        ]
        characters = self._configuration.characters
        lines = sum(map(count_lines, read_blocks(str(self._table))))
        jobs = min(self._cores, _MOST_JOBS)
        render = partial(
            render_experiment,
            self._output,
            found=f"{pairs:,} sentence pairs, {lines:,} phrase pairs, {self._cores} cores.",
            moses_ini=Path(self._ini.path),
            paths_from=self._paths_from,
            train=train.paths,
            alignments=alignments,
            dev=sets[0],
            tests=sets[1:],
            search=self._search,
            metric=self._metric(sets[0]) if characters else "bleu",
            jobs=jobs,
            threads=max(1, self._cores // jobs),
        )
        choices = choose_networks(
            pairs, has_alignment=alignments is not None, characters=characters
        )
        whole = self._read(render(choices=choices, rounds=ROUNDS[0], time=""))
        forecaster = Forecaster(whole, self._folder / "out", self._measure(sets, lines))
        choices, rounds = divide_time(choices, forecaster.total, self._settings.minutes)
        kept = [each for each in choices if not each.problem]
        seconds = forecaster.total(kept, rounds)
        if self._settings.minutes and seconds > 60 * self._settings.minutes:
            _logger.warning("the system without networks alone takes %s", shown_time(seconds))
        content = render(choices=choices, rounds=rounds, time=shown_time(seconds))
        self._read(content)
        with open_output(str(self._output)) as stream:
            stream.write(content.encode())
        return NewExperiment(
            pairs,
            ("Baseline", *(each.row.name for each in kept)),
            {each.model: each.problem for each in choices if each.problem},
            forecaster.steps(kept, rounds),
            seconds,
            self._cores,
        )

    def _read(self, content: str) -> Experiment:
        """Read and check the content of the file as `run_experiment` does."""
        wanted = read_experiment(str(self._output), content)
        build_plan(wanted, self._folder / "out")
        return wanted

    def _find_alignment(self, train: GivenText, pairs: int) -> Path | None:
        if (given := self._settings.alignments) is not None:
            check_alignment(Path(given), train, pairs)
            return Path(given)
        return find_alignment((self._table.parent, Path(self._ini.path).parent), train, pairs)

    def _measure(self, sets: Sequence[TextSet], lines: int) -> Pace:
        """Translate sentences of dev to measure the search; ``lines`` are those of the table."""
        characters, markup = self._configuration.characters, markup_of(self._ini)
        dev = read_source(str(sets[0].source), None, markup, characters=characters)
        sample = dev[:: max(1, len(dev) // _TIMED)][:_TIMED]
        limits = {"stack_size": self._search["stack"]} if self._search else {}
        start = time.monotonic()
        work = SearchWork(
            self._ini.path,
            SearchSettings(),
            sample,
            {},
            threads=1,
            configuration=self._configuration.with_limits(**limits),
        )
        translate = work.load()
        tasks = [
            SentenceTask(number, words, {}, NbestRequest(os.devnull, 100, distinct=True))
            for number, words in enumerate(sample)
        ]
        translate(tasks[0])  # loads compiled code
        loading = time.monotonic() - start
        start = time.monotonic()
        for task in tasks:
            translate(task)
        seconds = (time.monotonic() - start) / len(tasks)
        sizes = {}
        for path in (text.source for text in sets):
            sentences = read_source(str(path), None, markup, characters=characters)
            sizes[Path(os.path.abspath(path))] = len(sentences), sum(map(len, sentences))
        return Pace(seconds, loading, lines, sizes)

    def _metric(self, dev: TextSet) -> str:
        lengths = [len(line.split()) for line in read_lines(str(dev.references[0]))]
        is_short = 2 * sum(length < _SHORT for length in lengths) > len(lengths)
        return "word_accuracy" if is_short else "bleu"
