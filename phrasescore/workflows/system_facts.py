"""What a system consists of, where its paths lead, and whether it can translate."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moses_integration.decoder import LIMITS
from moses_integration.decoder.configuration import LANGUAGE_MODEL, REORDERING
from moses_integration.decoder.moses import DecoderCommand
from moses_integration.ini_text import BINARY_ENDINGS, named_files
from moses_integration.moses_ini import is_phrase_table
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.features.columns import Column
from phrasescore.features.program import Command
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.systems.ranking import load_list_features
from phrasescore.systems.search import DecoderFeatures, read_configuration
from phrasescore.systems.system import System

# The groups of the features in a moses.ini, besides phrase tables.
_GROUPS = {REORDERING: "table", LANGUAGE_MODEL: "language model"}


def system_facts(system: System) -> dict[str, str]:
    """Return the parts of a system, where their paths lead, and whether it can translate."""
    facts = {"system": system.path, "decoder": "the search of this package"}
    if isinstance(system.decoder, DecoderCommand):
        facts["decoder"] = system.decoder.command
    elif system.decoder is not None:
        facts["decoder"] = f"Moses, {system.decoder.program}"
    ready, names, system = _check(system)
    ini = None if system.moses_ini is None else system.read_ini()
    for feature in () if ini is None else ini.features:
        file = dict(feature.arguments).get("path")
        parts = [_file(ini.resolve(file))] if ini is not None and file else []
        group = "table" if is_phrase_table(feature.kind) else _GROUPS.get(feature.kind, "feature")
        facts[f"{group} {feature.name}"] = "; ".join([*parts, *_weights(system, feature.name)])
    for name, network in zip(system.search_names, system.search, strict=True):
        parts = [_file(network.model), *_options(network), *_weights(system, name)]
        facts[f"in the search {name}"] = "; ".join(parts)
    named = iter(names)
    for place, column in enumerate(system.lists, start=1):
        name = next(named, f"{place}")
        parts = [_file(path) for path in column.inputs()]
        parts = [*(parts or [column.argument]), *_options(column)]
        facts[f"in the lists {name}"] = "; ".join(
            [*parts, *_weights(system, name, is_searched=False)]
        )
    for column in system.columns:
        facts[f"column {column.name}"] = "; ".join([column.argument, *_options(column)])
    rules = dataclasses.asdict(system.text).items()
    text = {
        key: _short(str(value)) if isinstance(value, Path) else value
        for key, value in rules
        if value
    }
    is_split = ini is not None and ini.text_settings().characters
    facts["text"] = _settings(text) or f"{'characters' if is_split else 'words'} of the system"
    given = {} if ini is None else ini.first_lines()
    limits = {name: given[name].words[0].group() for name in LIMITS if name in given}
    facts["limits"] = _settings({**limits, **system.limits}) or "Moses' defaults"
    facts["size of the lists"] = f"{system.nbest_size}"
    programs = [column.argument for column in system.lists if isinstance(column, Command)]
    if system.decoder is not None:
        programs.insert(0, facts["decoder"])
    return facts | {"programs that it runs": "; ".join(programs) or "none", "ready": ready}


def _file(path: str) -> str:
    found = [f"{path}{end}" for end in ("", ".gz", *BINARY_ENDINGS)]
    found = [each for each in found if os.path.exists(each)]
    if not found:
        return f"{_short(path)} (missing)"
    files = [Path(found[0]), *Path(found[0]).rglob("*")]
    size = sum(each.stat().st_size for each in files if each.is_file())
    kind = f"{Config.of_model(path).kind}, " if os.path.exists(f"{path}/config.toml") else ""
    shown = f"{size / 1e6:,.1f} MB" if size > 1e5 else f"{size / 1e3:,.1f} kB"
    return f"{_short(found[0])} ({kind}{shown})"


def _short(path: str) -> str:
    """Return a path as it is written with fewer characters."""
    return min(os.path.abspath(path), os.path.relpath(path), key=len)


def _weights(system: System, name: str, *, is_searched: bool = True) -> Iterator[str]:
    """Yield the weights of a feature: of the search, and of the lists if they have features."""
    search, lists = (part.get(name, ()) for part in system.weights)
    if is_searched and search:
        yield f"weights {_numbers(search)}"
    if system.lists and lists:
        yield f"{'in the lists' if is_searched else 'weight'} {_numbers(lists)}"


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _options(column: Column) -> list[str]:
    options = [(key, value) for key, value in column.changed().items() if key != column.kind()]
    return [_settings(dict(options))] if options else []


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(name if value is True else f"{name} {value}" for name, value in values.items())


def _check(system: System) -> tuple[str, Sequence[str], System]:
    """Return "yes" or the first fault, the names of the lists' features, and the system."""
    # Its weights then have the names that the features have.
    names: Sequence[str] = ()
    try:
        configuration = None
        if system.decoder is None:
            configuration = read_configuration(system)
        elif system.moses_ini is not None:
            for path in named_files(system.read_ini()):
                if _file(str(path)).endswith("(missing)"):
                    raise DataError(str(path), None, f"{system.moses_ini} names it: cannot open")
        scoring = load_list_features(system, Compute(workers=1, device="cpu"))
        names = () if scoring is None else scoring.names
        features = DecoderFeatures.of(system, configuration)
        weights = features.check_weights(system, names)
    except PhrasescoreError as error:
        return f"no: {error}", names, system
    return "yes", names, dataclasses.replace(system, weights=weights)
