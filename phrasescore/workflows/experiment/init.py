"""Write the file of a new experiment, from a moses.ini and parallel text."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.moses_ini import MosesIni
from moses_integration.source_text import read_source
from moses_integration.text_settings import to_toml
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import usable_threads
from phrasescore.errors import ArgumentError, DataError, PhrasescoreError
from phrasescore.evaluation.sentences import find_references
from phrasescore.io.corpora import read_parallel_text, read_together
from phrasescore.io.folders import remove_folder
from phrasescore.io.output import check_output, open_output
from phrasescore.io.text import count_lines, read_blocks, read_lines
from phrasescore.progress import format_duration
from phrasescore.systems.folder import find_system_file
from phrasescore.systems.system import read_system
from phrasescore.workflows.experiment.choice import (
    PLANS,
    Forecast,
    NetworkChoice,
    TuningPlan,
    choose_networks,
    divide_time,
    measure_perplexity,
    measure_search,
    rows_of,
)
from phrasescore.workflows.experiment.config import Experiment, read_experiment
from phrasescore.workflows.experiment.plan import build_plan, unique_names
from phrasescore.workflows.experiment.texts import (
    MONOLINGUAL,
    SystemText,
    Text,
    count_sentences,
    find_alignment,
    write_sample,
)
from phrasescore.workflows.fold_lists import cross_fits

_logger = logging.getLogger(__name__)

_MOST_JOBS = 4  # there are rarely more steps that can run at the same time
_SHORT = 4  # BLEU needs n-grams of four words
_STACK = 30  # as in docs/results.md; 100 takes three times as long (Multi30k, lists of 100)


@dataclass(frozen=True, slots=True)
class NewExperiment:
    """What `init_experiment` has written."""

    rows: tuple[str, ...]
    without: dict[str, str]  # why the experiment does without a network, by its name
    saved: tuple[str, ...]  # what was saved because there is little time
    steps: dict[str, float]  # how many seconds each step takes at most, in order
    seconds: float  # how long the experiment takes at most, with steps at the same time


def init_experiment(
    system: StrPath,
    output: StrPath,
    *,
    train: Sequence[StrPath],
    dev: Sequence[StrPath],
    tests: Sequence[Sequence[StrPath]],
    monolingual: Sequence[StrPath] = (),
    alignments: StrPath | None = None,
    minutes: float | None = None,
) -> NewExperiment:
    """Write the file of an experiment, which `run_experiment` runs, and forecast its time.

    Rows and networks are chosen by the amount of text and the time. Everything is checked before
    the file is written. Texts that are not prepared as the system's own text, because the moses.ini
    of `build` says that it was tokenised or its case changed, are written to a folder ``NAME.text``
    beside the file.

    :param system: a moses.ini, or a system, such as a folder of `build`, whose moses.ini is used.
        The embedded search must support it.
    :param output: the TOML file to write, which must not exist.
    :param train: the source and the target side of the training text.
    :param dev: the source and the references of the text for tuning; a name may stand for NAME0,
        NAME1 and so on.
    :param tests: the same for each test set.
    :param monolingual: more text in the target language, for an n-gram model and a cslm.
    :param alignments: the word alignment of the training text, for a joint model; by default a file
        ``aligned.*`` beside the phrase table or the moses.ini.
    :param minutes: the time of the whole experiment; by default it depends on the amount of text.
    """
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"--minutes: expected a number above 0, got {minutes!r}")
    check_sequences(train=train, dev=dev, tests=tests, monolingual=monolingual)
    if len(train) != 2 or not tests or any(len(text) < 2 for text in (dev, *tests)):
        problem = "expected a source and its translation for --train, for --dev and for each --test"
        raise ArgumentError(problem)
    path = Path(output)
    folder = path.with_name(f"{path.name.removesuffix('.toml')}.text")
    for new in (path, folder):
        if str(new) == "-" or os.path.lexists(new):
            problem = "expected the name of a new file or folder: name another one, or remove it"
            raise PhrasescoreError(f"{new}: {problem}")
    check_output(str(path))
    stems = (Path(source).name.partition(".")[0] or "test" for source, *_ in tests)
    clean = (re.sub(r"[^\w-]", "_", stem, flags=re.ASCII) for stem in stems)
    taken = ("dev",)
    names = unique_names((*taken, *clean))[len(taken) :]
    texts: dict[str, Text] = {
        name: (Path(source), *map(Path, find_references(others)))
        for name, (source, *others) in zip(
            ("train", "dev", *(f"test.{name}" for name in names)), (train, dev, *tests), strict=True
        )
    }
    alone = tuple(map(Path, monolingual))
    found = find_system_file(os.fspath(system))
    ini = found if found.endswith(".ini") else read_system(found).read_ini().path
    for file in (Path(ini), *alone, *(file for text in texts.values() for file in text)):
        if not file.is_file():  # a pipe could be read only once
            raise DataError(str(file), None, "expected a file, found none")
    for text in texts.values():
        for _ in read_together(*map(str, text)):
            pass  # an error names the line where the shorter file ends
    texts |= {MONOLINGUAL: alone} if alone else {}
    with ExitStack() as on_error:
        on_error.callback(remove_folder, folder)
        experiment = _write(ini, path, texts, folder, alignments, minutes)
        on_error.pop_all()
    return experiment


def _write(
    moses_ini: str,
    output: Path,
    texts: dict[str, Text],
    folder: Path,
    given_alignments: StrPath | None,
    minutes: float | None,
) -> NewExperiment:
    own, ini = Path(moses_ini).parent, MosesIni.read(moses_ini)
    base = Path(ini.folder)
    search = DecoderConfiguration.read(moses_ini)
    has_limits = bool({"stack", "search-algorithm"} & ini.first_lines().keys())
    if not has_limits:
        search = search.with_limits(stack_size=_STACK)
    characters = search.characters
    table = Path(search.slot("PhraseDictionaryMemory").arguments["path"])

    given, texts = texts, SystemText.of(ini, table).prepare(texts, folder)
    train, monolingual = texts.pop("train"), texts.pop(MONOLINGUAL, ())
    pairs = sum(1 for _ in read_parallel_text(*map(str, train)))
    alignments = None if given_alignments is None else Path(given_alignments)
    if alignments is None:
        alignments = find_alignment((table.parent, own), train)
    dev = [line.decode().split() for line in read_lines(str(texts["dev"][1]))]
    cores = usable_threads(None)
    jobs = min(cores, _MOST_JOBS)
    phrases = sum(map(count_lines, read_blocks(str(table))))
    render = partial(
        _render,
        output,
        pairs=pairs,
        phrases=phrases,
        cores=cores,
        moses_ini=Path(moses_ini),
        paths_from=None if base == own else base,
        train=train,
        alignments=alignments,
        monolingual=monolingual,
        texts=texts,
        raw={name: given[name] for name in texts if name != "dev" and given[name] != texts[name]},
        stack=None if has_limits else _STACK,
        is_short=characters and 2 * sum(len(words) < _SHORT for words in dev) > len(dev),
        jobs=jobs,
        threads=max(1, cores // jobs),
    )
    choices = choose_networks(
        pairs,
        measure_perplexity(search, dev),
        has_alignment=alignments is not None,
        cross_fits=cross_fits(moses_ini, train[0], train[1], alignments),
        characters=characters,
    )
    whole = read_experiment(str(output), render(choices=choices, plan=PLANS[0], saved=(), time=""))
    build_plan(whole, output.absolute().parent / "out")  # checks all files, as `run_experiment`
    forecast, size = _forecast(whole, output, search, pairs, phrases)
    choices, plan = divide_time(choices, forecast.total, minutes)
    kept = [each for each in choices if not each.problem]
    seconds = forecast.total(kept, plan)
    saved = tuple(_saved(plan, kept, size))
    if plan.sentences is not None and plan.sentences < size:
        texts["dev"] = write_sample(texts["dev"], plan.sentences, folder)
    try:
        time = format_duration(seconds)
        content = render(choices=choices, plan=plan, saved=saved, time=time).encode()
    except UnicodeEncodeError as error:
        raise PhrasescoreError(f"{output}: expected paths in UTF-8, which TOML requires") from error
    with open_output(str(output)) as stream:
        stream.write(content)
    return NewExperiment(
        tuple(row.name for row in rows_of(kept, plan)),
        {each.model: each.problem for each in choices if each.problem},
        saved,
        {step.name: time for step, time in forecast.steps(kept, plan).items()},
        seconds,
    )


def _forecast(
    whole: Experiment,
    output: Path,
    search: DecoderConfiguration,
    pairs: int,
    phrases: int,
) -> tuple[Forecast, int]:
    """Return the forecast of an experiment, and the number of sentences of dev."""
    sentences = {
        text.source: read_source(str(text.source), characters=search.characters)
        for text in whole.data.texts
    }
    sample = sentences[whole.data.dev.source]
    forecast = Forecast(
        whole,
        output.absolute().parent / "out",
        count_sentences(sentences, whole.data.monolingual),
        pairs,
        sum(map(len, sample)) / len(sample),
        phrases,
        *measure_search(search, sample),
    )
    return forecast, len(sample)


def _saved(plan: TuningPlan, kept: Sequence[NetworkChoice], num_sentences: int) -> Iterator[str]:
    """Yield what a plan does without, for lack of time."""
    usual = PLANS[0]
    if plan.rounds < usual.rounds:
        is_searching = any(each.place == "search" for each in kept)
        others = f", {plan.search_rounds} for rows with a network in the search"
        text = f"{plan.rounds} rounds of tuning in place of {usual.rounds}"
        yield f"{text}{others if is_searching else ''}"
    if plan.sentences is not None and plan.sentences < num_sentences:
        yield f"tuning on {plan.sentences:,} of the {num_sentences:,} sentences of dev"


def _render(output: Path, **values: Any) -> str:
    """Return the text of the file ``output``; the template names the values."""
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    folder = Path(os.path.abspath(output)).parent

    def path(given: Path) -> str:
        absolute = Path(os.path.abspath(given))
        is_inside = absolute.is_relative_to(folder)
        return to_toml(str(absolute.relative_to(folder) if is_inside else absolute))

    environment.filters |= {"path": path}
    kept = [each for each in values["choices"] if not each.problem]
    rows = rows_of(kept, values["plan"])
    template = resources.files(__package__) / "experiment.toml.j2"
    return environment.from_string(template.read_text("utf-8")).render(rows=rows, **values)
