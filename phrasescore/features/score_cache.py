"""A store of scores on disk, so that the next tuning round scores only new hypotheses.

It is an SQLite file, used through sqlitedict. A key is a hash of everything that a score depends
on, and a value is the eight bytes of the float64: a cached score is the same, bit for bit. Several
processes on one machine may use a file at the same time.
"""

import logging
import os
import platform
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from itertools import chain, repeat
from typing import Any, Self

import numpy as np
import torch
from sqlitedict import SqliteDict

from phrasescore.errors import PhrasescoreError
from phrasescore.io.journal import DIGEST_SIZE, new_digest
from phrasescore.io.plain_file import check_plain
from phrasescore.records import PhraseBlock
from phrasescore.version import __version__

DEFAULT_LIMIT = 10_000_000  # entries, of about 65 bytes on disk each

_BULK = 400  # entries of one SQL statement: older SQLites take 999 parameters, and an entry is two
_VALUE = struct.Struct("<d")
_ENTRY = np.dtype([("key", f"V{DIGEST_SIZE}"), ("value", "<f8")])
# The only tables of a file: its format, and the scores in a table as sqlitedict creates it. Keys
# are stored as 16 bytes: a column of type TEXT does not convert bytes.
_HEADER = "CREATE TABLE phrasescore_score_cache (format INTEGER NOT NULL)"
_SCORES = 'CREATE TABLE "scores" (key TEXT PRIMARY KEY, value BLOB)'
# All entries are returned as one row in hexadecimal: sqlitedict passes each row between threads,
# and an error after the first row would end its thread and leave this one waiting forever.
_FIND = (
    "SELECT group_concat(hex(key) || hex(substr(value, 1, 9)), '') FROM scores WHERE key IN ({})"
)
# Without IGNORE an old entry would move to the end; with it, row numbers follow age, without gaps.
_ADD = "INSERT OR IGNORE INTO scores (key, value) VALUES {}"
_DROP_OLDEST = "DELETE FROM scores WHERE rowid <= (SELECT MAX(rowid) FROM scores) - ?"

# sqlitedict logs the statements that fail, but the error itself says enough.
logging.getLogger("sqlitedict").addHandler(logging.NullHandler())

_ENVIRONMENT = (
    f"phrasescore {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
    # Importing numba takes long, and a full cache needs none of its kernels.
    f"numba {version('numba')}, {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
)


def score_keys(name: str, block: PhraseBlock) -> list[bytes]:
    """Return the cache keys for one column of a block's scores, in the order of its pairs.

    A key also covers the versions of this package and of its numerical libraries, and the kind of
    processor, because processors may round the last bit of a score differently.

    :param name: a unique name for the column: fingerprints, precision and device.
    """
    start = new_digest(repr((_ENVIRONMENT, name)).encode())
    affiliations = block.affiliations or repeat(())
    keys = []
    for pair in zip(block.pairs(), affiliations, strict=False):
        key = start.copy()
        key.update(repr(pair).encode())
        keys.append(key.digest())
    return keys


class ScoreCache:
    """A file of scores indexed by key, as a context manager; only one thread may use it at a time.

    :param path: an SQLite file, which is created if it does not exist.
    :param limit: maximum number of entries; when there are more, the oldest entries are deleted.
    :raises PhrasescoreError: if the file is locked, damaged, not a cache, or not writable. The
        file does not change then.
    """

    def __init__(self, path: str, *, limit: int = DEFAULT_LIMIT, timeout: float = 60.0) -> None:
        self._path, self._limit = path, limit
        for name in (path, f"{path}-journal"):  # SQLite opens both, and waits forever for a pipe
            if os.path.exists(name) and not os.path.isdir(name):
                check_plain(name)
        # Check the file here: sqlitedict would raise its errors in another thread.
        with self._errors():
            with closing(sqlite3.connect(path, timeout, isolation_level=None)) as database:
                self._prepare(database)
            self._store = SqliteDict(
                path,
                tablename="scores",
                autocommit=True,  # each statement is a transaction
                journal_mode="DELETE",
                encode=_VALUE.pack,  # instead of pickle
                outer_stack=False,
            )
            self._run(f"PRAGMA busy_timeout = {round(timeout * 1000)}")

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("BEGIN IMMEDIATE")  # another process that does the same waits
        statements = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 3"
        tables = [sql for (sql,) in database.execute(statements)]
        if not tables:
            for statement in (_HEADER, "INSERT INTO phrasescore_score_cache VALUES (1)", _SCORES):
                database.execute(statement)
        # A file with a view or a trigger, which may run forever, is rejected, too.
        elif tables != [_HEADER, _SCORES]:
            raise PhrasescoreError(
                f"{self._path}: expected a score cache, found another database; name a new file"
            )
        database.execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # Every statement is committed. Without "force", close() asks sqlitedict's thread, which may
        # never answer after a signal has interrupted a request.
        self._store.close(force=True)

    def lookup(self, keys: Sequence[bytes]) -> list[float | None]:
        """Return the value of each key, or None if the cache lacks it."""
        values: dict[bytes, float] = {}
        for start in range(0, len(keys), _BULK):
            part = keys[start : start + _BULK]
            with self._errors():
                rows = self._run(_FIND.format(",".join("?" * len(part))), part)
            data = bytes.fromhex(rows[0][0] or "")
            if len(data) % _ENTRY.itemsize:
                raise self.corrupt("an entry with the wrong size")
            entries = np.frombuffer(data, _ENTRY)
            for wrong in entries["value"][~np.isfinite(entries["value"])][:1]:
                raise self.corrupt(f"the score {wrong}")
            values.update(zip(entries["key"].tolist(), entries["value"].tolist(), strict=True))
        return [values.get(key) for key in keys]

    def corrupt(self, found: str) -> PhrasescoreError:
        """Return the error for an invalid entry."""
        return PhrasescoreError(
            f"{self._path}: the score cache is damaged: found {found}; remove it, or name a new one"
        )

    def store(self, keys: Sequence[bytes], values: Sequence[float]) -> None:
        """Store values; a key that the cache already has keeps its old value."""
        with self._errors():
            for start in range(0, len(keys), _BULK):
                part = slice(start, start + _BULK)
                pairs = list(zip(keys[part], map(_VALUE.pack, values[part]), strict=True))
                rows = ",".join(["(?,?)"] * len(pairs))
                self._run(_ADD.format(rows), list(chain.from_iterable(pairs)))
            self._run(_DROP_OLDEST, [self._limit])

    def __len__(self) -> int:
        with self._errors():
            return len(self._store)

    def _run(self, statement: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return list(self._store.conn.select(statement, arguments))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Re-raise errors of SQLite and sqlitedict with the file's name and a suggested fix."""
        try:
            yield
        except (sqlite3.Error, RuntimeError) as error:
            problem = f"{self._path}: cannot use this score cache: {error}; name a new file"
            raise PhrasescoreError(problem) from error
