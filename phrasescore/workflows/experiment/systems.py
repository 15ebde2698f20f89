"""The networks and the rows of an experiment, as its file names them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phrasescore.config.config import DEFAULT_PRESETS, Config, preset_names
from phrasescore.config.settings import MODEL_CONFIGS
from phrasescore.config.toml_file import TomlTable, unknown
from phrasescore.features import FEATURE_NAMES, NOT_OF_PHRASES, OF_SHORTLISTS
from phrasescore.features.column_spec import ColumnKind

UNKNOWN_WORDS = "unknown_words"
CSLM = "cslm"
# Kinds of networks that score phrase pairs, and what a network's name says of its kind.
TABLE_KIND = "encoder-decoder"
KINDS = {"rnn": TABLE_KIND, "reverse": TABLE_KIND, CSLM: CSLM}
# Features that are no networks: those of a file, which [data] names;
# and the others, which rescore and annotate know by the same names.
FILE_FEATURES: dict[str, ColumnKind] = {
    "lm": "lm",
    "lexicon": "lexicon",
    "reverse_lexicon": "reverse_lexicon",
}
OTHER_FEATURES = tuple(FEATURE_NAMES)
_TRAIN_LIMITS = ("minutes", "epochs", "updates", "seed")


@dataclass(frozen=True)
class ModelPlan:
    """A network: how it is trained, or where it is."""

    name: str
    kind: str
    # A folder that is there; then nothing is trained.
    path: Path | None = None
    preset: str | None = None
    reverse: bool = False
    # When training ends, and its seed: minutes, epochs, updates, seed.
    limits: dict[str, int | float] = field(default_factory=dict)
    # As "training.batch_size=32".
    settings: tuple[str, ...] = ()
    threads: int | None = None
    # Of a cslm: an n-gram model for the words outside its shortlist, and whether log Z is left out.
    backoff_lm: Path | None = None
    unnormalized: bool = False


@dataclass(frozen=True)
class System:
    """A row of the table: what it has beyond the baseline, by names of models and features."""

    name: str
    # Of the phrase table, in order: models and other features.
    columns: tuple[str, ...] = ()
    # Language models in the search.
    search: tuple[str, ...] = ()
    # Of n-best lists after it: models and other features.
    rescore: tuple[str, ...] = ()
    # Of its tuning, where they are others than the experiment's.
    iterations: int | None = None
    patience: int | None = None
    nbest_size: int | None = None

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


def read_models(table: TomlTable) -> dict[str, ModelPlan]:
    """Return the networks of [models], by name."""
    for name in table.names():
        if name in (*FILE_FEATURES, *OTHER_FEATURES):
            raise table.error(name, "is the name of a feature: expected another one")
    return {name: _model(table.table(name), name) for name in table.names()}


def _model(table: TomlTable, name: str) -> ModelPlan:
    kind = table.text("kind", sorted(MODEL_CONFIGS)) or _kind(name)
    if kind is None:
        raise table.error("kind", "is missing: expected a kind of network")
    limits: dict[str, int | float] = {}
    for key in _TRAIN_LIMITS:
        value = table.value(key)
        if value is not None:
            if type(value) not in (int, float) or value < 0 or (value == 0 and key != "seed"):
                raise table.error(key, f"expected a number above 0, got {value!r}")
            limits[key] = value
    preset = table.text("preset", preset_names(kind))
    settings_of = Config.preset(preset or DEFAULT_PRESETS[kind])
    overridden = [f"training.{key}={value}" for key, value in limits.items()]
    settings_of.override(overridden, path=f"[models.{name}]")
    assignments: list[str] = []
    groups = table.table("set")
    for group in groups.names():
        settings = groups.table(group)
        for key in settings.names():
            value = settings.value(key)
            if type(value) not in (bool, int, float, str):
                raise settings.error(key, f"expected a setting, got {value!r}")
            text = str(value).lower() if isinstance(value, bool) else str(value)
            assignments.append(f"{group}.{key}={text}")
            settings_of.override(assignments[-1:], path=f"[models.{name}.set]")
    found = ModelPlan(
        name,
        kind,
        table.path("path"),
        preset,
        table.flag("reverse") or name == "reverse",
        limits,
        tuple(assignments),
        table.whole("threads"),
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


def read_systems(
    whole: TomlTable, models: dict[str, ModelPlan], files: dict[str, Path]
) -> tuple[System, ...]:
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
        _check_features(whole, system, models, files)
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
    found = System(
        name,
        **places,
        iterations=table.whole("iterations", minimum=2),
        patience=table.whole("patience"),
        nbest_size=table.whole("nbest_size"),
    )
    table.close()
    return found


def _add_models(whole: TomlTable, system: System, models: dict[str, ModelPlan]) -> None:
    """Check what a row is made of, and add the networks that it names first."""
    where = f"row '{system.name}'"
    for place, name in sorted(system.features()):
        if place != "search" and name in (*FILE_FEATURES, *OTHER_FEATURES):
            continue
        if name not in models:
            kind = _kind(name)
            if kind is None:
                known = [*models, *KINDS, *MODEL_CONFIGS, *FILE_FEATURES, *OTHER_FEATURES]
                problem = unknown(f"model or feature {name!r}", name, known)
                raise whole.error("systems", f"{where}: {problem}")
            models[name] = ModelPlan(name, kind, reverse=name == "reverse")
        kind = models[name].kind
        if place == "columns" and kind != TABLE_KIND:
            raise whole.error("systems", f"{where}: expected a {TABLE_KIND}, {name} is a {kind}")
        if place == "search" and kind != CSLM:
            raise whole.error("systems", f"{where}: expected a {CSLM}, {name} is a {kind}")
    scores = {
        (plan.backoff_lm, plan.unnormalized)
        for name in (*system.search, *system.rescore)
        if (plan := models.get(name)) is not None and plan.kind == CSLM
    }
    if len(scores) > 1:
        problem = f"expected models of kind {CSLM} with the same backoff_lm and unnormalized"
        raise whole.error("systems", f"{where}: {problem}")


def _check_features(
    whole: TomlTable, system: System, models: dict[str, ModelPlan], files: dict[str, Path]
) -> None:
    """Check the features of a row that are no networks."""
    where = f"row '{system.name}'"
    for place, names in (("columns", system.columns), ("rescore", system.rescore)):
        for name in names:
            problem = None
            if name in FILE_FEATURES and name not in files:
                problem = f"{name} needs a file: expected [data] {name}"
            elif place == "columns" and name == "lm":
                problem = "lm is for n-best lists alone: Moses has language models in its search"
            elif place == "columns" and name in NOT_OF_PHRASES:
                problem = f"{name} is for n-best lists alone: {NOT_OF_PHRASES[name]}"
            elif name in OF_SHORTLISTS and not any(other in models for other in names):
                problem = f"{name} counts the words that a network does not know: name one, too"
            if problem is not None:
                raise whole.error("systems", f"{where}: {problem}")
