"""Settings of the embedded search: its features, limits and processes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from moses_integration.decoder.search_limits import ALGORITHMS
from moses_integration.decoder.search_limits import LIMITS as ALL_LIMITS
from phrasescore.errors import ArgumentError, DataError, ModelError
from phrasescore.features import check_feed_forward
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.settings.declaration import option
from phrasescore.settings.kinds import KINDS, kind_names
from phrasescore.settings.scoring import FeedForwardScoring

if TYPE_CHECKING:
    from moses_integration.decoder.stateful import StatefulFeature

# Features that a search may add to the moses.ini's, and their names in n-best lists.
SEARCH_FEATURES = {name: KINDS[name].feature for name in kind_names(is_feed_forward=True)}


_FROM_INI = "as in moses.ini"


@dataclass(frozen=True)
class SearchSettings(FeedForwardScoring, heading="Search"):
    """Settings of the embedded search. A limit of None means moses.ini's, or Moses' default.

    :raises ArgumentError: if a field may not have its value.
    """

    features: Sequence[str] = option(
        (),
        "One more feature in the search, CSLM0 or Joint0 in lists; needs a --model.",
        flags="--feature",
        heading="Networks and features",
    )
    models: Sequence[str] = option(
        (),
        "Of the --feature, in its order.",
        flags="--model",
        metavar="MODEL",
        heading="Networks and features",
    )
    ignore: Sequence[str] = option(
        (),
        "Leave out a feature of moses.ini that the embedded search does not have.",
        metavar="NAME",
    )
    stack_size: int | None = option(
        None,
        "Hypotheses per stack; 0 for no limit.",
        ge=0,
        flags="--stack --stack-size",
        shown=_FROM_INI,
    )
    beam_threshold: float | None = option(
        None,
        "A probability, relative to a stack's best; 0 for no limit.",
        ge=0,
        le=1,
        shown=_FROM_INI,
    )
    distortion_limit: int | None = option(
        None, "Words; 0 for monotone, -1 for no limit.", ge=-1, shown=_FROM_INI
    )
    max_phrase_length: int | None = option(None, "Source words.", ge=1, shown=_FROM_INI)
    algorithm: Literal["normal", "cube"] | None = option(
        None, "Stacks, or cube pruning.", flags="--search-algorithm", shown=_FROM_INI
    )
    pop_limit: int | None = option(
        None,
        "Hypotheses taken per stack.",
        ge=1,
        flags="--cube-pruning-pop-limit",
        heading="Cube pruning",
        shown=_FROM_INI,
    )
    diversity: int | None = option(
        None,
        "Hypotheses made of each coverage, at least.",
        ge=0,
        flags="--cube-pruning-diversity",
        heading="Cube pruning",
        shown=_FROM_INI,
    )
    nbest_factor: int | None = option(
        None,
        "Paths examined for each hypothesis of --distinct; 0 for 1000 in all.",
        ge=0,
        flags="--n-best-factor",
        shown=_FROM_INI,
    )
    # A limit of Moses only.
    stack_diversity: int | None = option(
        None, "Hypotheses kept of each coverage.", ge=0, shown=_FROM_INI
    )
    processes: int | None = option(
        None,
        "Processes that translate; threads of Moses.",
        ge=1,
        heading="Speed",
        shown="all cores",
    )
    threads: int | None = option(
        None,
        "CPU threads of the networks in each process.",
        ge=1,
        heading="Speed",
        shown="cores / processes",
    )
    buffer_size: int = option(
        4096,
        "Requests of the search to a network that are scored together; changes speed only.",
        ge=1,
        heading="Speed",
    )
    device: str = option(
        "auto",
        "Where the network runs; auto takes a CUDA device where there is one.",
        metavar="auto|cpu|cuda[:N]",
        heading="Speed",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.features:
            if name not in SEARCH_FEATURES:
                known = " or ".join(SEARCH_FEATURES)
                raise ArgumentError(f"--feature: expected {known}, got {name!r}")

    @property
    def feature_names(self) -> list[str]:
        """The names, in n-best lists, of the features added to the moses.ini's."""
        return [
            f"{SEARCH_FEATURES[name]}{self.features[:place].count(name)}"
            for place, name in enumerate(self.features)
        ]

    def limits(self) -> dict[str, Any]:
        """Return the limits that are not None, by the names of moses.ini's sections."""
        given = {section: getattr(self, field) for section, field in LIMITS.items()}
        return {section: value for section, value in given.items() if value is not None}

    def check(self) -> None:
        """Check the features and their models, before the search starts.

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
        backoff = None if self.backoff_lm is None else os.fspath(self.backoff_lm)
        check_feed_forward(configs, backoff, unnormalized=self.unnormalized)
        if backoff is not None and not os.path.exists(backoff):
            raise DataError(backoff, None, "cannot open: No such file or directory")


_FIELDS = {field.name for field in fields(SearchSettings)}
# The limits among the settings, by the names of moses.ini's sections.
LIMITS = {section: field for section, field in ALL_LIMITS.items() if field in _FIELDS}


def moses_limits(settings: SearchSettings) -> dict[str, str]:
    """Return a search's limits for Moses' command line, by option without ``-``."""
    return {
        name: str(ALGORITHMS.index(value) if name == "search-algorithm" else value)
        for name, value in settings.limits().items()
    }


def choose_engine(engine: Compute | None, settings: SearchSettings) -> Compute:
    """Return a search's engine, by default ``processes``, after checking the settings' numbers."""
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
    from phrasescore.features.search_network import SearchCslm, SearchJoint
    from phrasescore.io.output import optional_path
    from phrasescore.language_models.word_scorer import CslmOptions
    from phrasescore.models.checkpoint import load_checkpoint

    torch.set_num_threads(threads)
    device = choose_device(settings.device)
    backoff = optional_path(settings.backoff_lm)
    options = CslmOptions(normalized=not settings.unnormalized, backoff=backoff)
    return [
        (SearchJoint if KINDS[kind].is_aligned else SearchCslm)(
            load_checkpoint(model), device, options=options, name=name
        )
        for kind, name, model in zip(
            settings.features, settings.feature_names, settings.models, strict=True
        )
    ]
