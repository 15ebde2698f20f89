"""How the embedded search translates: the features, limits and processes that a user chooses."""

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from moses_integration.decoder.search_limits import ALGORITHMS, limit_values
from moses_integration.decoder.search_limits import LIMITS as ALL_LIMITS
from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.features import check_feed_forward
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import KINDS, kind_names

if TYPE_CHECKING:
    from moses_integration.decoder.stateful import StatefulFeature

# Features that a search may have beside those of moses.ini, and their names in n-best lists.
SEARCH_FEATURES = {name: KINDS[name].feature for name in kind_names(is_feed_forward=True)}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How the embedded search translates. A limit that is None is that of moses.ini, or Moses'.

    :raises ArgumentError: if a field may not have its value.
    """

    # Features beside those of moses.ini, of `SEARCH_FEATURES`, and the folder of each one's model.
    features: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    # An n-gram model for the words outside the shortlist of a model of the kind cslm, and whether
    # log Z is left out, of all models.
    backoff_lm: str | None = None
    unnormalized: bool = False
    # Features of moses.ini that are left out, by their names.
    ignore: tuple[str, ...] = ()
    # Hypotheses per stack; 0 for no limit.
    stack_size: int | None = None
    # A probability, relative to the best hypothesis of a stack; 0 for no limit.
    beam_threshold: float | None = None
    # Words; 0 for monotone translations, -1 for no limit.
    distortion_limit: int | None = None
    # Source words.
    max_phrase_length: int | None = None
    algorithm: Literal["normal", "cube"] | None = None
    # Of cube pruning: hypotheses taken per stack, and made of each coverage at least.
    pop_limit: int | None = None
    diversity: int | None = None
    # Of lists of distinct hypotheses: paths looked at for each hypothesis; 0 for 1,000.
    nbest_factor: int | None = None
    # Hypotheses kept of each coverage; a limit of Moses alone.
    stack_diversity: int | None = None
    # Processes that translate at the same time; None for one per core.
    processes: int | None = None
    # CPU threads of the networks per process; None for the cores divided by the processes.
    threads: int | None = None
    # Requests of the search to a network that are scored together; changes speed only.
    buffer_size: int = 4096
    # Where the networks run: auto, cpu, cuda or cuda:N.
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in self.features:
            if name not in SEARCH_FEATURES:
                known = " or ".join(SEARCH_FEATURES)
                raise ArgumentError(f"--feature: expected {known}, got {name!r}")
        for name in ("processes", "threads", "buffer_size"):
            count = getattr(self, name)
            if count is not None and (not isinstance(count, int) or count < 1):
                raise ArgumentError(f"{flag(name)}: expected a whole number from 1, got {count!r}")
        for section, name in LIMITS.items():
            value = getattr(self, name)
            if value is not None and (wanted := limit_values(name, value)) is not None:
                raise ArgumentError(f"--{section}: expected {wanted}, got {value!r}")

    @property
    def feature_names(self) -> list[str]:
        """The names in n-best lists of the features beside those of moses.ini."""
        return [
            f"{SEARCH_FEATURES[name]}{self.features[:place].count(name)}"
            for place, name in enumerate(self.features)
        ]

    def limits(self) -> dict[str, Any]:
        """Return the limits that are not None, by the names of moses.ini's sections."""
        given = {section: getattr(self, field) for section, field in LIMITS.items()}
        return {section: value for section, value in given.items() if value is not None}

    def check(self) -> None:
        """Check the features and their models, before the long work.

        :raises ArgumentError: if features and models, or their options, do not go together.
        :raises PhrasescoreError: if there is no such model, or it is of another kind than its
            feature.
        """
        if len(self.features) != len(self.models):
            problem = "expected a --model for each --feature of the search"
            raise ArgumentError(f"{problem}, got {len(self.models)} for {len(self.features)}")
        configs = []
        for name, model in zip(self.features, self.models, strict=True):
            configs.append(config := Config.from_toml(os.path.join(model, "config.toml")))
            if config.kind != name:
                problem = f"expected a model of kind {name}, found one of {config.kind}"
                raise ModelError(f"{model}: {problem}")
        check_feed_forward(configs, self.backoff_lm, unnormalized=self.unnormalized)
        if self.backoff_lm is not None and not os.path.exists(self.backoff_lm):
            raise DataError(self.backoff_lm, None, "cannot open: No such file or directory")


_FIELDS = {field.name for field in fields(SearchSettings)}
# The limits among the settings, by the names of moses.ini's sections.
LIMITS = {section: field for section, field in ALL_LIMITS.items() if field in _FIELDS}


def moses_limits(settings: SearchSettings) -> dict[str, str]:
    """Return the limits of a search as Moses' command line has them, by option without ``-``."""
    return {
        name: str(ALGORITHMS.index(value) if name == "search-algorithm" else value)
        for name, value in settings.limits().items()
    }


def choose_engine(engine: Compute | None, settings: SearchSettings) -> Compute:
    """Return the engine of a search, whose default is processes; check the settings' numbers."""
    engine = engine or Compute(engine="processes")
    if engine.engine == "here":
        if (engine.workers or 1) > 1:
            raise ArgumentError("--workers: the engine here translates one sentence at a time")
        engine = replace(engine, workers=1)
    if engine.engine == "ray" and settings.threads is not None:
        raise ArgumentError("--threads: a worker on Ray has one")
    if settings.processes is None:
        return engine
    if engine.engine != "processes":
        raise ArgumentError(
            f"--processes is for the engine processes; {engine.engine} has --workers"
        )
    if engine.workers is not None:
        raise ArgumentError("--processes and --workers are one number with the engine processes")
    return replace(engine, workers=settings.processes)


def load_networks(settings: SearchSettings, threads: int) -> "list[StatefulFeature]":
    """Return the networks; torch is imported here, in the process that uses it."""
    if not settings.models:
        return []
    import torch

    from phrasescore.devices import choose_device
    from phrasescore.features.cslm import SearchCslm
    from phrasescore.features.joint import SearchJoint
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=settings.backoff_lm)
    return [
        (SearchJoint if KINDS[kind].is_aligned else SearchCslm)(
            load_checkpoint(model), device, options=options, name=name
        )
        for kind, name, model in zip(
            settings.features, settings.feature_names, settings.models, strict=True
        )
    ]
