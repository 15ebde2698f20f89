"""The networks and the rows in an experiment's file."""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from phrasescore.arguments import AtLeastOne, Positive
from phrasescore.errors import PhrasescoreError
from phrasescore.features.columns import COLUMN_KINDS, Column, read_column
from phrasescore.features.given_scores import GivenScores
from phrasescore.features.model import Network
from phrasescore.features.named import FEATURES, NOT_OF_PHRASES, OF_SHORTLISTS, NamedFeature
from phrasescore.features.packages import find_class
from phrasescore.settings import old_names
from phrasescore.settings.config import Config, preset_names
from phrasescore.settings.kinds import KINDS, NetworkKind, kind_names
from phrasescore.settings.toml_file import TomlTable, to_toml, unknown
from phrasescore.systems.system import SEARCH_FEATURES

UNKNOWN_WORDS = "unknown_words"
# Names in rows that need a table of their own, and its keys.
_OWN_TABLES = {
    "backward": '[models.backward] with kind = "rnnsearch" and right_to_left = true',
    "reverse": '[models.reverse] with kind = "encoder-decoder" and reverse = true',
}
# The kinds of networks for tables, the search and so on, as text for messages.
_OF_PHRASES = " or ".join(kind_names(scores_phrases=True))
_SEARCHING = " or ".join(SEARCH_FEATURES)
_LANGUAGE_MODEL = " or ".join(kind_names(reads_source=False))

# Folders of an experiment, beside the folders of its rows.
NOT_ROWS = ("logs", "models", "moses", "report", "tables")

# Number of tuning rounds, at least 2: each round tries the weights that the previous one found.
Rounds = Annotated[int, msgspec.Meta(ge=2)]


@dataclass(frozen=True)
class ModelPlan:
    """A network: how it is trained, or the folder that it is loaded from."""

    name: str
    kind: str = ""  # the file may omit a kind that the name determines
    path: Path | None = None  # the folder of an existing model, which is not trained
    # bleu: a column is trained further on n-best lists, from ``start`` if that is another network.
    objective: Literal["likelihood", "bleu"] = "likelihood"
    start: str | None = None
    preset: str | None = None
    reverse: bool = False
    right_to_left: bool = False
    # Limits and seed for training.
    minutes: Positive | None = None
    epochs: Positive | None = None
    updates: AtLeastOne | None = None
    seed: int | None = None
    # Further settings, by their table and key.
    set: dict[str, dict[str, bool | int | float | str]] = field(default_factory=dict)
    threads: AtLeastOne | None = None
    # An n-gram model for the words outside a cslm network's shortlist.
    backoff_lm: Path | None = None
    unnormalized: bool = False  # whether a cslm network or a joint model omits log Z

    @property
    def network(self) -> NetworkKind:
        """The kind of this network."""
        return KINDS[self.kind]

    @property
    def directions(self) -> dict[str, Any]:
        """Whether the network reads the target side, and whether it begins with the last word."""
        return {"reverse": self.reverse, "right_to_left": self.right_to_left}

    @property
    def limits(self) -> dict[str, int | float]:
        """The limits and the seed for training, if they are set."""
        limits = {name: getattr(self, name) for name in ("minutes", "epochs", "updates", "seed")}
        return {
            name: int(value) if value == int(value) else value
            for name, value in limits.items()
            if value is not None
        }

    @property
    def changes(self) -> dict[str, Any]:
        """The changes to the settings of training, as fields of `TrainingChanges`."""
        return {**self.limits, "changes": self.settings}

    @property
    def settings(self) -> tuple[str, ...]:
        """All other settings, such as "training.batch_size=32"."""
        return tuple(
            f"{table}.{key}={str(value).lower() if isinstance(value, bool) else value}"
            for table, values in self.set.items()
            for key, value in values.items()
        )


@dataclass(frozen=True)
class Row:
    """A row of the table: the names of the models and features that it adds to the baseline."""

    name: str
    columns: tuple[str, ...] = ()  # models and other features that score the phrase table, in order
    search: tuple[str, ...] = ()  # language models and joint models in the search
    lists: tuple[str, ...] = ()  # models and other features of the n-best lists
    # The row's own tuning settings; None for the experiment's.
    iterations: Rounds | None = None
    patience: AtLeastOne | None = None
    nbest_size: AtLeastOne | None = None

    def describe(self) -> str:
        """Return what the row adds to the baseline, in words; "" for nothing."""
        places = self.places().items()
        return "; ".join(f"{place} {', '.join(names)}" for place, names in places if names)

    def places(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the models and features in each place."""
        return {"columns": self.columns, "search": self.search, "lists": self.lists}

    def to_toml(self) -> str:
        """Return the row as an experiment's file has it: a standard row is a name."""
        if self == STANDARD.get(self.name):
            return to_toml(self.name)
        keys = [f"{key} = {to_toml(value)}" for key, value in asdict(self).items() if value]
        return f"{{ {', '.join(keys)} }}"

    def features(self) -> frozenset[tuple[str, str]]:
        """Return (place, name) of each model and feature, where the place is its list of names."""
        return frozenset((place, name) for place, names in self.places().items() for name in names)


_RNN, _CSLM = ("encoder-decoder",), ("cslm",)
# The rows of Cho et al. (2014), table 1, and further rows.
STANDARD = {
    row.name: row
    for row in (
        Row("Baseline"),
        Row("+RNN", _RNN),
        Row("+CSLM+RNN", _RNN, _CSLM),
        Row("+CSLM+RNN+WP", (*_RNN, UNKNOWN_WORDS), _CSLM),
        Row("+CSLM", (), _CSLM),
        Row("+joint", (), ("joint",)),
        Row("+joint+RNNsearch", (), ("joint",), ("rnnsearch",)),
        Row("+CSLM+joint+RNN", _RNN, (*_CSLM, "joint")),
        Row("+reverse", (*_RNN, "reverse")),
        Row("+LSTM", (), (), ("lstm",)),
        Row("+RNNsearch", (), (), ("rnnsearch",)),
        Row("+RNNsearch both ways", (), (), ("rnnsearch", "backward")),
        Row("+Transformer", (), (), ("transformer",)),
        Row("+all", (*_RNN, UNKNOWN_WORDS, "reverse"), _CSLM, ("lstm", "rnnsearch")),
    )
}
PAPER = ("Baseline", "+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")


def check_model(table: TomlTable, model: ModelPlan, models: dict[str, ModelPlan]) -> ModelPlan:
    """Return a network with its kind set, after checking it."""
    name = model.name
    if name in FEATURES:
        raise table.error(name, "is the name of a feature: choose another name")
    own = table.table(name)
    if model.start is not None:
        model = _like_its_start(own, model, models.get(model.start) or ModelPlan(model.start))
    named = model.kind or name
    kind = KINDS.get(named)
    if kind is None:
        names = old_names.KINDS if model.kind else old_names.MODELS
        raise own.error("kind", unknown("kind of network", named, KINDS, names))
    if model.preset is not None and model.preset not in preset_names(kind):
        problem = unknown("preset", model.preset, preset_names(kind), old_names.PRESETS)
        raise own.error("preset", problem)
    config = Config.preset(model.preset or kind.default_preset)
    limits = [f"training.{key}={value}" for key, value in model.limits.items()]
    config.override(limits, path=f"{table.path}: [models.{name}]")
    for setting in model.settings:
        config.override([setting], path=f"{table.path}: [models.{name}.set]")
    if model.right_to_left and kind.is_feed_forward:
        problem = f"cannot be used with a {named}, which predicts from left to right"
        raise own.error("right_to_left", problem)
    if model.objective == "bleu" and (not kind.scores_phrases or model.path):
        problem = f"is for a {_OF_PHRASES} that is trained here"
        raise own.error("objective", problem)
    if model.backoff_lm and kind.reads_source:
        problem = f"can only be used with a {_LANGUAGE_MODEL}, and this is a {named}"
        raise own.error("backoff_lm", problem)
    if model.unnormalized and not kind.is_feed_forward:
        problem = f"can only be used with a {_SEARCHING}, and this is a {named}"
        raise own.error("unnormalized", problem)
    if model.backoff_lm and model.unnormalized:
        problem = "needs normalised probabilities: it cannot be combined with unnormalized"
        raise own.error("backoff_lm", problem)
    return replace(model, kind=named)


def read_feature(table: TomlTable, name: str, value: Any, others: Collection[str]) -> Column:
    """Return a feature with options; ``others`` are names in use."""
    if name in (*FEATURES, *others):
        raise table.error(name, "is another model's or feature's name: choose another name")
    column = read_column(table.inner(f"features.{name}", value))
    if isinstance(column, Network | NamedFeature | GivenScores):
        kinds = [kind for kind in COLUMN_KINDS if kind not in ("model", "feature", "scores")]
        raise table.error(name, f"expected one of {', '.join(kinds)}")
    return column


def _like_its_start(own: TomlTable, model: ModelPlan, start: ModelPlan) -> ModelPlan:
    """Return a network with its kind and direction copied from the network that it starts from."""
    for key in ("path", "preset", "kind", "reverse", "right_to_left"):
        if getattr(model, key):
            raise own.error(key, f"is copied from {start.name}: remove it")
    if model.objective != "bleu":
        raise own.error("start", 'is for objective = "bleu"')
    if start.objective == "bleu" or (not start.kind and start.name not in KINDS):
        problem = f"expected a network that is trained on the table, got {start.name!r}"
        raise own.error("start", problem)
    return replace(model, kind=start.kind or start.name, **start.directions)


def read_rows(
    whole: TomlTable,
    value: Any,
    models: dict[str, ModelPlan],
    features: dict[str, Column],
) -> tuple[Row, ...]:
    """Return the rows; networks missing from [models] are added with default settings."""
    if not isinstance(value, list | tuple) or not value:
        raise whole.error("systems", f"expected names of rows or tables, got {value!r}")
    rows = tuple(_read_row(whole, given, place) for place, given in enumerate(value, start=1))
    names = [row.name for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise whole.error("systems", f"two rows have the name {name!r}")
    for row in rows:
        for problem in _problems(row, models, features):
            raise whole.error("systems", f"row '{row.name}': {problem}")
    return rows


def _read_row(whole: TomlTable, value: Any, place: int) -> Row:
    if isinstance(value, str):
        if value not in STANDARD:
            raise whole.error("systems", unknown(f"row '{value}'", value, STANDARD))
        return STANDARD[value]
    table = whole.inner(f"systems {place}", value)
    for key in table.values():
        if key in old_names.ROW_KEYS:
            raise table.error(key, f"is now {old_names.ROW_KEYS[key]}")
    row = table.read(Row)
    if not row.name or "\n" in row.name:
        raise table.error("name", f"expected a name of one line, got {row.name!r}")
    if row.name in NOT_ROWS:
        problem = f"{row.name} is the name of a folder of the experiment: choose another name"
        raise table.error("name", problem)
    for key in ("columns", "search", "lists"):
        names = getattr(row, key)
        if len(set(names)) < len(names):
            raise table.error(key, f"expected each name once, got {list(names)}")
    return row


def _problems(row: Row, models: dict[str, ModelPlan], features: dict[str, Column]) -> Iterator[str]:
    """Yield the errors in a row, and add networks that only the row names."""
    for place, name in sorted(row.features()):
        if place != "search" and name in FEATURES:
            continue
        if name in features:
            if place == "search" or (place == "columns" and features[name].not_of_phrases()):
                yield f"{name} scores sentences: expected it in lists"
            elif place == "columns" and features[name].name is not None:
                yield f"{name} has a name, which a column of a phrase table cannot have"
            continue
        if name not in models:
            is_kind = name in KINDS
            try:
                if not is_kind and place != "search" and find_class(name) is not None:
                    NamedFeature(name).check((), of_phrases=place == "columns")
                    continue
            except PhrasescoreError as error:
                yield str(error)
                return
            if not is_kind:
                known = [*models, *KINDS, *FEATURES, *_OWN_TABLES, *features]
                if name in _OWN_TABLES:
                    yield f"expected a table {_OWN_TABLES[name]}"
                    return
                what = "model" if name in old_names.MODELS else f"model or feature {name!r}"
                yield unknown(what, name, known, old_names.MODELS)
                return
            models[name] = ModelPlan(name, name)
        model = models[name]
        if place == "columns" and not model.network.scores_phrases:
            yield f"expected a {_OF_PHRASES}, but {name} is a {model.kind}"
        if place == "search" and not model.network.is_feed_forward:
            yield f"expected a {_SEARCHING}, but {name} is a {model.kind}"
        if place == "lists" and model.network.is_aligned:
            yield f"{name} is a {model.kind}, which can only be used in the search"
    plans = [models[name] for name in (*row.search, *row.lists) if name in models]
    if len({plan.backoff_lm for plan in plans if not plan.network.reads_source}) > 1:
        yield f"expected models of kind {_LANGUAGE_MODEL} with the same backoff_lm"
    if len({plan.unnormalized for plan in plans if plan.network.is_feed_forward}) > 1:
        yield f"expected models of kind {_SEARCHING} with the same unnormalized"
    for place, names in (("columns", row.columns), ("lists", row.lists)):
        for name in names:
            if place == "columns" and name in NOT_OF_PHRASES:
                yield f"{name} can only be used on n-best lists: {NOT_OF_PHRASES[name]}"
            elif name in OF_SHORTLISTS and not any(other in models for other in names):
                yield f"{name} counts the words that a network does not know: add a network"
