"""A store of scores on disk, so that the next tuning round scores only new hypotheses.

An SQLite file, used through sqlitedict. A key is a hash of everything a score depends on, a value
is the eight bytes of the float64 that was computed: a cached score is the same, bit for bit. The
oldest entries are deleted when there are too many.

Several processes may use one file at once, on one machine. While one of them writes, and after a
crash until the file is used again, a ``-journal`` stands beside it. Unlike a write-ahead log it
needs no space to be taken back: a full disk leaves none.

A file may come from a stranger. It has to hold the two tables as they are made here and nothing
else, as a view or a trigger may run for ever.
"""

import logging
import math
import os
import platform
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from sqlitedict import SqliteDict

from phrasescore.errors import PhrasescoreError
from phrasescore.io.plain_file import check_plain
from phrasescore.io.state import DIGEST_SIZE, new_digest
from phrasescore.io.text import shorten
from phrasescore.records import HypothesisList
from phrasescore.version import __version__

FORMAT = 1
DEFAULT_LIMIT = 10_000_000  # entries, of about 65 bytes on disk each

# Entries of one SQL statement: older SQLites take 999 parameters, and an entry is two.
_BULK = 400
_HEADER, _SCORES = "phrasescore_score_cache", "scores"
_VALUE = struct.Struct("<d")
# The tables, with that of scores as sqlitedict would make it. Keys are stored as they are, 16
# bytes: a column of type TEXT leaves bytes alone.
_CREATE = (
    f"CREATE TABLE {_HEADER} (format INTEGER NOT NULL)",
    f"INSERT INTO {_HEADER} VALUES ({FORMAT})",
    f'CREATE TABLE "{_SCORES}" (key TEXT PRIMARY KEY, value BLOB)',
)
# All that the file holds then, by kind, name and statement; the index is of the keys.
_SCHEMA = [
    ("table", _HEADER, _CREATE[0]),
    ("table", _SCORES, _CREATE[2]),
    ("index", f"sqlite_autoindex_{_SCORES}_1", None),
]
# One row for all entries that are found, in hexadecimal: sqlitedict hands each row from thread to
# thread, and an error after the first row would end its thread and leave this one waiting for ever.
# Of a value that is too long, which is an error, one byte more than of a score.
_FIND = (
    f"SELECT group_concat(hex(key) || hex(substr(value, 1, {_VALUE.size + 1})), '') "
    f"FROM {_SCORES} WHERE key IN ({{}})"
)
_ADD = f"INSERT OR IGNORE INTO {_SCORES} (key, value) VALUES {{}}"
# Without this IGNORE an entry would move to the end; with it row numbers rise with age, no gaps.
_SPAN = f"SELECT (SELECT MAX(rowid) FROM {_SCORES}) - (SELECT MIN(rowid) FROM {_SCORES}) + 1"
_DROP_OLDEST = f"DELETE FROM {_SCORES} WHERE rowid <= (SELECT MAX(rowid) FROM {_SCORES}) - ?"

_JOURNAL = "DELETE"
_TRUST_NOTHING = "PRAGMA trusted_schema = OFF"

# sqlitedict logs the statements of an error; the error itself says enough.
logging.getLogger("sqlitedict").addHandler(logging.NullHandler())


def score_keys(name: str, hypotheses: HypothesisList) -> list[bytes]:
    """Return the keys of one column of scores of a list, in the order of its hypotheses.

    A key also covers the versions of this package and of the libraries that it computes with, and
    the kind of processor: another one may round the last bit of a score differently.

    :param name: of the column, different from all others: fingerprints, precision, device.
    :param hypotheses: words without line ends, as in every vocabulary.
    """
    # Each part begins with its length, so that no two inputs give the same bytes.
    start = new_digest()
    for part in (_ENVIRONMENT, name, _joined(hypotheses.source)):
        data = part.encode()
        start.update(b"%d " % len(data) + data)
    keys = []
    for place, hypothesis in enumerate(hypotheses.hypotheses):
        key = start.copy()
        text = _joined(hypothesis)
        if hypotheses.affiliations is not None:
            text += f"\n{hypotheses.affiliations[place]}"
        key.update(text.encode())
        keys.append(key.digest())
    return keys


_ENVIRONMENT = (
    f"phrasescore {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
    # Importing numba takes long, and a full cache needs none of its kernels.
    f"numba {version('numba')}, {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
)


def _joined(words: tuple[str, ...]) -> str:
    return "\n".join((str(len(words)), *words))


class ScoreCache:
    """Scores by key, in a file. A context manager; for one thread at a time.

    :param path: an SQLite file, which is made if it is not there.
    :param limit: the most entries; when there are more, the oldest are deleted.
    :param timeout: seconds to wait for another process that is writing.
    :raises PhrasescoreError: if the file is locked, corrupt, not a cache of this format, or
        cannot be written. Nothing is changed then.
    """

    def __init__(self, path: str, *, limit: int = DEFAULT_LIMIT, timeout: float = 60.0) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self._path = path
        self._limit = limit
        # SQLite opens these, too, and waits at a pipe for ever.
        for suffix in ("", "-journal", "-wal", "-shm"):
            if os.path.exists(path + suffix) and not os.path.isdir(path + suffix):
                check_plain(path + suffix)
        # sqlitedict would make its table in any SQLite file, and fails in a thread of its own, with
        # a traceback: the tables are there before it begins.
        with (
            self._errors(),
            closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as database,
        ):
            self._prepare(database)
            self._store = SqliteDict(
                path,
                tablename=_SCORES,
                # Each statement is a transaction.
                autocommit=True,
                journal_mode=_JOURNAL,
                # Otherwise values would be pickled.
                encode=_VALUE.pack,
                decode=lambda data: _VALUE.unpack(data)[0],
                outer_stack=False,
            )
            self._run(_TRUST_NOTHING)
            self._run(f"PRAGMA busy_timeout = {round(timeout * 1000)}")

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables in a new file, and check those of an old one."""
        database.execute(_TRUST_NOTHING)
        if not self._schema(database):
            # From here on another process that does the same waits.
            database.execute("BEGIN IMMEDIATE")
            if not self._schema(database):
                for statement in _CREATE:
                    database.execute(statement)
            database.execute("COMMIT")
        found = self._schema(database)
        if found != _SCHEMA:
            problem = "expected a score cache of phrasescore, found another SQLite database"
            strange = next((row for row in found if row not in _SCHEMA), None)
            if strange is not None:
                problem += f", with {shorten(f'{strange[0]} {strange[1]}')}"
            raise PhrasescoreError(f"{self._path}: {problem}; name a new file")
        number = "CASE typeof(format) WHEN 'integer' THEN format ELSE 'none' END"
        rows = database.execute(f"SELECT {number} FROM {_HEADER} LIMIT 2")
        formats = [row[0] for row in rows]
        if formats != [FORMAT]:
            shown = ", ".join(map(str, formats)) or "none"
            raise PhrasescoreError(
                f"{self._path}: the score cache has format {shown}; this is phrasescore "
                f"{__version__}, which uses format {FORMAT}; name a new file"
            )
        database.execute(f"PRAGMA journal_mode = {_JOURNAL}")  # earlier versions had another

    def _schema(self, database: sqlite3.Connection) -> list[tuple[Any, ...]]:
        """Return what a file holds, or enough of it to be refused."""
        rows = f"SELECT type, name, sql FROM sqlite_master LIMIT {len(_SCHEMA) + 1}"
        return database.execute(rows).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; everything stored is there."""
        with self._errors():
            self._store.close()

    def lookup(self, keys: Sequence[bytes]) -> list[float | None]:
        """Return the value of each key, None where there is none.

        :raises PhrasescoreError: if the file cannot be read, or an entry is no score.
        """
        values: dict[bytes, float] = {}
        with self._errors():
            for start in range(0, len(keys), _BULK):
                part = keys[start : start + _BULK]
                rows = self._run(_FIND.format(",".join("?" * len(part))), part)
                values.update(self._unpack(bytes.fromhex(rows[0][0] or "")))
        return [values.get(key) for key in keys]

    def _unpack(self, data: bytes) -> Iterator[tuple[bytes, float]]:
        size = DIGEST_SIZE + _VALUE.size
        if len(data) % size:
            raise self.corrupt("an entry of a wrong size")
        for start in range(0, len(data), size):
            (value,) = _VALUE.unpack_from(data, start + DIGEST_SIZE)
            if not math.isfinite(value):
                raise self.corrupt(f"the score {value}")
            yield data[start : start + DIGEST_SIZE], value

    def corrupt(self, found: str) -> PhrasescoreError:
        """Return the error about an entry that is no score."""
        return PhrasescoreError(
            f"{self._path}: the score cache is corrupt: found {found}; remove it, or name a new one"
        )

    def store(self, keys: Sequence[bytes], values: Sequence[float]) -> None:
        """Keep values; of a key that is there already the old one stays.

        :raises PhrasescoreError: if the file cannot be written.
        """
        with self._errors():
            for start in range(0, len(keys), _BULK):
                part = slice(start, start + _BULK)
                pairs = zip(keys[part], map(_VALUE.pack, values[part]), strict=True)
                arguments = list(chain.from_iterable(pairs))
                rows = ",".join(["(?,?)"] * (len(arguments) // 2))
                self._run(_ADD.format(rows), arguments)
            if (self._run(_SPAN)[0][0] or 0) > self._limit:
                self._run(_DROP_OLDEST, [self._limit])

    def __len__(self) -> int:
        """Return the number of entries."""
        with self._errors():
            return len(self._store)

    def _run(self, statement: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement in sqlitedict's thread, to its end; its errors come out here."""
        return list(self._store.conn.select(statement, arguments))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite and sqlitedict into one line that names the file and a cure."""
        try:
            yield
        except (sqlite3.Error, RuntimeError) as error:
            raise PhrasescoreError(f"{self._path}: {self._explain(error)}") from error

    def _explain(self, error: Exception) -> str:
        text = str(error)
        if "locked" in text:
            return "the score cache is locked by another program; wait for it, or name a new file"
        if "not a database" in text:
            return "expected a score cache, found a file of another kind; name a new file"
        if "malformed" in text:
            return "the score cache is corrupt; remove it, or name a new file"
        if "unable to open" in text and not os.path.isdir(os.path.dirname(self._path) or "."):
            return "cannot open a score cache: there is no such folder"
        return f"cannot use this score cache: {text}"
