"""The command line's options of ``phrasescore decode``, in groups."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from phrasescore.errors import DataError, ModelError

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

# Features that a search may have beside those of moses.ini, and their names in n-best lists.
SEARCH_FEATURES = {"cslm": "CSLM"}
ALGORITHMS = ("normal", "cube")


class Limit(NamedTuple):
    """How far a search goes: a section of moses.ini, and of moses' command line."""

    # Of the embedded search's SearchSettings.
    field: str
    kind: "click.ParamType[Any]"
    text: str


_COUNT = click.IntRange(min=0)
LIMITS = {
    "stack": Limit("stack_size", _COUNT, "Hypotheses a stack; 0 for no limit."),
    "beam-threshold": Limit(
        "beam_threshold", click.FloatRange(0, 1), "Relative to a stack's best; 0 for no limit."
    ),
    "distortion-limit": Limit(
        "distortion_limit", click.IntRange(min=-1), "Words; 0 for monotone, -1 for no limit."
    ),
    "max-phrase-length": Limit("max_phrase_length", click.IntRange(min=1), "Source words."),
    "search-algorithm": Limit("algorithm", click.Choice(ALGORITHMS), "Stacks, or cube pruning."),
    "cube-pruning-pop-limit": Limit(
        "pop_limit", click.IntRange(min=1), "Of cube pruning: hypotheses taken a stack."
    ),
    "cube-pruning-diversity": Limit(
        "diversity", _COUNT, "Of cube pruning: hypotheses made of each coverage, at least."
    ),
    "n-best-factor": Limit(
        "nbest_factor",
        _COUNT,
        "Of --distinct: paths looked at for each that is wanted; 0 for 1000.",
    ),
    "stack-diversity": Limit("stack_diversity", _COUNT, "Hypotheses kept of each coverage."),
}


def limits(command: _Decorated) -> _Decorated:
    """Add an option for each of `LIMITS`; the command gets them by their fields, None if not given.

    What is not given is as moses.ini says, or else as Moses has it.
    """
    for name, limit in reversed(LIMITS.items()):
        flags = [f"--{name}", limit.field]
        if name == "stack":
            flags.insert(1, "--stack-size")
        command = click.option(
            *flags, type=limit.kind, show_default="as in moses.ini", help=limit.text
        )(command)
    return command


def moses_limits(given: dict[str, Any]) -> dict[str, str]:
    """Return limits as moses' command line has them."""
    found = {}
    for name, limit in LIMITS.items():
        value = given.get(limit.field)
        if value is not None:
            is_algorithm = limit.field == "algorithm"
            found[name] = str(ALGORITHMS.index(value) if is_algorithm else value)
    return found


def features(command: _Decorated) -> _Decorated:
    """Add features of the search: each ``--feature`` with its ``--model``, and their weights."""
    command = click.option(
        "--feature-weight",
        "feature_weights",
        multiple=True,
        callback=_parse_weights,
        metavar="NAME=VALUE",
        help="The weight of a feature, as CSLM0=0.1; goes before --weights.",
    )(command)
    command = click.option(
        "--model", "models", multiple=True, metavar="MODEL", help="Of the --feature, in its order."
    )(command)
    return click.option(
        "--feature",
        "features",
        multiple=True,
        type=click.Choice(sorted(SEARCH_FEATURES)),
        help="One more feature in the search, CSLM0 in lists; needs a --model.",
    )(command)


def _parse_weights(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found = {}
    for value in values:
        name, _, number = value.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not name or not abs(weight) < float("inf") or name in found:
            problem = f"expected NAME=VALUE, each name once, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
        found[name] = weight
    return found


def feature_names(given: tuple[str, ...], models: tuple[str, ...]) -> list[str]:
    """Return what the features are called in n-best lists.

    :raises click.UsageError: if there are other than as many models as features.
    """
    if len(given) != len(models):
        problem = f"expected a --model for each --feature, got {len(models)} for {len(given)}"
        raise click.UsageError(problem)
    return [
        f"{SEARCH_FEATURES[name]}{given[:place].count(name)}" for place, name in enumerate(given)
    ]


def check_models(
    given: tuple[str, ...], models: tuple[str, ...], backoff_lm: str | None, *, unnormalized: bool
) -> None:
    """Check that each model is one of its feature's kind, before the long work, and its options.

    :raises PhrasescoreError: if one is not, or is no model.
    :raises click.UsageError: if the options do not go together.
    """
    from phrasescore.config.config import Config
    from phrasescore.features.cslm import check_cslm

    configs = []
    for name, model in zip(given, models, strict=True):
        configs.append(config := Config.from_toml(os.path.join(model, "config.toml")))
        if config.kind != name:
            problem = f"expected a model of kind {name}, found one of {config.kind}"
            raise ModelError(f"{model}: {problem}")
    check_cslm(configs, backoff_lm, unnormalized=unnormalized)
    if backoff_lm is not None and not os.path.exists(backoff_lm):
        raise DataError(backoff_lm, None, "cannot open: No such file or directory")
