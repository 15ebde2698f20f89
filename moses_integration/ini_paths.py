"""The files that a moses.ini names, and where its relative paths begin."""

import os
import re
from pathlib import Path

from moses_integration.moses_ini import MosesIni

_PATH = re.compile(r"(?<=[ \t]path=)[^ \t\r#]+")


def with_paths_from(ini: MosesIni, folder: Path) -> None:
    """Let the relative paths of the features begin at a folder, and not where Moses is started.

    They become absolute; but where that path has a blank or a ``#``, which a moses.ini cannot
    hold, they are made relative to the working folder.

    :raises ConfigError: with the line, if that path has one as well.
    """
    for feature in ini.features:
        old = dict(feature.arguments).get("path")
        if not old or os.path.isabs(old):
            continue
        path = path_for_ini(folder / old)
        if re.search(r"[ \t\r\n#]", path):
            problem = f"expected a path without blanks and '#', found {path}"
            raise ini.error(feature.line, feature.name, f"{problem}; moses.ini cannot hold it")
        place = feature.line.place
        ini.lines[place] = path.join(_PATH.split(ini.lines[place], maxsplit=1))
    ini.features = ini.read_features()


def path_for_ini(path: Path) -> str:
    """Return a path as a moses.ini can hold it: absolute if possible."""
    absolute = os.path.abspath(path)
    return os.path.relpath(path) if re.search(r"[\s#]", absolute) else absolute


def files_of(ini_path: str) -> list[Path]:
    """Return the files that Moses may read for a moses.ini: those it names, with ``.gz`` as well.

    :raises DataError: if there is no such moses.ini.
    :raises ConfigError: if a feature line is one that Moses refuses.
    """
    named = named_files(MosesIni.read(ini_path))
    return [*named, *(path.with_name(f"{path.name}.gz") for path in named)]


def named_files(ini: MosesIni) -> tuple[Path, ...]:
    """Return the files that features read by ``path=``, each once, in the order of the lines."""
    paths = [dict(feature.arguments).get("path") for feature in ini.features]
    return tuple(dict.fromkeys(Path(path) for path in paths if path))
