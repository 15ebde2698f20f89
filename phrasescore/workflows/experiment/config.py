"""The file that ``phrasescore experiment`` reads: TOML -> frozen dataclasses, all of it checked.

Paths are relative to the file. A key that is not known is refused, with the one that may be meant.
``docs/experiment.md`` says what each of them is for.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from phrasescore.config.toml_file import TomlTable, read_table, unknown
from phrasescore.workflows.experiment.systems import (
    FILE_FEATURES,
    ModelPlan,
    System,
    read_models,
    read_systems,
)
from phrasescore.workflows.search_settings import LIMITS, SearchSettings
from tuning.settings import METHODS

DECODERS = ("embedded", "moses")
PREVIOUS, INI = "previous", "moses.ini"
# Methods that find the same weights with every seed.
NOT_RANDOM = ("xbleu",)
# Limits of the search by their names in the file, and the fields of `SearchSettings`.
_LIMITS = {**LIMITS, "stack-size": "stack_size", "buffer-size": "buffer_size"}


@dataclass(frozen=True)
class TextSet:
    """A text to translate, and its references."""

    name: str
    source: Path
    references: tuple[Path, ...]


@dataclass(frozen=True)
class Engine:
    """What decodes, and how far it is driven."""

    decoder: str = "embedded"
    moses_bin: Path | None = None
    # Steps that run at the same time.
    jobs: int = 1
    # Of decoding; None for the command's own default.
    processes: int | None = None
    # Of the networks.
    threads: int | None = None
    nbest_size: int = 100
    # Rounds of tuning, and those without a better translation after which it ends.
    iterations: int = 15
    patience: int = 5
    # The limits of the search.
    search: SearchSettings = field(default_factory=SearchSettings)


@dataclass(frozen=True)
class Tuning:
    """How weights are found, and how often."""

    method: str = "mert"
    seeds: tuple[int, ...] = (1, 2, 3)
    start: str = PREVIOUS


@dataclass(frozen=True)
class Experiment:
    """Everything that the file says."""

    train: tuple[Path, Path] | None
    table: Path | None
    moses_ini: Path
    # Where relative paths in moses.ini begin.
    paths_from: Path
    # Of `FILE_FEATURES`, as far as they are given.
    feature_files: dict[str, Path]
    dev: TextSet
    tests: tuple[TextSet, ...]
    engine: Engine
    models: dict[str, ModelPlan]
    tuning: Tuning
    # The first is the baseline.
    systems: tuple[System, ...]


def read_experiment(path: str) -> Experiment:
    """Read a file.

    :raises ConfigError: if it cannot be read, or at the first key that is unknown, missing, of a
        wrong type or out of range.
    """
    whole = read_table(path)
    data = whole.table("data")
    moses_ini = data.needed_path("moses_ini")
    given = data.paths("train") if data.value("train") is not None else None
    if given is not None and len(given) != 2:
        raise data.error(
            "train", f"expected the source and the target side, got {len(given)} files"
        )
    tests = data.table("test")
    sets = tuple(_text_set(tests.table(name), name) for name in tests.names())
    if not sets:
        raise data.error("test", "is missing: expected a table [data.test.NAME]")
    read = Experiment(
        train=None if given is None else (given[0], given[1]),
        table=data.path("table"),
        moses_ini=moses_ini,
        paths_from=data.path("paths_from") or moses_ini.parent,
        feature_files=(
            files := {name: file for name in FILE_FEATURES if (file := data.path(name))}
        ),
        dev=_text_set(data.table("dev"), "dev"),
        tests=sets,
        engine=_engine(whole.table("engine")),
        models=(models := read_models(whole.table("models"))),
        tuning=_tuning(whole.table("tuning")),
        systems=read_systems(whole, models, files),
    )
    data.close()
    whole.close()
    return read


def _text_set(table: TomlTable, name: str) -> TextSet:
    found = TextSet(name, table.needed_path("source"), table.paths("references"))
    table.close()
    return found


def _engine(table: TomlTable) -> Engine:
    usual = Engine()
    decoder = table.text("decoder", DECODERS) or usual.decoder
    moses_bin = table.path("moses_bin")
    if decoder == "moses" and moses_bin is None:
        raise table.error("moses_bin", "is missing: expected the folder of Moses' binaries")
    search = _search(table.table("search"))
    found = Engine(
        decoder,
        moses_bin,
        table.whole("jobs", usual.jobs),
        table.whole("processes"),
        table.whole("threads"),
        table.whole("nbest_size", usual.nbest_size),
        # The weights that a round finds are tried by the next one.
        table.whole("iterations", usual.iterations, minimum=2),
        table.whole("patience", usual.patience),
        search,
    )
    table.close()
    return found


def _search(table: TomlTable) -> SearchSettings:
    """Return the limits of the search."""
    given = {}
    for key in table.names():
        name = key.replace("_", "-")
        if name not in _LIMITS:
            raise table.error(key, unknown("limit", name, _LIMITS))
        field = _LIMITS[name]
        given[field] = table.value(key)
        try:
            msgspec.convert({field: given[field]}, SearchSettings)
        except msgspec.ValidationError as error:
            problem = str(error).partition(" - at ")[0].replace(" | null", "")
            raise table.error(key, f"{problem[0].lower()}{problem[1:]}") from error
    return SearchSettings(**given)


def _tuning(table: TomlTable) -> Tuning:
    usual = Tuning()
    method = table.text("method", METHODS) or usual.method
    first = table.whole("seed", usual.seeds[0], minimum=0)
    replicas = table.whole("replicas", 1 if method in NOT_RANDOM else len(usual.seeds))
    if method in NOT_RANDOM and replicas > 1:
        problem = f"nothing is random in {method}: all would be the same; expected 1"
        raise table.error("replicas", f"{problem}, found {replicas}")
    found = Tuning(
        method,
        tuple(range(first, first + replicas)),
        table.text("start", (PREVIOUS, INI)) or usual.start,
    )
    table.close()
    return found
