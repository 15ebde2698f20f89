"""The folder of a model that CTranslate2 has converted: its files, their checks and digests."""

import math
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from phrasescore.errors import ModelError
from phrasescore.io.journal import digest_file, digest_text
from phrasescore.io.plain_file import MAX_JSON, check_plain, open_plain, read_plain

# Headers of the file model.bin before this version differ.
_FIRST_VERSION = 4


class ConvertedConfig(msgspec.Struct):
    """What config.json says of a model."""

    # CTranslate2 does not check that these keys exist. If one is missing, it crashes or uses an
    # arbitrary value.
    bos_token: str | None
    eos_token: str
    unk_token: str


class TranslationConfig(ConvertedConfig):
    """What config.json says of a translation model."""

    add_source_bos: bool
    add_source_eos: bool
    # None if the first token of the target prefix takes its place (mBART-25).
    decoder_start_token: str | None


_Config = TypeVar("_Config", bound=ConvertedConfig)


class ConvertedFolder:
    """The folder of a model that CTranslate2 has converted; none of its files is executed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if find_spec("ctranslate2") is None:
            raise ModelError(f"{folder}: needs CTranslate2: pip install 'phrasescore[ctranslate2]'")
        with self.reading():
            # CTranslate2 opens all files itself, and would wait at a pipe forever.
            self.files = sorted(entry.name for entry in os.scandir(folder) if not entry.is_dir())
            for name in self.files:
                check_plain(os.path.join(folder, name))
            if "config.json" not in self.files:
                problem = "not a model that CTranslate2 has converted: config.json is missing"
                raise ModelError(f"{folder}: {problem}")

    @property
    def is_generator(self) -> bool:
        """Whether the model has only a decoder, such as GPT-2, and therefore one vocabulary."""
        return bool({"vocabulary.json", "vocabulary.txt"}.intersection(self.files))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Translate errors while files are read."""
        try:
            yield
        except OSError as error:
            path = error.filename or self.folder
            raise ModelError(f"{path}: cannot open: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = "expected the JSON of a model that CTranslate2 has converted"
            raise ModelError(f"{self.folder}: {problem}: {error}") from error

    def read_config(self, kind: type[_Config]) -> _Config:
        """Return the content of config.json, which must have the keys of this kind."""
        with self.reading():
            return msgspec.json.decode(self.read("config.json"), type=kind)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return read_plain(os.path.join(self.folder, name), MAX_JSON)

    def vocabulary(self, weights: Sequence[str], *names: str) -> frozenset[str]:
        """Return the pieces in the first vocabulary that exists.

        :param weights: names of weights that have a row for each piece. CTranslate2 does not check
            their sizes, and reads other memory for a piece that has no row.
        """
        for name in (f"{name}.{ending}" for name in names for ending in ("json", "txt")):
            if name in self.files:
                break
        else:
            problem = "expected a model that CTranslate2 has converted, with a"
            raise ModelError(f"{self.folder}: {problem} {names[0].replace('_', ' ')}")
        data = self.read(name)
        if name.endswith("json"):
            pieces = msgspec.json.decode(data, type=list[str])
        else:
            pieces = data.decode().removesuffix("\n").split("\n")
        rows = min((self._rows[each] for each in weights if each in self._rows), default=math.inf)
        if len(pieces) > rows:
            problem = f"expected at most {rows:,} pieces, the rows of model.bin"
            raise ModelError(f"{self.folder}/{name}: {problem}, found {len(pieces):,}")
        return frozenset(pieces)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return count_rows(os.path.join(self.folder, "model.bin"))

    def digest(self, *settings: str) -> str:
        """Return a digest of the files on which scores depend, and of the given settings."""
        names = ("model.bin", "config.json", "vmap.txt")
        read = [name for name in self.files if name in names or "vocabulary." in name]
        with self.reading():
            digests = [f"{name} {digest_file(Path(self.folder, name))}" for name in read]
        return digest_text(
            "\n".join((*digests, *settings, f"ctranslate2 {version('ctranslate2')}"))
        )


def count_rows(path: str) -> dict[str, int]:
    """Return the number of rows of each weight in a model.bin that has at least one, by name.

    Weights that are stored once and used several times have several names. The result is empty if
    the file is older than version 4 of the format. Source: ``Model.load`` of CTranslate2.

    :raises ModelError: if the file ends too early.
    :raises OSError: if it cannot be opened.
    """
    with open_plain(path) as file:
        try:
            return _count_rows(file)
        except struct.error:
            raise ModelError(f"{path}: the file is damaged: it ends too early") from None


def _count_rows(file: BinaryIO) -> dict[str, int]:
    rows: dict[str, int] = {}
    if _number(file) < _FIRST_VERSION:
        return rows
    _name(file)  # of the network
    _number(file)  # its revision
    for _ in range(_number(file)):
        name = _name(file)
        (dimensions,) = struct.unpack("<B", file.read(1))
        shape = struct.unpack(f"<{dimensions}I", file.read(4 * dimensions))
        rows |= {name: shape[0]} if shape else {}
        file.seek(1, os.SEEK_CUR)  # the type
        file.seek(_number(file), os.SEEK_CUR)
    for _ in range(_number(file)):
        alias, name = _name(file), _name(file)
        if name in rows:
            rows[alias] = rows[name]
    return rows


def _number(file: BinaryIO) -> int:
    (number,) = struct.unpack("<I", file.read(4))
    return int(number)


def _name(file: BinaryIO) -> str:
    (length,) = struct.unpack("<H", file.read(2))
    return file.read(length).rstrip(b"\0").decode(errors="replace")
