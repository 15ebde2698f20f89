"""The functions of an experiment's steps, and how their settings reach the process of a step.

Settings are the keyword arguments of a function. They may be paths, columns, dataclasses and values
of JSON, and are written as JSON.
"""

import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.evaluation.sentences import read_sentences
from phrasescore.evaluation.tune_report import TuneReport, read_tune_report
from phrasescore.features.columns import Column, read_column
from phrasescore.features.model import Network
from phrasescore.features.program import Command, ProgramScore
from phrasescore.io.output import open_output
from phrasescore.io.text import read_lines
from phrasescore.progress import ProgressCallback
from phrasescore.records import ConfidenceCurve, WeightPair, Weights
from phrasescore.settings.compute import Compute
from phrasescore.settings.toml_file import TomlTable
from phrasescore.settings.training import RoundTuning, UnfinishedRun
from phrasescore.systems.folder import WEIGHTS
from phrasescore.systems.system import Moses, System, read_system
from phrasescore.systems.text import TextConverter, TextProcessing

if TYPE_CHECKING:
    from phrasescore.workflows.experiment.config import TextSet
    from phrasescore.workflows.experiment.rows import Row

FUNCTIONS = {  # by the verbs with which the names of steps begin
    "build_lm": "phrasescore.workflows.building.language_model:build_lm",
    "train": "phrasescore.workflows.train:train",
    "write_fold_lists": "phrasescore.workflows.fold_lists:write_fold_lists",
    "fine_tune": "phrasescore.workflows.column_training:fine_tune_column",
    "annotate": "phrasescore.workflows.annotate:annotate",
    "tune": "phrasescore.workflows.experiment.functions:tune_row",
    "translate": "phrasescore.workflows.experiment.functions:translate_row",
    "measure": "phrasescore.workflows.experiment.functions:measure_text",
}
OF_ROWS = ("tune", "translate", "measure")  # the functions that add to the table
_NOTHING = 1e-3  # a feature with a smaller share, from 0 to 1, hardly changes any model score
REPORT, WORK = "report.json", "tuning"  # of tuning, in the folder of a system


def written(value: Any, rename: Callable[[str], str] = str) -> Any:
    """Return settings as values of JSON, with other names for files and folders.

    Fields of dataclasses that have their default values are omitted.
    """
    if isinstance(value, Path):
        return rename(str(value))
    if isinstance(value, Column):
        return value.with_paths(rename).changed()
    if is_dataclass(value):
        own = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
        value = {name: each for name, (each, usual) in own.items() if each != usual}
    if isinstance(value, Mapping):
        return {key: written(each, rename) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [written(each, rename) for each in value]
    return value


def _read(hint: Any, value: Any) -> Any:
    """Return the value of a parameter or field with this type hint, given what `written` wrote."""
    kinds = (hint, *get_args(hint))
    if isinstance(value, dict) and Column in kinds:
        return read_column(TomlTable("the settings", "", value))
    for kind in kinds:
        if kind is Path and isinstance(value, str):
            return Path(value)
        if is_dataclass(kind) and isinstance(value, dict):
            hints = get_type_hints(kind)
            return kind(**{name: _read(hints[name], each) for name, each in value.items()})  # type: ignore[operator]
    if isinstance(value, list):
        return tuple(_read(kinds[1], each) for each in value)
    return value


def run_step(message: bytes, progress: ProgressCallback | None) -> None:
    """Run the function of a step, whose settings are in a message from the experiment."""
    given = json.loads(message)
    function = pkgutil.resolve_name(FUNCTIONS[given["function"]])
    hints = get_type_hints(function)
    settings = {key: _read(hints[key], value) for key, value in given["settings"].items()}
    if given["resume"]:
        state = {"state": UnfinishedRun(resume=True), "resume": True}
        settings |= {
            key: state[key] for key in state.keys() & inspect.signature(function).parameters
        }
    function(**settings, progress=progress)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What translates a row, except its weights, which tuning writes to its folder."""

    folder: Path
    moses_ini: Path
    search: tuple[Network, ...] = ()
    lists: tuple[Column, ...] = ()
    names: tuple[str, ...] = ()  # the names in n-best lists of `search`, then of `lists`
    columns: tuple[Column, ...] = ()  # with names such as ``TranslationModel0_4``
    nbest_size: int = 100
    limits: dict[str, Any] = field(default_factory=dict)
    moses_bin: Path | None = None  # the folder of Moses' programs; None for the embedded search
    text: TextProcessing | None = None  # None for the rules in moses.ini

    def system(self, weights: WeightPair, **more: Any) -> System:
        """Return the system with weights; ``more`` has further fields."""
        path, text = str(self.moses_ini), self.text
        return System(
            path,
            self.moses_ini,
            weights,
            search=self.search,
            lists=self.lists,
            columns=self.columns,
            nbest_size=self.nbest_size,
            limits=self.limits,
            decoder=None if self.moses_bin is None else Moses(self.moses_bin),
            text=TextProcessing.of(MosesIni.read(path)) if text is None else text,
            **more,
        )

    def tuned(self, absolute: frozenset[str]) -> System:
        """Return the system with its tuned weights; ``absolute`` has the user's absolute paths."""
        curve = read_tune_report(self.folder / REPORT).confidence or ConfidenceCurve()
        weights = load_weights(self.folder / WEIGHTS)
        return self.system(weights, confidence=curve, absolute=absolute)


@dataclass(frozen=True)
class Run:
    """A row of the table, with weights tuned with one seed."""

    row: "Row"
    seed: int
    parts: Parts
    inputs: tuple[Path, ...]  # everything that its translations depend on, except the weights
    earlier: tuple["Run", ...] = ()  # runs of rows with the same seed and a subset of features

    @property
    def folder(self) -> Path:
        """The folder of the tuned system."""
        return self.parts.folder

    @property
    def weights(self) -> Path:
        """The path of the tuned weights."""
        return self.folder / WEIGHTS

    @property
    def report(self) -> Path:
        """The path of the tuning report, as JSON."""
        return self.folder / REPORT

    @property
    def added(self) -> dict[str, str]:
        """The features that the row adds to moses.ini, by their labels in tuning reports."""
        labels = [f"{name}_0" for name in self.parts.names]
        labels += [str(column.name) for column in self.parts.columns]
        return dict(
            zip(labels, (*self.row.search, *self.row.lists, *self.row.columns), strict=True)
        )

    def output(self, text: "TextSet") -> Path:
        """Return the path of a text's translation."""
        return self.folder / f"{text.name}.out"

    def restored(self, text: "TextSet") -> Path:
        """Return the path of a translation as it is measured: raw text, if that is known."""
        return self.folder / f"{text.name}.txt" if text.raw else self.output(text)

    def scores(self, text: "TextSet") -> Path:
        """Return the path of a program's scores of a text's sentences."""
        return self.folder / f"{text.name}.scores"

    def remarks(self, report: TuneReport) -> Iterator[str]:
        """Yield remarks for readers of the table, based on the tuning report."""
        idle = [
            self.added[row.name]
            for row in report.features
            if row.name in self.added and row.share is not None and row.share < _NOTHING
        ]
        if idle:
            yield f"tuning found no use for {', '.join(idle)} (weight 0, or nearly)"


def tune_row(
    parts: Parts,
    source: Path,
    references: tuple[Path, ...],
    translations: Path,
    *,
    earlier: tuple[Parts, ...] = (),
    settings: RoundTuning = RoundTuning(),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> None:
    """Find the weights of a row on dev, and write its system to its folder."""
    from phrasescore.workflows.tune_system import tune_system

    found = tune_system(
        parts.system(start_weights(parts, earlier)),
        source,
        references,
        parts.folder,
        settings=settings,
        work=parts.folder / WORK,
        report=parts.folder / REPORT,
        tokenized=True,
        resume=resume,
        compute=compute,
        progress=progress,
    )
    with open_output(str(translations)) as stream:
        stream.writelines(line + b"\n" for line in found.translations())


def start_weights(parts: Parts, earlier: tuple[Parts, ...]) -> WeightPair:
    """Return a row's start weights, from the earlier row that is best on dev, or from moses.ini."""
    best = max(
        reversed(earlier),  # on ties, the row with the most features, then the latest one
        key=lambda row: (
            read_tune_report(row.folder / REPORT).reached,
            len(row.columns) + len(row.names),
        ),
        default=None,
    )
    usual = MosesIni.read(str(parts.moses_ini)).tuneable_weights()
    usual = dict(usual) | dict.fromkeys(parts.names, (0.0,))
    search = lists = usual
    if best is not None:
        search, lists = (
            usual | _carried(weights, best, parts)
            for weights in load_weights(best.folder / WEIGHTS)
        )
    of_lists = parts.names[len(parts.search) :]
    return WeightPair({name: search[name] for name in search if name not in of_lists}, lists)


def _carried(weights: Weights, old: Parts, new: Parts) -> Weights:
    names = dict(zip((*new.search, *new.lists), new.names, strict=True))
    renamed = {
        name: names[column]
        for column, name in zip((*old.search, *old.lists), old.names, strict=True)
    }
    carried = {renamed.get(name, name): values for name, values in weights.items()}
    if new.columns:
        table, _, num_scores = str(new.columns[0].name).rpartition("_")
        first, added = weights[table][: int(num_scores)], weights[table][int(num_scores) :]
        by_column = dict(zip(map(_nameless, old.columns), added, strict=True))
        own = (by_column.get(_nameless(column), 0.0) for column in new.columns)
        carried[table] = (*first, *own)
    return carried


def _nameless(column: Column) -> Column:
    return replace(column, name=None)


def translate_row(
    parts: Parts,
    source: Path,
    output: Path,
    *,
    restored: Path | None = None,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> None:
    """Translate a text with the system in the folder of a row.

    :param restored: a file for the translations as raw text.
    """
    from phrasescore.workflows.translate import translate

    read = read_system(parts.folder)
    translate(read, source, output, tokenized=True, compute=compute, progress=progress)
    if restored is not None:
        converter = TextConverter(str(output), read.text, None)
        with open_output(str(restored)) as stream:
            for line in read_lines(str(output)):
                stream.write(f"{converter.restore(line.decode())}\n".encode())


def measure_text(
    program: Column,
    source: Path,
    translations: Path,
    references: tuple[Path, ...],
    output: Path,
    *,
    progress: ProgressCallback | None = None,
) -> None:
    """Write the score of each translation, by a program that is a metric."""
    assert isinstance(program, Command)
    texts = [read_sentences(str(path)) for path in (source, translations, *references)]
    rows = list(zip(*(each.texts for each in texts), strict=True))
    scores = ProgramScore(program.command, seconds=program.timeout).ask_all(
        "measure", rows, progress
    )
    with open_output(str(output)) as stream:
        stream.writelines(f"{score!r}\n".encode() for score in scores)
