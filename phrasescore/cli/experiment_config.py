"""The file that ``phrasescore experiment`` reads: TOML -> frozen dataclasses, all of it checked.

Paths are relative to the file. A key that is not known is refused, with the one that may be meant.
``docs/experiment.md`` says what each of them is for.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasescore.cli.decode_options import LIMITS
from phrasescore.cli.toml_table import TomlTable, read_table
from phrasescore.cli.train import DEFAULT_PRESETS
from phrasescore.cli.tune_options import METHODS
from phrasescore.config import Config, preset_names
from phrasescore.settings import MODEL_CONFIGS
from phrasescore.toml_file import unknown

DECODERS = ("embedded", "moses")
PREVIOUS, INI = "previous", "moses.ini"
UNKNOWN_WORDS = "unknown_words"
CSLM = "cslm"
# Kinds of networks that score phrase pairs, and what a network's name says of its kind.
TABLE_KIND = "encoder-decoder"
KINDS = {"rnn": TABLE_KIND, "reverse": TABLE_KIND, CSLM: CSLM}
# Of decode, beside the limits that moses.ini has.
_MORE_LIMITS = ("stack-size", "buffer-size")
_TRAIN_LIMITS = ("minutes", "epochs", "updates", "seed", "threads")


@dataclass(frozen=True)
class TextSet:
    """A text to translate, and its references."""

    name: str
    source: Path
    references: tuple[Path, ...]


@dataclass(frozen=True)
class ModelPlan:
    """A network: how it is trained, or where it is."""

    name: str
    kind: str
    # A folder that is there; then nothing is trained.
    path: Path | None = None
    preset: str | None = None
    reverse: bool = False
    # Of the command line: ("--minutes", "30", "--set", "training.batch_size=32").
    options: tuple[str, ...] = ()
    # Of a cslm: an n-gram model for the words outside its shortlist, and whether log Z is left out.
    backoff_lm: Path | None = None
    unnormalized: bool = False


@dataclass(frozen=True)
class System:
    """A row of the table: what it has beyond the baseline, by the names of models."""

    name: str
    # Of the phrase table, in order: models, or unknown_words.
    columns: tuple[str, ...] = ()
    # Language models in the search.
    search: tuple[str, ...] = ()
    # Networks that score n-best lists after it.
    rescore: tuple[str, ...] = ()

    def features(self) -> frozenset[tuple[str, str]]:
        """Return what it has, each with its place."""
        places = {"columns": self.columns, "search": self.search, "rescore": self.rescore}
        return frozenset((place, name) for place, names in places.items() for name in names)


_RNN, _CSLM = ("rnn",), (CSLM,)
# The rows of Cho et al. (2014), table 1, and ours.
STANDARD = {
    system.name: system
    for system in (
        System("Baseline"),
        System("+RNN", _RNN),
        System("+CSLM+RNN", _RNN, _CSLM),
        System("+CSLM+RNN+WP", (*_RNN, UNKNOWN_WORDS), _CSLM),
        System("+reverse", (*_RNN, "reverse")),
        System("+LSTM", (), (), ("lstm",)),
        System("+RNNsearch", (), (), ("attention",)),
        System("+all", (*_RNN, UNKNOWN_WORDS, "reverse"), _CSLM, ("lstm", "attention")),
    )
}
PAPER = ("Baseline", "+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")


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
    # Limits of the search, as options of phrasescore decode.
    search: tuple[str, ...] = ()


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
        dev=_text_set(data.table("dev"), "dev"),
        tests=sets,
        engine=_engine(whole.table("engine")),
        models=(models := _models(whole.table("models"))),
        tuning=_tuning(whole.table("tuning")),
        systems=_systems(whole, models),
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
    limits = table.table("search")
    options: list[str] = []
    for key in limits.names():
        value = limits.value(key)
        name = key.replace("_", "-")
        if name not in (*LIMITS, *_MORE_LIMITS):
            raise limits.error(key, unknown("limit", name, (*LIMITS, *_MORE_LIMITS)))
        if type(value) not in (int, float, str):
            raise limits.error(key, f"expected a number or a string, got {value!r}")
        options += [f"--{name}", str(value)]
    found = Engine(
        decoder,
        moses_bin,
        table.whole("jobs", usual.jobs),
        table.whole("processes"),
        table.whole("threads"),
        table.whole("nbest_size", usual.nbest_size),
        table.whole("iterations", usual.iterations),
        table.whole("patience", usual.patience),
        tuple(options),
    )
    table.close()
    return found


def _tuning(table: TomlTable) -> Tuning:
    usual = Tuning()
    first = table.whole("seed", usual.seeds[0], minimum=0)
    replicas = table.whole("replicas", len(usual.seeds))
    found = Tuning(
        table.text("method", METHODS) or usual.method,
        tuple(range(first, first + replicas)),
        table.text("start", (PREVIOUS, INI)) or usual.start,
    )
    table.close()
    return found


def _models(table: TomlTable) -> dict[str, ModelPlan]:
    return {name: _model(table.table(name), name) for name in table.names()}


def _model(table: TomlTable, name: str) -> ModelPlan:
    kind = table.text("kind", sorted(MODEL_CONFIGS)) or _kind(name)
    if kind is None:
        raise table.error("kind", "is missing: expected a kind of network")
    options: list[str] = []
    for key in _TRAIN_LIMITS:
        value = table.value(key)
        if value is not None:
            if type(value) not in (int, float) or value < 0:
                raise table.error(key, f"expected a number, got {value!r}")
            options += [f"--{key}", str(value)]
    preset = table.text("preset", preset_names(kind))
    settings_of = Config.preset(preset or DEFAULT_PRESETS[kind])
    groups = table.table("set")
    for group in groups.names():
        settings = groups.table(group)
        for key in settings.names():
            value = settings.value(key)
            if type(value) not in (bool, int, float, str):
                raise settings.error(key, f"expected a setting, got {value!r}")
            text = str(value).lower() if isinstance(value, bool) else str(value)
            options += ["--set", f"{group}.{key}={text}"]
            settings_of.override([f"{group}.{key}={text}"], path=f"[models.{name}.set]")
    found = ModelPlan(
        name,
        kind,
        table.path("path"),
        preset,
        table.flag("reverse") or name == "reverse",
        tuple(options),
        table.path("backoff_lm"),
        table.flag("unnormalized"),
    )
    table.close()
    if (found.backoff_lm or found.unnormalized) and kind != CSLM:
        key = "unnormalized" if found.unnormalized else "backoff_lm"
        raise table.error(key, f"is of a {CSLM}, and this is a {kind}")
    if found.backoff_lm and found.unnormalized:
        problem = "divides the probabilities of words: not with unnormalized"
        raise table.error("backoff_lm", problem)
    return found


def _kind(name: str) -> str | None:
    """Return what kind of network a name stands for, None where it says nothing."""
    found = KINDS.get(name, name)
    return found if found in MODEL_CONFIGS else None


def _systems(whole: TomlTable, models: dict[str, ModelPlan]) -> tuple[System, ...]:
    """Return the rows; networks that no table of [models] names are added with their defaults."""
    given = whole.value("systems")
    if given is None:
        given = list(PAPER)
    if not isinstance(given, list) or not given:
        raise whole.error("systems", f"expected names of rows or tables, got {given!r}")
    found = tuple(_system(whole, value, place) for place, value in enumerate(given, start=1))
    names = [system.name for system in found]
    for name in names:
        if names.count(name) > 1:
            raise whole.error("systems", f"two rows are called {name!r}")
    for system in found:
        _add_models(whole, system, models)
    return found


def _system(whole: TomlTable, value: Any, place: int) -> System:
    if isinstance(value, str):
        if value not in STANDARD:
            raise whole.error("systems", unknown(f"row '{value}'", value, STANDARD))
        return STANDARD[value]
    table = whole.inner(f"systems {place}", value)
    name = table.text("name")
    if not name or "\n" in name:
        raise table.error("name", "is missing: expected what the row is called")
    places = {key: table.texts(key) or () for key in ("columns", "search", "rescore")}
    for key, names in places.items():
        if len(set(names)) < len(names):
            raise table.error(key, f"expected each name once, got {list(names)}")
    found = System(name, **places)
    table.close()
    return found


def _add_models(whole: TomlTable, system: System, models: dict[str, ModelPlan]) -> None:
    """Check what a row is made of, and add the networks that it names first."""
    where = f"row '{system.name}'"
    for place, name in sorted(system.features()):
        if place == "columns" and name == UNKNOWN_WORDS:
            continue
        if name not in models:
            kind = _kind(name)
            if kind is None:
                known = [*models, *KINDS, *MODEL_CONFIGS, UNKNOWN_WORDS]
                raise whole.error("systems", f"{where}: {unknown(f'model {name!r}', name, known)}")
            models[name] = ModelPlan(name, kind, reverse=name == "reverse")
        kind = models[name].kind
        if place == "columns" and kind != TABLE_KIND:
            raise whole.error("systems", f"{where}: expected a {TABLE_KIND}, {name} is a {kind}")
        if place == "search" and kind != CSLM:
            raise whole.error("systems", f"{where}: expected a {CSLM}, {name} is a {kind}")
    scores = {
        (plan.backoff_lm, plan.unnormalized)
        for name in (*system.search, *system.rescore)
        if (plan := models[name]).kind == CSLM
    }
    if len(scores) > 1:
        problem = f"expected models of kind {CSLM} with the same backoff_lm and unnormalized"
        raise whole.error("systems", f"{where}: {problem}")
    if system.columns == (UNKNOWN_WORDS,):
        problem = f"{UNKNOWN_WORDS} counts the words that a network does not know: name one, too"
        raise whole.error("systems", f"{where}: {problem}")
