"""The text of a moses.ini: its lines, its features and the files they name.

The grammar is described in `moses_integration.moses_ini`.
"""

import os
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from phrasescore.errors import ConfigError, DataError, shown_path
from phrasescore.io.output import open_output
from phrasescore.io.text import open_input, shorten

_WORD = re.compile(r"[^ \t\r]+")
# The last two are BilingualNPLM's.
_FILE_ARGUMENTS = ("path", "source_vocab", "target_vocab")
_PATH = re.compile(r"(?<=[ \t]path=)[^ \t\r#]+")

# Sections of a moses.ini before version 2 of Moses, besides [weight-l] and other weights.
_OLD_SECTIONS = ("ttable-file", "lmodel-file", "distortion-file", "generation-file")
_WEIGHT_FILE = "weight-file"
_NEW_WEIGHT_SECTIONS = (_WEIGHT_FILE, "weight-add", "weight-overwrite")


class IniLine(NamedTuple):
    """A line with content."""

    section: str
    # 0-based, in the file.
    place: int
    # Each with its first and last position in the line.
    words: list[re.Match[str]]


class IniFeature(NamedTuple):
    """A feature line."""

    name: str
    kind: str
    # key=value, in order, without the class; a word without "=" has the value None.
    arguments: list[tuple[str, str | None]]
    line: IniLine


class IniText:
    """The text of a moses.ini, of which every byte stays that is not edited.

    :ivar path: for messages.
    :ivar lines: without their newlines.
    :ivar features: in the order of the file.
    """

    def __init__(self, path: str, content: bytes) -> None:
        """
        :raises DataError: at a null byte, which no name of a file can have.
        :raises ConfigError: if a feature line is one that Moses refuses, or the file has the format
            of older versions of Moses.
        """
        self.path = path
        before, null, _ = content.partition(b"\0")
        if null:
            raise DataError(path, before.count(b"\n") + 1, "expected text, found a null byte")
        # Bytes that are not UTF-8 come back as they were.
        self.lines = content.decode(errors="surrogateescape").split("\n")
        self._refuse_old_format()
        self.features = self.read_features()

    def _refuse_old_format(self) -> None:
        for line in self.content_lines():
            is_weight = line.section.startswith("weight-")
            if line.section in _OLD_SECTIONS or (
                is_weight and line.section not in _NEW_WEIGHT_SECTIONS
            ):
                problem = "expected [feature] and [weight]; this is an old format of Moses, which"
                raise self.error(line, "", f"{problem} its convert-moses-ini-to-v2.perl changes")

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a file; ``-`` is stdin.

        :raises DataError: if it cannot be read.
        :raises ConfigError: as the constructor.
        """
        with open_input(path) as stream:
            return cls(path, stream.read())

    def to_bytes(self) -> bytes:
        """Return the text: the bytes that were read, except for the edits."""
        return "\n".join(self.lines).encode(errors="surrogateescape")

    def write(self, path: str) -> None:
        """Write the text to a file, whole or not at all; ``-`` is stdout."""
        with open_output(path) as output:
            output.write(self.to_bytes())

    def content_lines(self) -> list[IniLine]:
        """Return the lines that are not blank, a comment or the head of a section."""
        found = []
        section = ""
        for index, text in enumerate(self.lines):
            words = list(_WORD.finditer(text.partition("#")[0]))
            if words and words[0].group().startswith("["):
                head = text[words[0].start() + 1 :].partition("]")
                section = head[0] if head[1] else section
            elif words:
                found.append(IniLine(section, index, words))
        return found

    def read_features(self) -> list[IniFeature]:
        """Return the features, each with the name that Moses gives it."""
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

    def weight_file(self) -> tuple[IniLine, str] | None:
        """Return the file of sparse weights that Moses reads, and the line that names it.

        A relative path begins at the working folder, as those of features do.
        """
        for line in self.content_lines():
            if line.section == _WEIGHT_FILE:  # of several values Moses takes the first
                text = self.lines[line.place]
                return line, text[line.words[0].start() : line.words[-1].end()]
        return None

    def set_weight_file(self, path: str) -> None:
        """Let Moses read sparse weights from another file.

        :raises ConfigError: if the text cannot hold the path.
        """
        named = self.weight_file()
        if "#" in path or "\n" in path:
            raise ConfigError(shown_path(self.path), f"[{_WEIGHT_FILE}]", path_problem(path) or "")
        if named is None:
            end = len(self.lines) if self.lines[-1] else -1
            self.lines[end:end] = ["", f"[{_WEIGHT_FILE}]", path]
        else:
            self.lines[named[0].place] = path

    def add_feature(self, kind: str, prefix: str, arguments: Mapping[str, str]) -> str:
        """Declare a feature of one score below the others, with the weight 0; return its name.

        :param prefix: of the name; the first number from 0 follows that makes it a new one.
        :raises ConfigError: if a section is missing, or the file cannot hold an argument.
        """
        ends = {}
        names = {feature.name for feature in self.features}
        for line in self.content_lines():
            ends[line.section] = line.place + 1
            if line.section == "weight":
                names.add(line.words[0].group().removesuffix("="))
        name = next(new for number in count() if (new := f"{prefix}{number}") not in names)
        for section in ("feature", "weight"):
            if section not in ends:
                problem = f"expected a section that gets {name}, found none"
                raise ConfigError(shown_path(self.path), f"[{section}]", problem)
        for fault in filter(None, map(path_problem, arguments.values())):
            raise ConfigError(shown_path(self.path), f"[feature] {name}", fault)
        words = [kind, f"name={name}", *(f"{key}={value}" for key, value in arguments.items())]
        lines = {"feature": " ".join(words), "weight": f"{name}= 0"}
        for section in sorted(lines, key=lambda section: -ends[section]):
            self.lines.insert(ends[section], lines[section])
        self.features = self.read_features()
        return name

    def error(self, line: IniLine, name: str, problem: str) -> ConfigError:
        """Return an error about one line."""
        where = f"{shown_path(self.path)}:{line.place + 1}"
        return ConfigError(where, f"[{line.section}] {name}", problem)


def split_argument(word: str) -> tuple[str, str | None]:
    """Split key=value at the first "=" (moses/Util.h, TokenizeFirstOnly)."""
    key, separator, value = word.partition("=")
    return key, value if separator else None


def path_problem(path: str) -> str | None:
    """Return why a moses.ini cannot hold a path; None if it can.

    >>> path_problem("/home/me/model.nplm")
    """
    if path and not re.search(r"[ \t\r\n#]", path):
        return None
    problem = f"expected a path without blanks and '#', found {shorten(path)}"
    return f"{problem}; moses.ini cannot hold it"


def with_paths_from(ini: IniText, folder: Path) -> None:
    """Let the relative paths of the features begin at a folder, and not where Moses is started.

    They become absolute; but where that path has a blank or a ``#``, which a moses.ini cannot
    hold, they are made relative to the working folder.

    :raises ConfigError: with the line, if that path has one as well.
    """
    for feature in ini.features:
        old = dict(feature.arguments).get("path")
        if not old or os.path.isabs(old):
            continue
        path = _path_from(folder, old)
        if problem := path_problem(path):
            raise ini.error(feature.line, feature.name, problem)
        place = feature.line.place
        ini.lines[place] = path.join(_PATH.split(ini.lines[place], maxsplit=1))
    ini.features = ini.read_features()
    if named := ini.weight_file():
        ini.set_weight_file(_path_from(folder, named[1]))


def _path_from(folder: Path, path: str) -> str:
    """Return a path that begins at a folder: absolute, or relative to the working folder."""
    absolute = os.path.abspath(folder / path)
    return os.path.relpath(absolute) if re.search(r"[\s#]", absolute) else absolute


def files_of(ini_path: str) -> list[Path]:
    """Return the files that Moses may read for a moses.ini: those it names, with ``.gz`` as well.

    :raises DataError: if there is no such moses.ini.
    :raises ConfigError: if a feature line is one that Moses refuses.
    """
    named = named_files(IniText.read(ini_path))
    return [*named, *(Path(f"{path}.gz") for path in named)]


def named_files(ini: IniText) -> tuple[Path, ...]:
    """Return the files that Moses reads, each once, in the order of the features; weights last."""
    paths = [
        dict(feature.arguments).get(key) for feature in ini.features for key in _FILE_ARGUMENTS
    ]
    if named := ini.weight_file():
        paths.append(named[1])
    return tuple(dict.fromkeys(Path(path) for path in paths if path))
