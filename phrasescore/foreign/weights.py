"""Read the sizes of the weights in the model.bin that a converter of CTranslate2 has written."""

import os
import struct
from typing import BinaryIO

from phrasescore.errors import ModelError
from phrasescore.io.plain_file import open_plain

# The headers of earlier versions differ.
_FIRST_VERSION = 4


def count_rows(path: str) -> dict[str, int]:
    """Return the number of rows of each weight with at least one dimension, by name.

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
