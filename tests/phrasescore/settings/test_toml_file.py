"""Promises of phrasescore.settings.toml_file: tables become dataclasses."""

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from phrasescore.errors import ConfigError
from phrasescore.settings.toml_file import TomlTable, read_table


@dataclasses.dataclass(frozen=True)
class Server:
    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 80
    speed: Literal["slow", "fast"] = "slow"


@dataclasses.dataclass(frozen=True)
class Site:
    main: Server
    root: Path = Path()
    mirrors: dict[str, Server] = dataclasses.field(default_factory=dict)
    pages: tuple[Path, ...] = ()
    load: float | None = None


def write_site(folder: Path, text: str) -> TomlTable:
    (folder / "site.toml").write_text(text)
    return read_table(str(folder / "site.toml"))


def test_a_file_becomes_a_dataclass_of_tables(tmp_path: Path) -> None:
    text = """
root = "../www"
pages = "a.html"
load = 1
[main]
host = "x"
[mirrors.one]
host = "y"
port = 81
"""
    assert write_site(tmp_path, text).read(Site) == Site(
        Server("x"), tmp_path.parent / "www", {"one": Server("y", 81)}, (tmp_path / "a.html",), 1.0
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "main: is missing: expected a table"),
        ("[main]\nport = 1", "[main] host: is missing: expected a string"),
        ("man = 1", "unknown key 'man'; did you mean 'main'?"),
        ("[mirrors.one]\nhos = 'x'", "unknown key 'hos' in [mirrors.one]; did you mean 'host'?"),
        ("[mirrors.one]\nhost = 1", "[mirrors.one] host: expected a string, got 1"),
        ("[mirrors]\none = 1", "[mirrors.one]: expected a table, got 1"),
        ("main = 3", "[main]: expected a table, got 3"),
        ("[main]\nport = 0", "[main] port: expected a number from 1 to 65535, got 0"),
        ("[main]\nspeed = 'x'", "[main] speed: expected one of slow, fast, got 'x'"),
        ("pages = ['a', 1]", "pages: expected a string, got 1"),
        ("pages = 1", "pages: expected a path, or several, got 1"),
        ("pages = []", "pages: expected a path, or several, got []"),
        ("load = nan", "load: expected a finite number, got nan"),
    ],
)
def test_what_is_wrong_in_a_table_is_said_with_file_and_key(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        write_site(tmp_path, text).read(Site)
    assert str(caught.value) == f"{tmp_path / 'site.toml'}: {message}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"load = {'9' * 5000}", ": Exceeds the limit"),
        (f"load = {'[' * 5000}", ": maximum recursion depth exceeded"),
        ("\ufeffpages = 1", ", found a byte order mark before it"),
    ],
)
def test_what_is_no_toml_is_said_with_the_file(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write_site(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'site.toml'}: expected TOML{problem}")


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_file_that_has_no_end_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "site.toml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "large":
            path.touch()
            os.truncate(path, 1 << 40)
    with pytest.raises(ConfigError, match=r"site\.toml: expected "):
        read_table(str(path))
