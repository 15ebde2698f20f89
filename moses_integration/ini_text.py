"""The text of a moses.ini: its lines, its features and the files they name; see `moses_ini`."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from phrasescore.errors import ConfigError, DataError, shown_path
from phrasescore.io.languages import language_code
from phrasescore.io.output import open_output
from phrasescore.io.text import open_input, shorten

_WORD = re.compile(r"[^ \t\r]+")
_FILE_ARGUMENTS = ("path", "source_vocab", "target_vocab")  # the last two belong to BilingualNPLM
_PATH = re.compile(r"(?<=[ \t]path=)[^ \t\r#]+")

# Sections in a moses.ini for Moses 1, besides weight sections such as [weight-l].
_OLD_SECTIONS = ("ttable-file", "lmodel-file", "distortion-file", "generation-file")
_WEIGHT_FILE = "weight-file"
_NEW_WEIGHT_SECTIONS = (_WEIGHT_FILE, "weight-add", "weight-overwrite")
_WEIGHT_SECTIONS = ("weight-add", "weight")
_SETTING = re.compile(r"[ \t]*#[ \t]*phrasescore:(.*)", re.DOTALL)
TRUE_VALUES = ("yes", "y", "true", "1")  # read as true (moses/Util.cpp, Scan<bool>)


class IniLine(NamedTuple):
    """A line of a section, without comments."""

    section: str
    row: int  # 0-based, in the file
    words: list[re.Match[str]]  # with their positions in the line


class IniFeature(NamedTuple):
    """A feature that a line in ``[feature]`` declares."""

    name: str
    kind: str
    # The words after the class, split at "="; the value is None if a word has no "=".
    arguments: list[tuple[str, str | None]]
    line: IniLine


@dataclass(frozen=True)
class TextSettings:
    """How a system's text is prepared.

    A moses.ini records each setting in a comment, which Moses ignores:
    ``# phrasescore: KEY = VALUE``, with the value in TOML.
    """

    characters: bool = False  # whether the tokens are characters; see `phrasescore.io.characters`
    tokenize: str = ""  # the languages of source and target, "fr en"; empty for none
    lowercase: bool = False
    truecase_source: str = ""  # paths of Moses' truecasing models; empty for none
    truecase_target: str = ""
    keeps_known_case: bool = False  # as truecase.perl; up to version 0.3, `build` did not

    def lines(self) -> list[str]:
        """Return the comments that record the settings; defaults need none."""
        return [
            f"# phrasescore: {key} = {to_toml(value)}"
            for key, value in asdict(self).items()
            if value
        ]

    def languages(self) -> list[str | None]:
        """Return the codes of the languages of source and target; None without a tokeniser."""
        return [language_code(each) for each in (self.tokenize or " ").split(" ")]

    def problem(self) -> str | None:
        """Return why the settings are invalid, or None."""
        languages = self.languages()
        if len(languages) != 2 or (self.tokenize and None in languages):
            wanted = "expected the languages of source and target in tokenize, such as 'fr en'"
            return f"{wanted}; found {shorten(self.tokenize)}"
        if self.lowercase and (self.truecase_source or self.truecase_target):
            return "expected either lowercase or truecase_source and truecase_target, found both"
        return None


class IniText:
    """The text of a moses.ini as lines and features; bytes that are not edited are preserved."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        before, null, _ = content.partition(b"\0")
        if null:
            raise DataError(path, before.count(b"\n") + 1, "expected text, found a null byte")
        # surrogateescape restores bytes that are not UTF-8 when the text is written.
        self.lines = content.decode(errors="surrogateescape").split("\n")
        for line in self.content_lines():
            is_weight = line.section.startswith("weight-")
            if line.section in _OLD_SECTIONS or (
                is_weight and line.section not in _NEW_WEIGHT_SECTIONS
            ):
                problem = "expected [feature] and [weight], found an old format of moses.ini"
                raise self.error(
                    line, "", f"{problem}; convert it with convert-moses-ini-to-v2.perl"
                )
        self.features = self.read_features()

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a file; ``-`` is stdin."""
        with open_input(path) as stream:
            return cls(path, stream.read())

    def to_bytes(self) -> bytes:
        """Return the edited text as bytes."""
        return "\n".join(self.lines).encode(errors="surrogateescape")

    def write(self, path: str) -> None:
        """Write the text to a file atomically; ``-`` is stdout."""
        with open_output(path) as output:
            output.write(self.to_bytes())

    def content_lines(self) -> list[IniLine]:
        """Return all lines except blank lines, comments and section headers."""
        lines = []
        section = ""
        for index, text in enumerate(self.lines):
            words = list(_WORD.finditer(text.partition("#")[0]))
            if words and words[0].group().startswith("["):
                head = text[words[0].start() + 1 :].partition("]")
                section = head[0] if head[1] else section
            elif words:
                lines.append(IniLine(section, index, words))
        return lines

    def first_lines(self) -> dict[str, IniLine]:
        """Return the first line of each section, which is the one that Moses uses."""
        lines: dict[str, IniLine] = {}
        for line in self.content_lines():
            lines.setdefault(line.section, line)
        return lines

    def read_features(self) -> list[IniFeature]:
        """Return the features; features without ``name=`` get the names that Moses assigns."""
        features = []
        nameless: dict[str, int] = {}
        for line in self.content_lines():
            if line.section != "feature":
                continue
            kind = line.words[0].group()
            arguments = [split_argument(word.group()) for word in line.words[1:]]
            name = dict(arguments).get("name")
            if not name:
                name = f"{kind}{nameless.get(kind, 0)}"
                nameless[kind] = nameless.get(kind, 0) + 1
            features.append(IniFeature(name, kind, arguments, line))
        return features

    def text_settings(self) -> TextSettings:
        """Return the settings that the comments record; all others have their defaults."""
        types = {field.name: type(field.default) for field in fields(TextSettings)}
        settings, known = TextSettings(), set()
        for row, text in enumerate(self.lines):
            if (match := _SETTING.fullmatch(text)) is None:
                continue
            where = f"{shown_path(self.path)}:{row + 1}"
            setting = match[1].strip()
            problem: str | None = None
            try:
                ((key, value),) = tomllib.loads(setting).items()
            except (ValueError, RecursionError):  # TOMLDecodeError is a ValueError
                wanted = "expected KEY = VALUE as in TOML"
                raise ConfigError(
                    where, "# phrasescore", f"{wanted}, found {shorten(setting)}"
                ) from None
            if key not in types:
                problem = f"unknown key {shorten(key)}; the keys are {', '.join(types)}"
            elif key in known:
                problem = f"expected one line for {key}, found another"
            elif type(value) is not types[key]:
                wanted = "true or false" if types[key] is bool else "a string in double quotes"
                problem = f"expected {wanted} for {key}, found {shorten(setting)}"
            if problem is None:
                known.add(key)
                settings = replace(settings, **{key: value})
                problem = settings.problem()
            if problem is not None:
                raise ConfigError(where, "# phrasescore", problem)
        return settings

    def set_text_settings(self, settings: TextSettings) -> None:
        """Replace the comments that record settings; the new ones are the first lines."""
        others = [text for text in self.lines if _SETTING.fullmatch(text) is None]
        self.lines = [*settings.lines(), *others]
        self.features = self.read_features()

    def weight_file(self) -> tuple[IniLine, str] | None:
        """Return the line that names the file of sparse weights, and its path; None without one."""
        line = self.first_lines().get(_WEIGHT_FILE)
        if line is None:
            return None
        return line, self.lines[line.row][line.words[0].start() : line.words[-1].end()]

    def set_weight_file(self, path: str) -> None:
        """Set the file from which Moses reads sparse weights."""
        named = self.weight_file()
        if "#" in path or "\n" in path:
            raise ConfigError(shown_path(self.path), f"[{_WEIGHT_FILE}]", path_problem(path) or "")
        if named is None:
            end = len(self.lines) if self.lines[-1] else -1
            self.lines[end:end] = ["", f"[{_WEIGHT_FILE}]", path]
        else:
            self.lines[named[0].row] = path

    def add_feature(self, kind: str, prefix: str, arguments: Mapping[str, str]) -> str:
        """Declare a feature with one score and weight 0 after the others; return its name.

        The name consists of the prefix and the first free number.
        """
        ends = {}
        names = {feature.name for feature in self.features}
        for line in self.content_lines():
            ends[line.section] = line.row + 1
            if line.section == "weight":
                names.add(line.words[0].group().removesuffix("="))
        name = next(new for number in count() if (new := f"{prefix}{number}") not in names)
        words = [kind, f"name={name}", *(f"{key}={value}" for key, value in arguments.items())]
        lines = {"feature": " ".join(words), "weight": f"{name}= 0"}
        for section in lines:
            if section not in ends:
                problem = f"expected a section for {name}, found none"
                raise ConfigError(shown_path(self.path), f"[{section}]", problem)
        for fault in filter(None, map(path_problem, arguments.values())):
            raise ConfigError(shown_path(self.path), f"[feature] {name}", fault)
        for section in sorted(lines, key=lambda section: -ends[section]):
            self.lines.insert(ends[section], lines[section])
        self.features = self.read_features()
        return name

    def latest_weight_lines(self) -> dict[str, IniLine]:
        """Return the last weight line for each name, which is the one that Moses uses."""
        return {
            name.removesuffix("="): line
            for line in self._weight_lines()
            if (name := line.words[0].group()).endswith("=")
        }

    def _weight_lines(self) -> list[IniLine]:
        """Return all weight lines, [weight-add] first (Parameter.cpp, CreateWeightsMap)."""
        lines = [line for line in self.content_lines() if line.section in _WEIGHT_SECTIONS]
        return sorted(lines, key=lambda line: _WEIGHT_SECTIONS.index(line.section))

    def shown_components(self, name: str, num_weights: int) -> tuple[bool, ...]:
        """Return whether n-best lists show each component of a feature or a sparse weight."""
        feature = self._feature(name)
        if feature is None:
            return (True,) * num_weights
        tuneable = dict(feature.arguments).get("tuneable") or "true"
        if feature.kind == "UnknownWordPenalty" or tuneable.lower() not in TRUE_VALUES:
            return (False,) * num_weights
        components = self._tuneable_components(feature, num_weights)
        if components is None:
            return (True,) * num_weights
        return tuple(component.lower() in TRUE_VALUES for component in components.split(","))

    def _feature(self, name: str) -> IniFeature | None:
        return next((feature for feature in self.features if feature.name == name), None)

    def _tuneable_components(self, feature: IniFeature, num_features: int) -> str | None:
        value = dict(feature.arguments).get("tuneable-components")
        if value is None or len(value.split(",")) == num_features:
            return value
        problem = f"expected {num_features} values in tuneable-components=, found {shorten(value)}"
        raise self.error(feature.line, feature.name, problem)

    def _edit(self, line: IniLine, edits: list[tuple[int, int, str]]) -> None:
        """Replace parts of a line, each given as (start, end, new text)."""
        text = self.lines[line.row]
        for start, stop, value in sorted(edits, key=lambda edit: edit[0], reverse=True):
            text = text[:start] + value + text[stop:]
        self.lines[line.row] = text

    def error(self, line: IniLine, name: str, problem: str) -> ConfigError:
        """Return an error for a line; ``name`` is the feature or key, empty for none."""
        where = f"{shown_path(self.path)}:{line.row + 1}"
        return ConfigError(where, f"[{line.section}] {name}", problem)


def to_toml(value: object) -> str:
    """Return a string, number, truth value or list of them as TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def split_argument(word: str) -> tuple[str, str | None]:
    """Split key=value at the first ``=`` (moses/Util.h, TokenizeFirstOnly)."""
    key, separator, value = word.partition("=")
    return key, value if separator else None


def path_problem(path: str) -> str | None:
    """Return a message if a moses.ini cannot hold a path, else None."""
    if path and not re.search(r"[ \t\r\n#]", path):
        return None
    return (
        f"expected a path without blanks and '#', found {shorten(path)}; moses.ini cannot hold it"
    )


def with_paths_from(ini: IniText, folder: Path) -> None:
    """Resolve the relative paths of features against a folder instead of Moses' working folder.

    The new paths are absolute. If an absolute path has a blank or a ``#``, which a moses.ini cannot
    hold, it is made relative to the working folder. If that path has one too, a ConfigError is
    raised.
    """
    for feature in ini.features:
        old = dict(feature.arguments).get("path")
        if not old or os.path.isabs(old):
            continue
        path = _path_from(folder, old)
        if problem := path_problem(path):
            raise ini.error(feature.line, feature.name, problem)
        index = feature.line.row
        ini.lines[index] = path.join(_PATH.split(ini.lines[index], maxsplit=1))
    ini.features = ini.read_features()
    if named := ini.weight_file():
        ini.set_weight_file(_path_from(folder, named[1]))
    settings = ini.text_settings()
    paths = {
        key: os.path.abspath(folder / path)
        for key, path in asdict(settings).items()
        if key.startswith("truecase_") and path
    }
    if paths:
        ini.set_text_settings(replace(settings, **paths))


def _path_from(folder: Path, path: str) -> str:
    absolute = os.path.abspath(folder / path)
    return os.path.relpath(absolute) if re.search(r"[\s#]", absolute) else absolute


def files_of(ini_path: str) -> list[Path]:
    """Return the files that Moses may read with a moses.ini, each with and without ``.gz``."""
    named = named_files(IniText.read(ini_path))
    return [*named, *(Path(f"{path}.gz") for path in named)]


def named_files(ini: IniText) -> tuple[Path, ...]:
    """Return the distinct files that Moses reads, in feature order; the weight file is last."""
    paths = [
        dict(feature.arguments).get(key) for feature in ini.features for key in _FILE_ARGUMENTS
    ]
    paths += [path for _, path in filter(None, [ini.weight_file()])]
    return tuple(dict.fromkeys(Path(path) for path in paths if path))
