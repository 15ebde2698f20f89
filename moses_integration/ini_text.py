"""The text of a moses.ini: its lines, its features and the files they name; see `moses_ini`."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from moses_integration.text_settings import SETTING, TextSettings, read_settings
from phrasescore.errors import ConfigError, DataError, shown_path
from phrasescore.io.output import open_output
from phrasescore.io.text import open_input, shorten

_logger = logging.getLogger(__name__)

_WORD = re.compile(r"[^ \t\r]+")
# The endings of the binary tables that Moses reads for a path.
BINARY_ENDINGS = (".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx")
_FILE_ARGUMENTS = ("path", "source_vocab", "target_vocab")  # the last two belong to BilingualNPLM

_WEIGHT_FILE = "weight-file"
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
    arguments: dict[str, str]  # the words after the class, key=value
    line: IniLine

    @property
    def path(self) -> str | None:
        """The value of path=, as written."""
        return self.arguments.get("path")


class IniText:
    """The text of a moses.ini as lines and features; bytes that are not edited are preserved.

    :param folder: where the relative paths in the text start; None for the file's folder. If that
        has none of the files, they start in the working folder, as in Moses.
    """

    def __init__(
        self, path: str, content: bytes, folder: str | os.PathLike[str] | None = None
    ) -> None:
        self.path = path
        before, null, _ = content.partition(b"\0")
        if null:
            raise DataError(path, before.count(b"\n") + 1, "expected text, found a null byte")
        # surrogateescape restores bytes that are not UTF-8 when the text is written.
        self.lines = content.decode(errors="surrogateescape").split("\n")
        for line in self.content_lines():
            if line.section.startswith("weight-") and line.section != _WEIGHT_FILE:
                problem = "expected weights only in [weight]; move them there, or convert the file"
                cure = "of an old Moses with convert-moses-ini-to-v2.perl"
                raise self.error(line, "", f"{problem} {cure}")
        self.features = self.read_features()
        self.folder = self._find_folder() if folder is None else os.fspath(folder)

    @classmethod
    def read(cls, path: str, folder: str | os.PathLike[str] | None = None) -> Self:
        """Read a file; ``-`` is stdin."""
        with open_input(path) as stream:
            return cls(path, stream.read(), folder)

    def __reduce__(self) -> tuple[Any, ...]:
        # Matches cannot be sent to a process on another machine, which reads the text again.
        return type(self), (self.path, self.to_bytes(), self.folder)

    def _find_folder(self) -> str:
        own = os.path.dirname(self.path)
        files = [path for path in self.named_paths() if not os.path.isabs(path)]
        if not files or any(_exists(os.path.join(own, path)) for path in files):
            return own
        if own:
            _log_working_folder(self.path)
        return ""

    def named_paths(self) -> list[str]:
        """Return the paths of all files as they are written, in the order of `named_files`."""
        paths = [each.arguments.get(key) for each in self.features for key in _FILE_ARGUMENTS]
        paths += [path for _, path in filter(None, [self.weight_file()])]
        return [path for path in dict.fromkeys(paths) if path]

    def resolve(self, path: str) -> str:
        """Return a path in the text as a path from the working folder."""
        return os.path.join(self.folder, path)

    def no_file(self, path: str) -> str:
        """Return text for a message: there is no file with this path."""
        where = "" if os.path.isabs(path) else f" in {self.folder or 'the working folder'}"
        return f"there is no such file{where}"

    def rename_files(self, rename: Callable[[str], str]) -> None:
        """Replace the paths of files, which ``rename`` gets as they are written.

        :raises ConfigError: if a moses.ini cannot hold a new path.
        """
        for feature in self.features:
            named = [(key, feature.arguments.get(key)) for key in _FILE_ARGUMENTS]
            paths = {key: rename(path) for key, path in named if path}
            for problem in filter(None, map(path_problem, paths.values())):
                raise self.error(feature.line, feature.name, problem)
            self._set_arguments(feature, paths)
        if weight_file := self.weight_file():
            new = rename(weight_file[1])
            if "#" in new or "\n" in new:
                raise self.error(weight_file[0], "", path_problem(new) or "")
            self.set_value(_WEIGHT_FILE, new)
        settings = self.text_settings()
        models = settings.truecase_source, settings.truecase_target
        if any(models):
            source, target = (path and rename(path) for path in models)
            changed = replace(settings, truecase_source=source, truecase_target=target)
            others = [text for text in self.lines if SETTING.fullmatch(text) is None]
            self.lines = [*changed.lines(), *others]
        self.features = self.read_features()

    def move(self, folder: str | os.PathLike[str]) -> None:
        """Make relative paths start in another folder, which the text is written to."""
        old, new = os.path.realpath(self.folder), os.path.realpath(folder)

        def rename(path: str) -> str:
            return path if os.path.isabs(path) else os.path.relpath(os.path.join(old, path), new)

        if old != new:
            self.rename_files(rename)
        self.folder = os.fspath(folder)

    def to_bytes(self) -> bytes:
        """Return the edited text as bytes."""
        return "\n".join(self.lines).encode(errors="surrogateescape")

    def write(self, path: str) -> None:
        """Write the text, with its paths changed, to a file atomically; ``-`` is stdout."""
        if self.folder and path != "-":
            self.move(os.path.dirname(path))
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
        """Return the features; features without ``name=`` get the names that Moses assigns.

        :raises ConfigError: for an argument that Moses rejects.
        """
        features = []
        nameless: dict[str, int] = {}
        for line in self.content_lines():
            if line.section != "feature":
                continue
            kind = line.words[0].group()
            arguments: dict[str, str] = {}
            for word in line.words[1:]:
                key, sign, value = word.group().partition("=")
                if not sign or key in arguments:
                    problem = f"expected key=value with each key only once, found {shorten(key)}"
                    raise self.error(line, arguments.get("name", kind), problem)
                arguments[key] = value
            name = arguments.get("name")
            if not name:
                name = f"{kind}{nameless.get(kind, 0)}"
                nameless[kind] = nameless.get(kind, 0) + 1
            features.append(IniFeature(name, kind, arguments, line))
        return features

    def text_settings(self) -> TextSettings:
        """Return the settings that the comments record; all others have their defaults."""
        return read_settings(self.path, self.lines)

    def weight_file(self) -> tuple[IniLine, str] | None:
        """Return the line that names the file of sparse weights, and its path; None without one."""
        line = self.first_lines().get(_WEIGHT_FILE)
        if line is None:
            return None
        return line, self.lines[line.row][line.words[0].start() : line.words[-1].end()]

    def set_value(self, section: str, value: str) -> None:
        """Set the only value of a section, which is appended if it is missing."""
        line = self.first_lines().get(section)
        if line is None:
            end = len(self.lines) if self.lines[-1] else -1
            self.lines[end:end] = ["", f"[{section}]", value]
        else:
            self.lines[line.row] = value

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
        return [line for line in self.content_lines() if line.section == "weight"]

    def shown_components(self, name: str, num_weights: int) -> tuple[bool, ...]:
        """Return whether n-best lists show each component of a feature or a sparse weight."""
        feature = self._feature(name)
        if feature is None:
            return (True,) * num_weights
        tuneable = feature.arguments.get("tuneable") or "true"
        if feature.kind == "UnknownWordPenalty" or tuneable.lower() not in TRUE_VALUES:
            return (False,) * num_weights
        components = self._tuneable_components(feature, num_weights)
        if components is None:
            return (True,) * num_weights
        return tuple(component.lower() in TRUE_VALUES for component in components.split(","))

    def _feature(self, name: str) -> IniFeature | None:
        return next((feature for feature in self.features if feature.name == name), None)

    def _tuneable_components(self, feature: IniFeature, num_features: int) -> str | None:
        value = feature.arguments.get("tuneable-components")
        if value is None or len(value.split(",")) == num_features:
            return value
        problem = f"expected {num_features} values in tuneable-components=, found {shorten(value)}"
        raise self.error(feature.line, feature.name, problem)

    def _set_arguments(self, feature: IniFeature, values: Mapping[str, str]) -> None:
        """Replace arguments of a feature; those that it lacks are appended."""
        lacking, edits = dict(values), []
        for word in feature.line.words[1:]:
            key = word.group().partition("=")[0]
            if key in lacking:
                edits.append((word.start() + len(key) + 1, word.end(), lacking.pop(key)))
        end = feature.line.words[-1].end()
        edits += [(end, end, f" {key}={value}") for key, value in lacking.items()]
        self._edit(feature.line, edits)

    def _edit(self, line: IniLine, edits: list[tuple[int, int, str]]) -> None:
        text = self.lines[line.row]
        for start, stop, value in sorted(edits, key=lambda edit: edit[0], reverse=True):
            text = text[:start] + value + text[stop:]
        self.lines[line.row] = text

    def error(self, line: IniLine, name: str, problem: str) -> ConfigError:
        """Return an error for a line; ``name`` is the feature or key, empty for none."""
        where = f"{shown_path(self.path)}:{line.row + 1}"
        return ConfigError(where, f"[{line.section}] {name}", problem)


def path_problem(path: str) -> str | None:
    """Return a message if a moses.ini cannot hold a path, else None."""
    if path and not re.search(r"[ \t\r\n#]", path):
        return None
    return (
        f"expected a path without blanks and '#', found {shorten(path)}; moses.ini cannot hold it"
    )


def named_files(ini: IniText) -> tuple[Path, ...]:
    """Return the distinct files that Moses reads, in feature order; the weight file is last."""
    return tuple(Path(ini.resolve(path)) for path in ini.named_paths())


def _exists(path: str) -> bool:
    return any(os.path.exists(f"{path}{ending}") for ending in ("", ".gz", *BINARY_ENDINGS))


@cache
def _log_working_folder(path: str) -> None:
    text = "%s: its folder has none of its files: its paths start in the working folder"
    _logger.info(text, shown_path(path))
