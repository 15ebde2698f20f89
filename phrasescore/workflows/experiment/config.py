"""Read the TOML file for ``phrasescore experiment``, and check it and the files that it names.

Paths are relative to the file. An unknown key is rejected, and the closest known key is suggested.
``docs/experiment.md`` describes all keys.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from moses_integration.ini_text import IniText
from moses_integration.source_text import read_source
from phrasescore.arguments import AtLeastOne, TableMetric
from phrasescore.errors import ConfigError, DataError
from phrasescore.evaluation.sentences import find_references
from phrasescore.features.columns import Column, read_column
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.io.corpora import read_together
from phrasescore.models.checkpoint import direction_of, load_checkpoint
from phrasescore.settings.compute import Compute
from phrasescore.settings.toml_file import read_table
from phrasescore.systems.system import read_limits, read_system
from phrasescore.systems.text import TextProcessing
from phrasescore.workflows.experiment import rows
from phrasescore.workflows.experiment.rows import PAPER, ModelPlan, Rounds, Row
from phrasescore.workflows.experiment.texts import check_words
from phrasescore.workflows.fold_lists import check_folds
from tuning.settings import MethodName, MetricName

NOT_RANDOM = ("xbleu",)  # methods that find the same weights with every seed


@dataclass(frozen=True)
class TextSet:
    """A text to translate, and its references."""

    name: str
    source: Path
    references: tuple[Path, ...]
    # Source and references before tokenisation: translations are measured as text, too.
    raw: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Data:
    """The input files for an experiment."""

    moses_ini: Path
    dev: TextSet
    test: dict[str, TextSet]
    # Source and target side of the text that networks learn from.
    train: tuple[Path, ...] | None = None
    alignments: Path | None = None  # the word alignment of that text
    monolingual: tuple[Path, ...] = ()  # more text in the target language
    table: Path | None = None  # the phrase table to use if moses.ini has several
    paths_from: Path | None = None  # base folder for paths in moses.ini; None for its folder

    @property
    def tests(self) -> tuple[TextSet, ...]:
        """The test sets, in the order of the file."""
        return tuple(self.test.values())

    @property
    def texts(self) -> tuple[TextSet, ...]:
        """The text for tuning, and the test sets."""
        return (self.dev, *self.tests)


@dataclass(frozen=True)
class Engine:
    """The decoder, its limits, and the number of processes and threads."""

    decoder: Literal["embedded", "moses"] = "embedded"
    moses_bin: Path | None = None
    jobs: AtLeastOne = 1  # number of steps that run at the same time
    # Number of decoding processes; None for the command's default.
    processes: AtLeastOne | None = None
    threads: AtLeastOne | None = None  # number of threads for the networks
    nbest_size: AtLeastOne = 100
    # Maximum number of tuning rounds, and of consecutive rounds without an improvement.
    iterations: Rounds = 15
    patience: AtLeastOne = 5
    search: dict[str, Any] = field(default_factory=dict)  # limits by their names in moses.ini

    @property
    def compute(self) -> Compute:
        """Where a step that translates computes."""
        return Compute(workers=self.processes, threads=self.threads)


@dataclass(frozen=True)
class Tuning:
    """The tuning method, its metric, and its number of replicas."""

    method: MethodName = "mert"
    replicas: AtLeastOne | None = None  # None for 3 with a random method, and 1 otherwise
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    metric: MetricName = "bleu"

    @property
    def table_metric(self) -> TableMetric:
        """The metric of the table: the tuning's, if the table can show it."""
        return "word_accuracy" if self.metric == "word_accuracy" else "bleu"

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each replica."""
        usual = 1 if self.method in NOT_RANDOM else 3
        return tuple(range(self.seed, self.seed + (self.replicas or usual)))


@dataclass(frozen=True)
class _File:
    data: Data
    engine: Engine = field(default_factory=Engine)
    models: dict[str, ModelPlan] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    text: TextProcessing | None = None
    systems: Any = PAPER


@dataclass(frozen=True)
class Experiment:
    """The settings in an experiment's file."""

    path: str  # the name of the file
    data: Data
    engine: Engine
    models: dict[str, ModelPlan]  # includes the models that only rows name
    features: dict[str, Column]  # of any kind but networks and named features
    tuning: Tuning
    systems: tuple[Row, ...]  # the first system is the baseline
    text: TextProcessing | None = None  # for system.toml; None if moses.ini records it
    program: Command | None = None  # a metric of test sets
    absolute: frozenset[str] = frozenset()  # the absolute paths in the file

    def in_search(self, row: Row) -> tuple[str, ...]:
        """Return the networks that a row uses in its search."""
        return row.search if self.engine.decoder == "embedded" else ()

    def in_lists(self, row: Row) -> tuple[str, ...]:
        """Return the features of the lists, such as networks that the search cannot use."""
        return (*(() if self.in_search(row) else row.search), *row.lists)

    def model_folder(self, name: str, folder: Path) -> Path:
        """Return the folder of a network, which the experiment in ``folder`` may train."""
        model = self.models.get(name)
        return (model and model.path) or folder / "models" / name

    def column(self, name: str, folder: Path) -> Column:
        """Return the column that a name in a row stands for."""
        if (model := self.models.get(name)) is not None:
            backoff = None if model.backoff_lm is None else str(model.backoff_lm)
            path, unnormalized = str(self.model_folder(name, folder)), model.unnormalized
            return Network(path, unnormalized=unnormalized, backoff_lm=backoff)
        return self.features.get(name) or NamedFeature(name)


def read_experiment(path: str, text: str | None = None) -> Experiment:
    """Read an experiment's file, and check its settings; ``text`` is its content, if known."""
    whole = read_table(path, text)
    file = whole.read(_File)
    data, engine, tuning = file.data, file.engine, file.tuning
    if data.train is not None and len(data.train) != 2:
        problem = f"expected the source and the target side, got {len(data.train)} files"
        raise whole.table("data").error("train", problem)
    for each in data.texts:
        if len(each.raw) == 1 or (each.raw and each is data.dev):
            name = "dev" if each is data.dev else f"test.{each.name}"
            problem = "expected the source and the references of a test set, as raw text"
            raise whole.table("data").table(name).error("raw", problem)
    if not data.test:
        raise whole.table("data").error("test", "is missing: expected a table [data.test.NAME]")
    if engine.decoder == "moses" and engine.moses_bin is None:
        problem = "is missing: expected the folder with Moses' binaries"
        raise whole.table("engine").error("moses_bin", problem)
    limits = read_limits(whole.table("engine").table("search"), engine.search)
    engine = replace(engine, search=dict(limits))
    if tuning.method in NOT_RANDOM and (tuning.replicas or 1) > 1:
        problem = f"nothing is random in {tuning.method}: all would be the same; expected 1"
        raise whole.table("tuning").error("replicas", f"{problem}, found {tuning.replicas}")
    program = read_column(whole.table("metrics")) if file.metrics else None
    if program is not None and not isinstance(program, Command):
        raise whole.error("metrics", f"expected a command, found {program.kind()}")
    models = {
        name: rows.check_model(whole.table("models"), model, file.models)
        for name, model in file.models.items()
    }
    table = whole.table("features")
    features = {
        name: rows.read_feature(table, name, value, models) for name, value in file.features.items()
    }
    systems = rows.read_rows(whole, file.systems, models, features)
    for model in (models[name] for row in systems for name in row.search):
        if model.network.is_aligned and engine.decoder == "moses":
            problem = f"{model.name} is a {model.kind}, which Moses cannot use"
            raise whole.table("engine").error("decoder", f"expected embedded: {problem}")
    for name, model in models.items():
        if model.objective == "bleu" and (data.train is None or data.alignments is None):
            problem = "needs [data] train and alignments, whose text is translated for it"
            raise whole.table("models").table(name).error("objective", problem)
        if model.objective == "bleu" and systems[0].features():
            problem = "needs a first row without networks and features, which translates for it"
            raise whole.table("models").table(name).error("objective", problem)
    absolute = {*whole.absolute_paths()}
    dev, *tests = (
        replace(text, references=tuple(map(Path, find_references(text.references))))
        for text in data.texts
    )
    for written, text_set in zip(data.texts, (dev, *tests), strict=True):
        if str(written.references[0]) in absolute:  # it may stand for several
            absolute.update(map(str, text_set.references))
    data = replace(data, dev=dev, test=dict(zip(data.test, tests, strict=True)))
    own = (models, features, tuning, systems, file.text, program, frozenset(absolute))
    return Experiment(path, data, engine, *own)


def check_inputs(wanted: Experiment, files: Iterable[Path]) -> None:
    """Reject missing or mismatched files."""
    texts = wanted.data.texts
    models = wanted.models.values()
    paths = [path for text in texts for path in (text.source, *text.references, *text.raw)]
    aligned = () if wanted.data.alignments is None else (wanted.data.alignments,)
    paths += [*(wanted.data.train or ()), *aligned, *wanted.data.monolingual, *files]
    paths += [model.backoff_lm for model in models if model.backoff_lm]
    for column in wanted.features.values():
        paths += map(Path, column.inputs())
    for path in paths:
        if not path.exists():
            raise DataError(str(path), None, "cannot open: No such file or directory")
    names = [text.name for text in texts]
    for name in names:
        if names.count(name) > 1 or not re.fullmatch(r"[\w.+-]+", name):
            problem = "expected another name than 'dev', of letters, digits, '_', '.', '+' and '-'"
            raise ConfigError(wanted.path, f"[data] test.{name}", problem)
    ini = IniText.read(str(wanted.data.moses_ini))
    characters = ini.text_settings().characters
    if wanted.data.monolingual and characters:
        problem = "expected a system of words: the n-gram models of this one have characters"
        raise ConfigError(wanted.path, "[data] monolingual", problem)
    for text in texts:
        _check_lengths(text.source, *text.references, *text.raw)
        # Rejects lines that no decoder accepts.
        read_source(str(text.source), characters=characters)
    if wanted.engine.decoder == "moses" and not wanted.data.dev.source.read_bytes().endswith(b"\n"):
        problem = "expected a newline after the last line: Moses omits the line without it"
        raise DataError(str(wanted.data.dev.source), None, problem)
    if wanted.data.train is not None:
        _check_lengths(*wanted.data.train, *aligned)
        if wanted.data.monolingual:
            check_words(wanted.data.monolingual, wanted.data.train[1])
        if aligned and any(model.objective == "bleu" for model in models):
            system = read_system(wanted.data.moses_ini)
            system = replace(system, paths_from=wanted.data.paths_from)
            check_folds(system, wanted.data.train[0], wanted.data.train[1], aligned[0])
    for model in models:
        if model.path is not None:
            _check_model(wanted.path, model, model.path)


def _check_lengths(*paths: Path) -> None:
    for _ in read_together(*map(str, paths)):
        pass  # an error names the line where the shorter file ends


def _check_model(config: str, model: ModelPlan, path: Path) -> None:
    # With its weights: a damaged model must not end the experiment after hours.
    checkpoint = load_checkpoint(path)
    found = f"{checkpoint.config.kind}, {checkpoint.record.direction}"
    expected = f"{model.kind}, {direction_of(**model.directions)}"
    if found != expected:
        problem = f"{path} has the kind and direction {found}, expected {expected}"
        raise ConfigError(config, f"[models.{model.name}] path", problem)
