"""Settings of the embedded search: its features, limits and processes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from moses_integration.decoder import ALGORITHMS
from moses_integration.decoder import LIMITS as ALL_LIMITS
from phrasescore.arguments import StrPath
from phrasescore.engines import is_local
from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.features.columns import number_names
from phrasescore.features.model import check_feed_forward
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.declaration import Settings, option, optional, switch
from phrasescore.settings.kinds import KINDS, kind_names
from phrasescore.settings.toml_file import TomlTable, unknown

# Features that a search may add to the features of moses.ini, and their names in n-best lists.
SEARCH_FEATURES = {name: KINDS[name].feature for name in kind_names(is_feed_forward=True)}

_NETWORKS = "Networks and features"
_limit = partial(optional, shown="as in moses.ini")


@dataclass(frozen=True)
class SearchSettings(Settings, heading="Search"):
    """Settings of the embedded search. A limit of None is taken from moses.ini, or from Moses."""

    features: Sequence[str] = option(
        (),
        "Add a feature to the search, CSLM0 or Joint0 in n-best lists; requires a --model.",
        flags="--feature",
        heading=_NETWORKS,
    )
    models: Sequence[str] = option(
        (),
        "The model for each --feature, in the same order.",
        flags="--model",
        metavar="MODEL",
        heading=_NETWORKS,
    )
    backoff_lm: StrPath | None = optional(
        "An n-gram model, an ARPA file, for the words outside a cslm's shortlist, which are "
        "otherwise <unk>.",
        heading=_NETWORKS,
    )
    unnormalized: bool = switch(
        "Omit log Z from the scores of cslm and joint models, which must have been trained with "
        "self_normalization.",
        heading=_NETWORKS,
    )
    ignore: Sequence[str] = option(
        (),
        "Ignore a feature in moses.ini that the embedded search does not support.",
        metavar="NAME",
    )
    stack_size: int | None = _limit(
        "Maximum number of hypotheses per stack; 0 for no limit.",
        ge=0,
        flags="--stack --stack-size",
    )
    beam_threshold: float | None = _limit(
        "Minimum probability relative to the best hypothesis in a stack; 0 for no limit.",
        ge=0,
        le=1,
    )
    distortion_limit: int | None = _limit(
        "Distortion limit in words; 0 for monotone search, -1 for no limit.", ge=-1
    )
    max_phrase_length: int | None = _limit("Maximum number of source words in a phrase.", ge=1)
    algorithm: Literal["normal", "cube"] | None = _limit(
        "The search algorithm: stack decoding (normal) or cube pruning (cube).",
        flags="--search-algorithm",
    )
    pop_limit: int | None = _limit(
        "Number of hypotheses that cube pruning pops per stack.",
        ge=1,
        flags="--cube-pruning-pop-limit",
        heading="Cube pruning",
    )
    diversity: int | None = _limit(
        "Minimum number of hypotheses that cube pruning creates per coverage.",
        ge=0,
        flags="--cube-pruning-diversity",
        heading="Cube pruning",
    )
    nbest_factor: int | None = _limit(
        "Number of paths examined per hypothesis with --distinct; 0 for 1000 in total.",
        ge=0,
        flags="--n-best-factor",
    )
    # Only Moses has this limit.
    stack_diversity: int | None = _limit(
        "Number of hypotheses that Moses keeps per coverage.", ge=0
    )
    processes: int | None = optional(
        "Number of processes that translate, or of Moses' threads.",
        ge=1,
        heading="Devices and speed",
        shown="all cores",
    )
    threads: int | None = optional(
        "Number of CPU threads for the networks in each process.",
        ge=1,
        heading="Devices and speed",
        shown="cores / processes",
    )
    buffer_size: int = option(
        4096,
        "Number of requests that a network scores together; affects only the speed.",
        ge=1,
        heading="Devices and speed",
    )
    device: str = option(
        "auto",
        "Device for the networks; auto uses a CUDA device if one is available.",
        metavar="auto|cpu|cuda[:N]",
        heading="Devices and speed",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.features:
            if name not in SEARCH_FEATURES:
                known = " or ".join(SEARCH_FEATURES)
                raise ArgumentError(f"--feature: expected {known}, got {name!r}")

    @property
    def feature_names(self) -> list[str]:
        """The names, in n-best lists, of the features added to those in moses.ini."""
        return number_names(SEARCH_FEATURES[name] for name in self.features)

    def limits(self) -> dict[str, Any]:
        """Return the limits that are not None, by the names of moses.ini's sections."""
        given = {section: getattr(self, field) for section, field in LIMITS.items()}
        return {section: value for section, value in given.items() if value is not None}

    def check(self) -> None:
        """Check the features and their models, before the search starts."""
        if len(self.features) != len(self.models):
            problem = "expected a --model for each --feature of the search"
            raise ArgumentError(f"{problem}, got {len(self.models)} for {len(self.features)}")
        configs = []
        for name, model in zip(self.features, self.models, strict=True):
            configs.append(config := Config.of_model(model))
            if config.kind != name:
                problem = f"expected a model of kind {name}, found one of {config.kind}"
                raise ModelError(f"{model}: {problem}")
        backoff = None if self.backoff_lm is None else os.fspath(self.backoff_lm)
        check_feed_forward(configs, backoff, unnormalized=self.unnormalized)
        if backoff is not None and not os.path.exists(backoff):
            raise DataError(backoff, None, "cannot open: No such file or directory")


_FIELDS = {field.name for field in fields(SearchSettings)}
# The settings that are limits, by the names of moses.ini's sections.
LIMITS = {section: field for section, field in ALL_LIMITS.items() if field in _FIELDS}
# The limits' names in TOML files, and the fields of `SearchSettings`.
_TOML_LIMITS = {**LIMITS, "stack-size": "stack_size", "buffer-size": "buffer_size"}


def read_limits(table: TomlTable, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits in a table of a TOML file by their fields in `SearchSettings`."""
    limits = {}
    for key, value in given.items():
        if (name := key.replace("_", "-")) not in _TOML_LIMITS:
            raise table.error(key, unknown("limit", name, _TOML_LIMITS))
        limits[_TOML_LIMITS[name]] = value
        try:
            SearchSettings(**{_TOML_LIMITS[name]: value})
        except ArgumentError as error:
            raise table.error(key, str(error).partition(": ")[2]) from error
    return limits


def moses_limits(settings: SearchSettings) -> dict[str, str]:
    """Return a search's limits for Moses' command line, by option name without ``-``."""
    return {
        name: str(ALGORITHMS.index(value) if name == "search-algorithm" else value)
        for name, value in settings.limits().items()
    }


def choose_engine(engine: Compute | None, settings: SearchSettings) -> Compute:
    """Return the engine for a search, by default ``processes``, with its number of workers."""
    engine = engine or Compute(engine="processes")
    if engine.engine == "here":
        if (engine.workers or 1) > 1:
            raise ArgumentError("--workers: the engine here translates one sentence at a time")
        engine = replace(engine, workers=1)
    if settings.threads is not None and not is_local(engine):
        raise ArgumentError("--threads has no effect with --engine ray: a worker has one thread")
    if settings.processes is None:
        return engine
    if engine.engine != "processes":
        problem = f"--processes requires --engine processes; {engine.engine} uses --workers"
        raise ArgumentError(problem)
    if engine.workers is not None:
        problem = "--processes and --workers cannot be combined: they set the same number"
        raise ArgumentError(problem)
    return replace(engine, workers=settings.processes)
