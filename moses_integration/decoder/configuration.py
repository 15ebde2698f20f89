"""What a moses.ini says to a decoder: features, their weights, and how to search."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from moses_integration.decoder.language_model import read_arpa_order
from moses_integration.decoder.search_limits import SearchLimits
from moses_integration.ini_text import IniFeature, IniLine
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ConfigError, DataError, shown_path
from phrasescore.io.text import open_input, shorten

__all__ = ["DecoderConfiguration", "FeatureSlot", "SearchLimits"]

PHRASE_TABLE, REORDERING, LANGUAGE_MODEL = "PhraseDictionaryMemory", "LexicalReordering", "KENLM"
DISTORTION, UNKNOWN_WORDS = "Distortion", "UnknownWordPenalty"
WORDS, PHRASES = "WordPenalty", "PhrasePenalty"
# Those whose value needs more than the phrase pair stand first in Moses' n-best lists
# (ScoreComponentCollection::OutputAllFeatureScores); in each group the order is the file's.
STATEFUL = (REORDERING, DISTORTION, LANGUAGE_MODEL)
STATELESS = (PHRASE_TABLE, WORDS, PHRASES, UNKNOWN_WORDS)
_NEEDED = (PHRASE_TABLE, LANGUAGE_MODEL, UNKNOWN_WORDS)
NUM_REORDERING_SCORES = 6

# Arguments that every feature may have, and that change nothing here.
_ANY = {"name", "num-features", "tuneable", "tuneable-components", "verbosity", "filterable"}
_ARGUMENTS = {
    PHRASE_TABLE: {"path", "table-limit", "input-factor", "output-factor", "cache-size"},
    REORDERING: {"path", "type", "input-factor", "output-factor", "default-scores"},
    LANGUAGE_MODEL: {"path", "factor", "order", "lazyken", "load"},
    PHRASES: {"per-phrase-table"},
}
_FACTORS = ("factor", "input-factor", "output-factor")
# What else is a feature of Moses, and what to give instead.
_BINARY = {
    "PhraseDictionaryCompact": "processPhraseTableMin",
    "PhraseDictionaryBinary": "processPhraseTable",
    "PhraseDictionaryOnDisk": "CreateOnDiskPt",
    "ProbingPT": "CreateProbingPT",
}
_OTHER_MODELS = ("SRILM", "IRSTLM", "RANDLM", "DALM", "ReloadingLM")
_BINARY_STARTS = (b"mmap lm http://kheafield.com/code", b"blmt", b"Qblmt")
# Words of type= in any order; "wbe" and "phrase" are one to a decoder (LRModel.cpp).
_REORDERING_TYPE = {"msd", "bidirectional", "fe"}
_REORDERING_NOISE = {"wbe", "phrase", "allff"}


class FeatureSlot(NamedTuple):
    """A feature of the model and where its values stand."""

    # As in n-best lists, without "=".
    name: str
    # The class, as the line begins.
    kind: str
    weights: tuple[float, ...]
    arguments: Mapping[str, str]
    # 1-based, in moses.ini.
    line: int


@dataclass(frozen=True)
class DecoderConfiguration:
    """A moses.ini that this search can follow."""

    # As the user gave it.
    path: str
    search: SearchLimits
    # In the order in which Moses prints their values; UnknownWordPenalty, which it leaves out
    # there, has its place among the others.
    slots: tuple[FeatureSlot, ...]
    _content: bytes = field(repr=False)
    _ignored: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str, ignore: Collection[str] = ()) -> Self:
        """Read a moses.ini, and have a look at the files it names.

        :param path: relative paths in it begin at the working folder, as with Moses.
        :param ignore: names of features that are left out, whatever their weights.
        :raises DataError: if the file cannot be read.
        :raises ConfigError: with file and line, for a feature or setting that this search does not
            have, a missing or binary file, a wrong number of weights, a language model of another
            order; for a name in ``ignore`` that no feature has.
        """
        with open_input(path) as stream:
            return cls._parse(path, stream.read(), tuple(ignore))

    @classmethod
    def _parse(cls, path: str, content: bytes, ignore: tuple[str, ...]) -> Self:
        ini = MosesIni(path, content)
        weight_lines = _weight_lines(ini)
        _check_ignored(ini, ignore)
        slots = []
        for feature in ini.features:
            if feature.name in ignore:
                continue
            weights = _weights(ini, feature, weight_lines.get(feature.name))
            if feature.kind in STATEFUL + STATELESS:
                arguments = _arguments(ini, feature)
                _check_number(ini, feature, arguments, weights, weight_lines.get(feature.name))
                line = feature.line.place + 1
                slots.append(FeatureSlot(feature.name, feature.kind, weights, arguments, line))
            elif not weights or any(weights):
                raise _unknown(ini, feature)
        _check_kinds(ini, slots)
        slots.sort(key=lambda slot: slot.kind not in STATEFUL)
        table = next(slot for slot in slots if slot.kind == PHRASE_TABLE)
        limit = int(table.arguments.get("table-limit", SearchLimits.table_limit))
        search = SearchLimits.from_ini(ini, limit)
        return cls(path, search, tuple(slots), content, ignore)

    def with_weights(self, weights: Mapping[str, tuple[float, ...]]) -> Self:
        """Return the same with other weights, of some features or all.

        :param weights: as `moses_integration.weights.load_weights` returns them.
        :raises ConfigError: if there is no feature of a name, or another number of weights.
        """
        ini = MosesIni(self.path, self._content)
        for slot in self.slots:
            given = weights.get(slot.name, slot.weights)
            if len(given) != len(slot.weights):
                problem = f"expected {len(slot.weights)} weights, was given {len(given)}"
                where = f"{shown_path(self.path)}:{slot.line}"
                raise ConfigError(where, f"[feature] {slot.name}", problem)
        ini.set_weights(weights)
        # Not those that set_weights found no line for: a name without a feature is wrong, too.
        unknown = sorted(set(weights) - {feature.name for feature in ini.features})
        if unknown:
            known = ", ".join(slot.name for slot in self.slots)
            problem = f"expected weights of {known}; found some of {', '.join(unknown)}"
            raise ConfigError(shown_path(self.path), "[weight]", problem)
        parsed = self._parse(self.path, ini.to_bytes(), self._ignored)
        return replace(parsed, search=self.search)

    def find(self, kind: str) -> FeatureSlot | None:
        """Return the feature of a class, None if there is none; there is never more than one."""
        return next((slot for slot in self.slots if slot.kind == kind), None)


def _check_ignored(ini: MosesIni, ignore: tuple[str, ...]) -> None:
    names = [feature.name for feature in ini.features]
    for name in ignore:
        if name not in names:
            problem = f"there is no {shorten(name)} to ignore; there are {', '.join(names)}"
            raise ConfigError(shown_path(ini.path), "[feature]", problem)


def _weight_lines(ini: MosesIni) -> dict[str, IniLine]:
    """Return the line with the weights of each name: the last one."""
    return {
        line.words[0].group().removesuffix("="): line
        for line in ini.content_lines()
        if line.section == "weight"
    }


def _weights(ini: MosesIni, feature: IniFeature, line: IniLine | None) -> tuple[float, ...]:
    """Return the weights of a feature; none if there is no line.

    UnknownWordPenalty may do without: it is not tuned, and 1 as in Moses.
    """
    if line is None:
        return (1.0,) if feature.kind == UNKNOWN_WORDS else ()
    try:
        return tuple(float(word.group()) for word in line.words[1:])
    except ValueError:
        found = shorten(" ".join(word.group() for word in line.words[1:]))
        problem = f"expected numbers as weights, found {found}"
        raise ini.error(line, feature.name, problem) from None


def _arguments(ini: MosesIni, feature: IniFeature) -> dict[str, str]:
    """Return the arguments of a feature that this search has.

    :raises ConfigError: if there is one that it cannot follow.
    """
    arguments: dict[str, str] = {}
    for key, value in feature.arguments:
        problem = None
        if value is None or key in arguments:
            problem = f"expected key=value, each key once, found {shorten(key)}"
        elif key in _FACTORS and value != "0":
            problem = f"expected {key}=0, found {shorten(value)}"
        elif key == "per-phrase-table" and value.lower() not in ("false", "no", "n", "0"):
            problem = "this search counts phrases of one table"
        elif key in ("table-limit", "order") and not (value.isascii() and value.isdigit()):
            problem = f"expected a number in {key}=, found {shorten(value)}"
        elif key not in _ANY | _ARGUMENTS.get(feature.kind, set()):
            problem = f"this search does not know {shorten(f'{key}={value}')}"
        if problem is not None:
            raise ini.error(feature.line, feature.name, problem)
        arguments[key] = value or ""
    if feature.kind == REORDERING:
        _check_reordering_type(ini, feature, arguments)
    if "path" in _ARGUMENTS.get(feature.kind, set()):
        arguments["path"] = _check_file(ini, feature, arguments.get("path", ""))
    if feature.kind == LANGUAGE_MODEL:
        _check_order(ini, feature, arguments)
    return arguments


def _check_reordering_type(ini: MosesIni, feature: IniFeature, arguments: dict[str, str]) -> None:
    found = set(arguments.get("type", "").split("-"))
    if found - _REORDERING_NOISE != _REORDERING_TYPE:
        problem = "expected type=wbe-msd-bidirectional-fe-allff, the one that this search has"
        raise ini.error(
            feature.line, feature.name, f"{problem}, found {shorten(arguments.get('type', ''))}"
        )
    defaults = arguments.get("default-scores")
    if defaults is not None:
        try:
            good = all(float(value) > 0 for value in defaults.split(","))
        except ValueError:
            good = False
        if not good or len(defaults.split(",")) != NUM_REORDERING_SCORES:
            problem = f"expected {NUM_REORDERING_SCORES} probabilities in default-scores="
            raise ini.error(feature.line, feature.name, f"{problem}, found {shorten(defaults)}")


def _check_file(ini: MosesIni, feature: IniFeature, path: str) -> str:
    """Return the path of a text file; Moses finds one with .gz at its end by itself."""
    wanted = "an ARPA file" if feature.kind == LANGUAGE_MODEL else "a text table"
    if not path:
        raise ini.error(feature.line, feature.name, f"expected path= to {wanted}, found none")
    if not os.path.exists(path) and os.path.exists(f"{path}.gz"):
        return f"{path}.gz"
    if not os.path.isfile(path):
        for end in (".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx"):
            if os.path.exists(path + end):
                problem = f"expected {wanted}, {path}[.gz], found a binary one, {path}{end}"
                raise ini.error(feature.line, feature.name, f"{problem}; {_text_file(feature)}")
        problem = f"cannot open {path}: there is no such file (paths begin at the working folder)"
        raise ini.error(feature.line, feature.name, problem)
    try:
        with open_input(path) as stream:
            start = stream.read(64)
    except DataError as error:
        raise ini.error(feature.line, feature.name, str(error)) from error
    if start.startswith(_BINARY_STARTS) or b"\0" in start:
        problem = f"expected {wanted}, found a binary one: {path}"
        raise ini.error(feature.line, feature.name, f"{problem}; {_text_file(feature)}")
    return path


def _text_file(feature: IniFeature) -> str:
    """Return which file a binary one was made from."""
    if feature.kind == LANGUAGE_MODEL:
        return "name the .arpa or .arpa.gz that build_binary made it from"
    if feature.kind == REORDERING:
        return "name the reordering-table.*.gz that processLexicalTable(Min) made it from"
    return "name the phrase-table.gz that processPhraseTable(Min) made it from"


def _check_order(ini: MosesIni, feature: IniFeature, arguments: dict[str, str]) -> None:
    try:
        order = read_arpa_order(arguments["path"])
    except DataError as error:
        raise ini.error(feature.line, feature.name, str(error)) from error
    wanted = arguments.get("order")
    if wanted is not None and int(wanted) != order:
        problem = f"expected order={order}, as {arguments['path']} has, found order={wanted}"
        raise ini.error(feature.line, feature.name, problem)


def _check_number(
    ini: MosesIni,
    feature: IniFeature,
    arguments: dict[str, str],
    weights: tuple[float, ...],
    line: IniLine | None,
) -> None:
    """Refuse another number of weights than the feature has values."""
    default = str(NUM_REORDERING_SCORES if feature.kind == REORDERING else 1)
    text = arguments.get("num-features", default)
    is_number = text.isascii() and text.isdigit()
    if not is_number or (feature.kind != PHRASE_TABLE and text != default):
        problem = f"expected num-features={default}, found {shorten(text)}"
        raise ini.error(feature.line, feature.name, problem)
    if line is None and not weights:
        problem = f"expected a line '{feature.name}= ...' in [weight] with {text} weights"
        raise ini.error(feature.line, feature.name, f"{problem}, found none")
    if len(weights) != int(text):
        problem = f"expected {text} weights, found {len(weights)}"
        raise ini.error(line or feature.line, feature.name, problem)
    if not all(abs(weight) < 1e30 for weight in weights):
        raise ini.error(line or feature.line, feature.name, "expected finite weights")


def _unknown(ini: MosesIni, feature: IniFeature) -> ConfigError:
    problem = f"this search has no feature {feature.kind}"
    if feature.kind in _BINARY:
        cure = f"use {PHRASE_TABLE} with the text table that {_BINARY[feature.kind]} made it from"
    elif feature.kind in _OTHER_MODELS:
        cure = f"use {LANGUAGE_MODEL} with the model as an ARPA file"
    else:
        cure = f"set its weights to 0, ignore {feature.name}, or decode with Moses"
    return ini.error(feature.line, feature.name, f"{problem}; {cure}")


def _check_kinds(ini: MosesIni, slots: list[FeatureSlot]) -> None:
    """Refuse two features of a class, and a model without those that every search needs."""
    seen: set[str] = set()
    for slot in slots:
        if slot.kind in seen:
            line = next(found.line for found in ini.features if found.name == slot.name)
            problem = f"expected one {slot.kind}, which is what this search can follow"
            raise ini.error(line, slot.name, f"{problem}, found another")
        seen.add(slot.kind)
    old = next((line for line in ini.content_lines() if line.section == "ttable-file"), None)
    if not ini.features and old is not None:
        problem = "expected a section [feature]; this is an old format of Moses, which its"
        raise ini.error(old, "", f"{problem} convert-moses-ini-to-v2.perl changes")
    for kind in _NEEDED:
        if kind not in seen:
            problem = f"expected a feature {kind}, found none"
            raise ConfigError(shown_path(ini.path), "[feature]", problem)
