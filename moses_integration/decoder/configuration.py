"""Read features, weights and search limits for the decoder from a moses.ini."""

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from moses_integration.decoder import ALGORITHMS, LIMITS, SearchLimits, limit_values
from moses_integration.ini_text import BINARY_ENDINGS, TRUE_VALUES, IniFeature, IniLine
from moses_integration.moses_ini import MosesIni, is_phrase_table
from moses_integration.weight_lines import LARGEST_WEIGHT, format_weight
from phrasescore.errors import ConfigError, DataError, shown_path
from phrasescore.io.text import open_input, shorten
from phrasescore.language_models.arpa import NgramModel, read_arpa, read_arpa_counts
from phrasescore.records import Weights

_logger = logging.getLogger(__name__)

PHRASE_TABLE, REORDERING, LANGUAGE_MODEL = "PhraseDictionaryMemory", "LexicalReordering", "KENLM"
DISTORTION, UNKNOWN_WORDS = "Distortion", "UnknownWordPenalty"
WORDS, PHRASES = "WordPenalty", "PhrasePenalty"
# In Moses' n-best lists, features whose value needs more than the phrase pair come first
# (ScoreComponentCollection::OutputAllFeatureScores); each group is in file order.
STATEFUL = (REORDERING, DISTORTION, LANGUAGE_MODEL)
STATELESS = (PHRASE_TABLE, WORDS, PHRASES, UNKNOWN_WORDS)
NUM_REORDERING_SCORES = 6

# Arguments that every feature may have; they do not affect this search.
_ANY = {"name", "num-features", "tuneable", "tuneable-components", "verbosity", "filterable"}
_ARGUMENTS = {
    PHRASE_TABLE: {"path", "table-limit", "input-factor", "output-factor", "cache-size"},
    REORDERING: {"path", "type", "input-factor", "output-factor", "default-scores"},
    LANGUAGE_MODEL: {"path", "factor", "order", "lazyken", "load"},
    PHRASES: {"per-phrase-table"},
}
# The words in type=, in any order; a decoder treats "wbe" and "phrase" alike (LRModel.cpp).
_REORDERING_TYPE = {"msd", "bidirectional", "fe"}
_REORDERING_NOISE = {"wbe", "phrase", "allff"}
_BY_MOSES = "make Moses the decoder in system.toml"
_COUNT = re.compile("[0-9]{1,9}")
_FALSE = ("no", "n", "false", "0")
# Unsupported sections that change Moses' translations (names as in moses/Parameter.cpp). Values
# that switch them off are accepted.
_UNSUPPORTED = {
    "alternate-weight-setting", "always-create-direct-transopt", "consensus-decoding",
    "cube-pruning-diversity",
    "continue-partial-translation", "decoding-graph-backoff", "early-discarding-threshold",
    "early-distortion-cost", "feature-add", "feature-overwrite", "feature-name-overwrite",
    "inputtype", "lminimum-bayes-risk", "mark-unknown", "minimum-bayes-risk",
    "monotone-at-punctuation", "phrase-drop-allowed", "placeholder-factor",
    "segment-time-out", "stack-diversity", "time-out", "weight-file",
}  # fmt: skip
_OFF = (*_FALSE, "-1", "0.0")
_FACTOR_SECTIONS = ("input-factors", "output-factors")
# Read by other functions, or without an effect on translations.
_ELSEWHERE = ("factor-delimiter", "feature", "mapping", "threads", "weight")


class _LineError(Exception):
    """An unsupported or invalid line; the caller adds the file and line number."""


class FeatureSlot(NamedTuple):
    """A feature of the log-linear model with its weights."""

    name: str  # in n-best lists, without "="
    kind: str  # the class
    weights: tuple[float, ...]
    arguments: Mapping[str, str]


@dataclass(frozen=True)
class DecoderConfiguration:
    """The contents of a moses.ini that this search supports."""

    path: str
    search: SearchLimits
    # In the order in which Moses prints values, plus UnknownWordPenalty, which it does not print.
    slots: tuple[FeatureSlot, ...]
    characters: bool  # whether the tokens are characters; see `TextSettings`
    _ini: MosesIni = field(repr=False, compare=False)

    @classmethod
    def read(cls, path: str, paths_from: Path | None = None) -> Self:
        """Read a moses.ini and check the files it names; an unsupported feature is an error."""
        ini = MosesIni.read(path, paths_from)
        weight_lines = ini.latest_weight_lines()
        read = (
            _read_slot(ini, feature, weight_lines.get(feature.name)) for feature in ini.features
        )
        slots = [slot for slot in read if slot is not None]
        _check_kinds(ini, slots)
        slots.sort(key=lambda slot: slot.kind not in STATEFUL)
        table = next(slot for slot in slots if slot.kind == PHRASE_TABLE)
        limit = int(table.arguments.get("table-limit", SearchLimits.table_limit))
        characters = ini.text_settings().characters
        return cls(path, _read_limits(ini, limit), tuple(slots), characters, ini)

    def with_weights(self, weights: Weights) -> Self:
        """Return a copy with new weights for some features, rounded as in a moses.ini."""
        slots = []
        features = {feature.name: feature for feature in self._ini.features}
        for slot in self.slots:
            values = weights.get(slot.name, slot.weights)
            if problem := _weights_problem(values, len(slot.weights)):
                raise self._ini.error(features[slot.name].line, slot.name, problem)
            if slot.name in weights:
                values = tuple(float(format_weight(weight)) for weight in values)
            slots.append(slot._replace(weights=values))
        names = [slot.name for slot in slots]
        for name in sorted(weights.keys() - {*names}):
            if name not in features:
                problem = f"expected weights for {', '.join(names)}; found weights for {name}"
                raise ConfigError(shown_path(self.path), "[weight]", problem)
            if any(weights[name]):
                raise self._ini.error(features[name].line, name, _describe_unknown(features[name]))
        return replace(self, slots=tuple(slots))

    def with_limits(self, **limits: Any) -> Self:
        """Return a copy with other values for some fields of `SearchLimits`."""
        return replace(self, search=replace(self.search, **limits))

    def find(self, kind: str) -> FeatureSlot | None:
        """Return the single feature of a class, or None if the model has none."""
        return next((slot for slot in self.slots if slot.kind == kind), None)

    def slot(self, kind: str) -> FeatureSlot:
        """Return the single feature of a class that every model must have."""
        return next(slot for slot in self.slots if slot.kind == kind)

    def language_models(self) -> list[FeatureSlot]:
        """Return the n-gram models, in the order of the moses.ini."""
        return [slot for slot in self.slots if slot.kind == LANGUAGE_MODEL]

    def language_weights(self) -> Any:
        """Return the weights of the n-gram models: float64 (models,)."""
        return np.array([slot.weights[0] for slot in self.language_models()])

    def weights(self, kind: str, count: int = 1) -> tuple[float, ...]:
        """Return the weights for a class's feature, or ``count`` zeros if the model has none."""
        slot = self.find(kind)
        return (0.0,) * count if slot is None else slot.weights

    def shown(self, slot: FeatureSlot) -> tuple[bool, ...]:
        """Return whether n-best lists show each value of a feature."""
        return self._ini.shown_components(slot.name, len(slot.weights))


def read_language_models(configuration: DecoderConfiguration) -> NgramModel:
    """Read the language models that a moses.ini names."""
    return read_arpa(*(slot.arguments["path"] for slot in configuration.language_models()))


def _read_slot(ini: MosesIni, feature: IniFeature, weights: IniLine | None) -> FeatureSlot | None:
    """Return a feature, or None if it is unsupported and all its weights are 0."""
    # Moses does not tune UnknownWordPenalty; its default weight is 1.
    values: tuple[float, ...] = (1.0,) if feature.kind == UNKNOWN_WORDS else ()
    if weights is not None:
        _, values = ini.weights_in(weights)
    if feature.kind not in STATEFUL + STATELESS:
        if values and not any(values):
            return None
        raise ini.error(feature.line, feature.name, _describe_unknown(feature))
    try:
        arguments = _read_arguments(ini, feature)
        default = str(NUM_REORDERING_SCORES if feature.kind == REORDERING else 1)
        count = arguments.get("num-features", default)
        if not _COUNT.fullmatch(count) or (feature.kind != PHRASE_TABLE and count != default):
            raise _LineError(f"expected num-features={default}, found {shorten(count)}")
        if weights is None and not values:
            problem = f"expected a line '{feature.name}= ...' in [weight] with {int(count)} weights"
            raise _LineError(f"{problem}, found none")
    except (_LineError, DataError) as error:
        raise ini.error(feature.line, feature.name, str(error)) from error
    if fault := _weights_problem(values, int(count)):
        raise ini.error(weights or feature.line, feature.name, fault)
    return FeatureSlot(feature.name, feature.kind, values, arguments)


def _weights_problem(values: tuple[float, ...], count: int) -> str | None:
    if len(values) != count:
        return f"expected {count} weights, found {len(values)}"
    is_valid = all(abs(weight) <= LARGEST_WEIGHT for weight in values)
    return None if is_valid else f"expected weights of at most {LARGEST_WEIGHT:g}"


def _read_arguments(ini: MosesIni, feature: IniFeature) -> dict[str, str]:
    arguments = dict(feature.arguments)
    known = _ARGUMENTS.get(feature.kind, set())
    for key, value in arguments.items():
        problem = None
        if key.endswith("factor") and key in known and value != "0":
            problem = f"expected {key}=0, found {shorten(value)}"
        elif key == "per-phrase-table" and value.lower() not in _FALSE:
            problem = "this search supports only one phrase table"
        elif key in ("table-limit", "order") and not _COUNT.fullmatch(value):
            problem = f"expected a number in {key}=, found {shorten(value)}"
        elif key not in _ANY | known:
            problem = f"this search does not support {shorten(f'{key}={value}')}"
        if problem is not None:
            raise _LineError(problem)
    if feature.kind == REORDERING:
        _check_reordering(arguments)
    if "path" in known:
        arguments["path"] = _check_file(ini, feature, arguments.get("path", ""))
    if feature.kind == LANGUAGE_MODEL:
        order = str(len(read_arpa_counts(arguments["path"])))
        if int(wanted := arguments.get("order", order)) != int(order):
            where = f"order={order}, as {arguments['path']} has"
            raise _LineError(f"expected {where}, found order={wanted}")
    return arguments


def _check_reordering(arguments: dict[str, str]) -> None:
    kind = arguments.get("type", "")
    if set(kind.split("-")) - _REORDERING_NOISE != _REORDERING_TYPE:
        problem = "expected the only supported type, type=wbe-msd-bidirectional-fe-allff"
        raise _LineError(f"{problem}, found {shorten(kind)}")
    defaults = arguments.setdefault("default-scores", "1,1,1,1,1,1")
    is_valid = False
    with contextlib.suppress(ValueError):
        is_valid = all(float(value) > 0 for value in defaults.split(","))
    if not is_valid or len(defaults.split(",")) != NUM_REORDERING_SCORES:
        problem = f"expected {NUM_REORDERING_SCORES} probabilities in default-scores="
        raise _LineError(f"{problem}, found {shorten(defaults)}")


def _check_file(ini: MosesIni, feature: IniFeature, written: str) -> str:
    """Return the path of a text file; as Moses does, add .gz if only that file exists."""
    wanted = "an ARPA file" if feature.kind == LANGUAGE_MODEL else "a text table"
    path = ini.resolve(written)
    if not written:
        raise _LineError(f"expected path= with the path of {wanted}, found none")
    if not os.path.exists(path) and os.path.exists(f"{path}.gz"):
        return f"{path}.gz"
    binary = [path + end for end in BINARY_ENDINGS if os.path.exists(path + end)]
    if os.path.isfile(path):
        with open_input(path) as stream:
            binary = [path] if b"\0" in stream.read(64) else []
    elif not binary:
        raise _LineError(f"cannot open {path}: {ini.no_file(written)}")
    if binary:
        problem = f"expected {wanted}, found a binary one: {binary[0]}"
        raise _LineError(f"{problem}; name the text file that it was made from")
    return path


def _describe_unknown(feature: IniFeature) -> str:
    cure = f"set its weights to 0, or {_BY_MOSES}"
    if is_phrase_table(feature.kind):
        cure = f"use {PHRASE_TABLE} with the text table that it was made from"
    return f"this search does not support {feature.kind}; {cure}"


def _check_kinds(ini: MosesIni, slots: list[FeatureSlot]) -> None:
    seen: set[str] = set()
    names: set[str] = set()
    for feature in ini.features:
        if feature.name in names:
            raise ini.error(feature.line, feature.name, "expected one feature of this name")
        names.add(feature.name)
    for slot in slots:
        if slot.kind in seen and slot.kind != LANGUAGE_MODEL:
            line = next(feature.line for feature in ini.features if feature.name == slot.name)
            problem = f"expected one {slot.kind}, because this search supports no more"
            raise ini.error(line, slot.name, f"{problem}, found a second")
        seen.add(slot.kind)
    for kind in (PHRASE_TABLE, LANGUAGE_MODEL, UNKNOWN_WORDS):
        if kind not in seen:
            problem = f"expected the feature {kind}, found none"
            raise ConfigError(shown_path(ini.path), "[feature]", problem)


def _read_limits(ini: MosesIni, table_limit: int) -> SearchLimits:
    lines = ini.first_lines()
    _check_supported(ini, lines)
    limits: dict[str, Any] = {"table_limit": table_limit}
    for section, name in LIMITS.items():
        if section not in lines:
            continue
        text = lines[section].words[0].group()
        value: object = None
        wanted = limit_values(name, None)
        if name == "algorithm":
            wanted = "0 (stacks) or 1 (cube pruning), which this search supports"
            value = dict(zip("01", ALGORITHMS, strict=True)).get(text)
        elif name == "drop_unknown":
            value = text.lower() in TRUE_VALUES if text.lower() in TRUE_VALUES + _FALSE else None
        else:
            with contextlib.suppress(ValueError):
                value = type(getattr(SearchLimits, name))(text)
        if limit_values(name, value) is not None:
            raise ini.error(lines[section], "", f"expected {wanted}, found {shorten(text)}")
        limits[name] = value
    return SearchLimits(**limits)


def _check_supported(ini: MosesIni, lines: dict[str, IniLine]) -> None:
    for section, line in lines.items():
        value = line.words[0].group()
        if section in _UNSUPPORTED and value.lower() not in _OFF:
            problem = f"this search does not support this setting, found {shorten(value)}"
            raise ini.error(line, "", f"{problem}; remove the line, or {_BY_MOSES}")
        if section in _FACTOR_SECTIONS and value != "0":
            raise ini.error(line, "", f"expected factor 0, found {shorten(value)}")
        if section == "factor-delimiter" and value != "|":
            raise ini.error(line, "", f"expected the delimiter '|', found {shorten(value)}")
    known = {*LIMITS, *_FACTOR_SECTIONS, *_ELSEWHERE, *_UNSUPPORTED}
    if others := sorted(lines.keys() - known):
        shown = ", ".join(f"[{section}]" for section in others)
        _logger.warning("%s: this search ignores %s", shown_path(ini.path), shown)
    _check_mapping(ini)


def _check_mapping(ini: MosesIni) -> None:
    """Reject any mapping except a single translation step, such as "T 0", with the phrase table."""
    lines = [line for line in ini.content_lines() if line.section == "mapping"]
    found = "; ".join(" ".join(word.group() for word in line.words) for line in lines)
    names = [feature.name for feature in ini.features if is_phrase_table(feature.kind)]
    valid = [
        "",
        *(step for number in range(len(names)) for step in (f"0 T {number}", f"T {number}")),
    ]
    if found not in (*valid, *(f"0 {name}" for name in names)):
        problem = f"expected one step, '0 T 0' or '0 {names[0]}', found {shorten(found)}"
        raise ini.error(lines[-1], "", f"{problem}; change it, or {_BY_MOSES}")
