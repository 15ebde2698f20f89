"""The networks and the rows of an experiment, as its file names them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from phrasescore.evaluation.sentences import find_references
from phrasescore.features import FEATURE_NAMES, NOT_OF_PHRASES, OF_SHORTLISTS, ColumnKind
from phrasescore.settings.config import Config, preset_names
from phrasescore.settings.kinds import NetworkKind, find_kind, get_kind, kind_names, known_kinds
from phrasescore.settings.toml_file import TomlTable, unknown
from phrasescore.workflows.search_settings import SEARCH_FEATURES

UNKNOWN_WORDS = "unknown_words"
# The kinds of networks that have further names.
_KINDS_BY_NAME = {"rnn": "encoder-decoder", "reverse": "encoder-decoder"}
# Features other than networks: the ones that read a file, which [data] names,
# and the others, which have the same names in rescore and annotate.
FILE_FEATURES: tuple[ColumnKind, ...] = ("lm", "lexicon", "reverse_lexicon")
OTHER_FEATURES = tuple(FEATURE_NAMES)
_LIMITS = ("minutes", "epochs", "updates", "seed")
# The kinds of networks that a table and a search may have, in words.
_OF_PHRASES = " or ".join(kind_names(scores_phrases=True))
_SEARCHING = " or ".join(SEARCH_FEATURES)
_LANGUAGE_MODEL = " or ".join(kind_names(reads_source=False))
_ALIGNED = " or ".join(kind_names(is_aligned=True))

Count = Annotated[int, msgspec.Meta(ge=1)]
# Number of tuning rounds, at least 2: each round tries the weights that the previous one found.
Rounds = Annotated[int, msgspec.Meta(ge=2)]
_Limit = Annotated[float, msgspec.Meta(gt=0)]


@dataclass(frozen=True)
class XbleuPlan:
    """How a network is fine-tuned from another one for expected BLEU."""

    # The network to start from, and the row whose weights score the lists.
    model: str
    row: str
    # n-best lists of the sentences of ``source``, with the features of the row.
    lists: tuple[Path, ...]
    source: Path
    references: tuple[Path, ...]
    # Word alignments of the source and its first reference, for a joint model.
    alignments: Path | None = None


@dataclass(frozen=True)
class ModelPlan:
    """A network: how it is trained, or the folder that it is loaded from."""

    name: str
    # The file may omit it if the name determines it.
    kind: str = ""
    # The folder of an existing model; nothing is trained then.
    path: Path | None = None
    xbleu: XbleuPlan | None = None
    preset: str | None = None
    reverse: bool = False
    right_to_left: bool = False
    # The limits of training, and its seed.
    minutes: _Limit | None = None
    epochs: _Limit | None = None
    updates: Count | None = None
    seed: int | None = None
    # Further settings, by their table and key.
    set: dict[str, dict[str, bool | int | float | str]] = field(default_factory=dict)
    threads: Count | None = None
    # For a cslm network, an n-gram model for the words outside its shortlist; for a cslm network
    # or a joint model, whether to omit log Z.
    backoff_lm: Path | None = None
    unnormalized: bool = False

    @property
    def network(self) -> NetworkKind:
        """The kind of network."""
        return get_kind(self.kind)

    @property
    def limits(self) -> dict[str, int | float]:
        """The given ones among minutes, epochs, updates and seed, by name."""
        given = {name: getattr(self, name) for name in _LIMITS}
        return {
            name: int(value) if value == int(value) else value
            for name, value in given.items()
            if value is not None
        }

    @property
    def settings(self) -> tuple[str, ...]:
        """The further settings, such as "training.batch_size=32"."""
        return tuple(
            f"{table}.{key}={str(value).lower() if isinstance(value, bool) else value}"
            for table, values in self.set.items()
            for key, value in values.items()
        )


@dataclass(frozen=True)
class System:
    """A row of the table: the models and features that it has beyond the baseline, by name."""

    name: str
    # Models and other features that score the phrase table, in order.
    columns: tuple[str, ...] = ()
    # Language models and joint models in the search.
    search: tuple[str, ...] = ()
    # Models and other features that rescore the n-best lists.
    rescore: tuple[str, ...] = ()
    # The row's own tuning settings; None for the experiment's.
    iterations: Rounds | None = None
    patience: Count | None = None
    nbest_size: Count | None = None

    def features(self) -> frozenset[tuple[str, str]]:
        """Return the row's models and features, each with the place where it is used."""
        places = {"columns": self.columns, "search": self.search, "rescore": self.rescore}
        return frozenset((place, name) for place, names in places.items() for name in names)


_RNN, _CSLM = ("rnn",), ("cslm",)
# The rows of Cho et al. (2014), table 1, and ours.
STANDARD = {
    system.name: system
    for system in (
        System("Baseline"),
        System("+RNN", _RNN),
        System("+CSLM+RNN", _RNN, _CSLM),
        System("+CSLM+RNN+WP", (*_RNN, UNKNOWN_WORDS), _CSLM),
        System("+joint", (), ("joint",)),
        System("+CSLM+joint+RNN", _RNN, (*_CSLM, "joint")),
        System("+reverse", (*_RNN, "reverse")),
        System("+LSTM", (), (), ("lstm",)),
        System("+RNNsearch", (), (), ("attention",)),
        System("+all", (*_RNN, UNKNOWN_WORDS, "reverse"), _CSLM, ("lstm", "attention")),
    )
}
PAPER = ("Baseline", "+RNN", "+CSLM+RNN", "+CSLM+RNN+WP")


def check_model(
    table: TomlTable, model: ModelPlan, given: dict[str, ModelPlan], files: Collection[str]
) -> ModelPlan:
    """Return a network with its kind set, after checking all its settings.

    :param table: [models], for errors.
    :param given: all networks of the table.
    :param files: names of features from files.
    """
    name = model.name
    if name in (*FILE_FEATURES, *OTHER_FEATURES, *files):
        raise table.error(name, "is the name of a feature: expected another one")
    own = table.table(name)
    if model.xbleu is not None:
        model = _like_its_start(own, model, model.xbleu, given)
    named = model.kind or _kind(name)
    if named is None:
        raise own.error("kind", "is missing: expected a kind of network")
    kind = find_kind(named)
    if kind is None:
        raise own.error("kind", f"{unknown('value', named, sorted(known_kinds()))}, got {named!r}")
    if model.preset is not None:
        own.check_choice("preset", model.preset, preset_names(kind))
    config = _preset(model, kind)
    limits = [f"training.{key}={value}" for key, value in model.limits.items()]
    config.override(limits, path=f"{table.path}: [models.{name}]")
    for setting in model.settings:
        config.override([setting], path=f"{table.path}: [models.{name}.set]")
    if model.right_to_left and kind.is_feed_forward:
        raise own.error("right_to_left", f"is not of a {named}, which predicts from left to right")
    if model.backoff_lm and kind.reads_source:
        raise own.error("backoff_lm", f"is of a {_LANGUAGE_MODEL}, and this is a {named}")
    if model.unnormalized and not kind.is_feed_forward:
        raise own.error("unnormalized", f"is of a {_SEARCHING}, and this is a {named}")
    if model.backoff_lm and model.unnormalized:
        problem = "divides the probabilities of words: not with unnormalized"
        raise own.error("backoff_lm", problem)
    return replace(model, kind=named, reverse=model.reverse or name == "reverse")


def _like_its_start(
    own: TomlTable, model: ModelPlan, xbleu: XbleuPlan, given: dict[str, ModelPlan]
) -> ModelPlan:
    """Return a network with the kind and directions of the network that it is fine-tuned from."""
    for key in ("path", "preset", "kind", "reverse", "right_to_left"):
        if getattr(model, key):
            raise own.error(key, f"is that of {xbleu.model}, from which training goes on")
    start = given.get(xbleu.model) or ModelPlan(xbleu.model)
    kind = start.kind or _kind(start.name)
    if kind is None or start.xbleu:
        problem = "expected a network that is trained on a table or text"
        raise own.table("xbleu").error("model", f"{problem}, got {xbleu.model!r}")
    start = replace(start, kind=kind)
    if start.network.is_aligned != (xbleu.alignments is not None):
        problem = f"are for a {_ALIGNED}, which needs them; {xbleu.model} is a {kind}"
        raise own.table("xbleu").error("alignments", problem)
    xbleu = replace(xbleu, references=reference_files(xbleu.references))
    return replace(
        model,
        kind=kind,
        reverse=start.reverse or start.name == "reverse",
        right_to_left=start.right_to_left,
        xbleu=xbleu,
    )


def reference_files(names: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files that names of references lead to."""
    return tuple(map(Path, find_references(names)))


def is_self_normalized(model: ModelPlan) -> bool:
    """Return whether training keeps the log Z of a cslm network or joint model near 0."""
    config = _preset(model, model.network)
    config = config.override(model.settings, path=f"[models.{model.name}.set]")
    return bool(getattr(config.model, "self_normalization", 0))


def _preset(model: ModelPlan, kind: NetworkKind) -> Config:
    return Config.preset(model.preset or kind.default_preset, kind.presets)


def _kind(name: str) -> str | None:
    """Return the kind of network that a name stands for, or None if it stands for no kind."""
    kind = find_kind(_KINDS_BY_NAME.get(name, name))
    return None if kind is None else kind.name


def read_systems(
    whole: TomlTable, given: Any, models: dict[str, ModelPlan], files: dict[str, Path]
) -> tuple[System, ...]:
    """Return the rows; networks that [models] lacks are added to it with default settings.

    :param given: the value of ``systems``: a list of row names and tables.
    """
    if not isinstance(given, list | tuple) or not given:
        raise whole.error("systems", f"expected names of rows or tables, got {given!r}")
    found = tuple(_system(whole, value, place) for place, value in enumerate(given, start=1))
    names = [system.name for system in found]
    for name in names:
        if names.count(name) > 1:
            raise whole.error("systems", f"two rows are called {name!r}")
    for system in found:
        for problem in _problems(system, models, files):
            raise whole.error("systems", f"row '{system.name}': {problem}")
    for place, system in enumerate(found):
        for _, name in system.features():
            model = models.get(name)
            if model is not None and model.xbleu is not None:
                _check_row(whole, model.xbleu, name, found[:place])
    return found


def _check_row(whole: TomlTable, xbleu: XbleuPlan, name: str, earlier: tuple[System, ...]) -> None:
    """Check that an earlier row has the network that a row's network is fine-tuned from."""
    for system in earlier:
        if system.name == xbleu.row and xbleu.model in {name for _, name in system.features()}:
            return
    problem = f"expected an earlier row with {xbleu.model}"
    table = whole.table("models").table(name).table("xbleu")
    raise table.error("row", f"{problem}, got {xbleu.row!r}")


def _system(whole: TomlTable, value: Any, place: int) -> System:
    if isinstance(value, str):
        if value not in STANDARD:
            raise whole.error("systems", unknown(f"row '{value}'", value, STANDARD))
        return STANDARD[value]
    table = whole.inner(f"systems {place}", value)
    found = table.read(System)
    if not found.name or "\n" in found.name:
        raise table.error("name", f"expected a name of one line, got {found.name!r}")
    for key in ("columns", "search", "rescore"):
        names = getattr(found, key)
        if len(set(names)) < len(names):
            raise table.error(key, f"expected each name once, got {list(names)}")
    return found


def _problems(
    system: System, models: dict[str, ModelPlan], files: dict[str, Path]
) -> Iterator[str]:
    """Yield the errors of a row, and add the networks that it names first."""
    features = (*FILE_FEATURES, *OTHER_FEATURES)
    for place, name in sorted(system.features()):
        if place != "search" and (name in features or name in files):
            if place == "rescore" and name in files and name not in FILE_FEATURES:
                yield f"{name} has a number per line of the table: expected it in columns"
            continue
        if name not in models:
            kind = _kind(name)
            if kind is None:
                known = [*models, *_KINDS_BY_NAME, *known_kinds(), *features, *files]
                yield unknown(f"model or feature {name!r}", name, known)
                return
            models[name] = ModelPlan(name, kind, reverse=name == "reverse")
        model = models[name]
        if place == "columns" and not model.network.scores_phrases:
            yield f"expected a {_OF_PHRASES}, {name} is a {model.kind}"
        if place == "search" and not model.network.is_feed_forward:
            yield f"expected a {_SEARCHING}, {name} is a {model.kind}"
        if place == "rescore" and model.network.is_aligned:
            yield f"{name} is a {model.kind}, which is for the search alone: expected it there"
    plans = [models[name] for name in (*system.search, *system.rescore) if name in models]
    if len({plan.backoff_lm for plan in plans if not plan.network.reads_source}) > 1:
        yield f"expected models of kind {_LANGUAGE_MODEL} with the same backoff_lm"
    if len({plan.unnormalized for plan in plans if plan.network.is_feed_forward}) > 1:
        yield f"expected models of kind {_SEARCHING} with the same unnormalized"
    for place, names in (("columns", system.columns), ("rescore", system.rescore)):
        for name in names:
            if name in FILE_FEATURES and name not in files:
                yield f"{name} needs a file: expected [data] {name}"
            elif place == "columns" and name == "lm":
                yield "lm is for n-best lists alone: Moses has language models in its search"
            elif place == "columns" and name in NOT_OF_PHRASES:
                yield f"{name} is for n-best lists alone: {NOT_OF_PHRASES[name]}"
            elif name in OF_SHORTLISTS and not any(other in models for other in names):
                yield f"{name} counts the words that a network does not know: name one, too"
