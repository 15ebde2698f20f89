"""The text of a new experiment's file, from the template ``experiment.toml.j2``."""

import json
import os
import re
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.experiment.systems import STANDARD, System

# Rows that may be switched on if their networks are there.
_MORE = {
    "The most that a search gains, and slower": STANDARD["+CSLM+joint+RNN"],
    "Networks in both places": System("+joint+RNNsearch", (), ("joint",), ("attention",)),
}


def render(output: Path, **values: Any) -> str:
    """Return the text of the file ``output``; the template names the values."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    folder = Path(os.path.abspath(output)).parent
    environment.filters |= {"toml": _toml, "path": partial(_path, folder), "row": _row, "key": _key}
    models = {each.model for each in values["choices"] if not each.problem}
    more = [(use, row) for use, row in _MORE.items() if models.issuperset(row.models)]
    name = re.sub(r"[^\w./+-]", "?", output.name)
    template = resources.files(__package__) / "experiment.toml.j2"
    text = environment.from_string(template.read_text("utf-8")).render(
        name=name, more=more, **values
    )
    return f"{text.rstrip()}\n"


def _row(row: System) -> str:
    if STANDARD.get(row.name) == row:
        return _toml(row.name)
    places = {"columns": row.columns, "search": row.search, "rescore": row.rescore}
    return _toml({"name": row.name, **{name: names for name, names in places.items() if names}})


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _toml(name)


def _path(folder: Path, path: Path | tuple[Path, ...]) -> str:
    """Return a path as TOML, relative to the folder only if it is inside."""
    if isinstance(path, tuple):
        return f"[{', '.join(_path(folder, each) for each in path)}]"
    absolute = Path(os.path.abspath(path))
    return _toml(str(absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(item)}' for name, item in value.items())} }}"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            problem = "expected a name in UTF-8, which TOML requires"
            raise PhrasescoreError(f"{os.fsencode(value)!r}: {problem}") from error
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
