"""The cache of scores: the same bits come out that went in, whatever else happens to the file."""

import math
import os
import resource
import signal
import sqlite3
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from sqlitedict import SqliteDict

from phrasescore.errors import PhrasescoreError
from phrasescore.features.score_cache import _ENVIRONMENT, ScoreCache, score_keys
from phrasescore.records import PhraseBlock
from tests.forked import Forked


def keys(how_many: int, name: str = "model") -> list[bytes]:
    return score_keys(name, PhraseBlock.of_source(("a",), [(str(n),) for n in range(how_many)]))


# Values


def test_values_come_back_to_the_last_bit_also_from_another_instance(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    # Neighbours in float64, a subnormal, a count, and zeros with both signs.
    values = [-1.1, math.nextafter(-1.1, 0), -5e-324, 3.0, 0.0, -0.0]
    with ScoreCache(path) as cache:
        assert cache.lookup(keys(6)) == [None] * 6
        cache.store(keys(6), values)
        first = cache.lookup(keys(6))
    with ScoreCache(path) as cache:
        second = cache.lookup(keys(7))
    assert second[6] is None
    for found in (first, second[:6]):
        assert [struct.pack("<d", value) for value in found] == [
            struct.pack("<d", value) for value in values
        ]


def test_a_request_that_a_signal_has_interrupted_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """An exception in the middle of `Condition.notify` leaves a waiter that no thread has."""
    path = str(tmp_path / "cache")
    with ScoreCache(path) as cache:
        cache.store(keys(2), [-1.0, -2.0])
        waiter = threading.Lock()
        waiter.acquire()
        cache._store.conn.reqs.not_empty._waiters.appendleft(waiter)
    with ScoreCache(path) as cache:
        assert cache.lookup(keys(2)) == [-1.0, -2.0]


def test_more_keys_than_fit_a_statement_keep_their_order(tmp_path: Path) -> None:
    with ScoreCache(str(tmp_path / "cache")) as cache:
        cache.store(keys(1801), [-float(n) for n in range(1801)])
        wanted = keys(2000)[::-1]
        found = cache.lookup([*wanted, wanted[-1]])  # one key twice
        assert found == [None] * 199 + [-float(n) for n in range(1800, -1, -1)] + [0.0]
        assert cache.lookup([]) == []


def test_an_older_value_stays(tmp_path: Path) -> None:
    with ScoreCache(str(tmp_path / "cache")) as cache:
        cache.store(keys(2), [-1.0, -2.0])
        cache.store(keys(3), [-5.0, -6.0, -7.0])
        assert cache.lookup(keys(3)) == [-1.0, -2.0, -7.0]


def test_what_is_on_disk_is_no_pickle_and_sqlitedict_reads_it(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    with ScoreCache(path) as cache:
        cache.store(keys(1), [-1.5])
    with SqliteDict(path, tablename="scores", decode=bytes) as store:
        assert dict(store.items()) == {keys(1)[0]: struct.pack("<d", -1.5)}


def test_an_entry_takes_less_than_80_bytes(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)) as cache:
        cache.store(keys(5000), [-1.5] * 5000)
    assert path.stat().st_size < 80 * 5000
    assert [file.name for file in tmp_path.iterdir()] == ["cache"]


# Keys


def test_a_key_depends_on_name_source_and_hypothesis_and_nothing_beside_them() -> None:
    pairs = [
        ("m", ("a",), ("b",)),
        ("n", ("a",), ("b",)),
        ("m", ("b",), ("a",)),
        ("m", ("a", "b"), ()),
        ("m", (), ("a", "b")),
        ("m", ("ab",), ()),
        ("m", (), ("ab",)),
        ("m", (), ()),
    ]
    alone = [score_keys(name, PhraseBlock.of([(source, target)])) for name, source, target in pairs]
    assert len({key for (key,) in alone}) == len(pairs)
    assert {len(key) for (key,) in alone} == {16}
    beside = score_keys("m", PhraseBlock.of_source(("a",), [("x",), ("b",), ("b",)]))
    assert beside[1] == beside[2] == alone[0][0]


def test_a_key_depends_on_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(1)
    monkeypatch.setattr("phrasescore.features.score_cache._ENVIRONMENT", "another torch")
    assert keys(1) != before


@pytest.mark.parametrize("package", ["phrasescore", "torch", "numpy", "numba"])
def test_the_versions_are_of_all_that_computes(package: str) -> None:
    assert f"{package} {version(package)}" in _ENVIRONMENT


# Size


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    with ScoreCache(path, limit=1000) as cache:
        cache.store(keys(900), [-1.0] * 900)
        cache.store(keys(950), [-1.0] * 950)  # 900 of them are there and do not become younger
        assert len(cache) == 950
        cache.store(keys(1100), [-1.0] * 1100)
        assert len(cache) == 1000
        found = cache.lookup(keys(1100))
    assert found == [None] * 100 + [-1.0] * 1000
    with ScoreCache(path, limit=10) as cache:
        cache.store(keys(1101)[-1:], [-1.0])
        assert len(cache) == 10


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    sizes = []
    for start in range(6):
        with ScoreCache(str(path), limit=2000) as cache:
            cache.store(keys(2000, f"model {start}"), [-1.0] * 2000)
        sizes.append(path.stat().st_size)
    assert sizes[5] < 2 * sizes[0]
    assert sizes[5] <= 1.2 * sizes[3]


# Several processes


def write_many(path: str, start: str) -> None:
    with ScoreCache(path) as cache:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for n in range(int(start), int(start) + 100):
            wanted = score_keys("model", one_source(n))
            found = cache.lookup(wanted)
            assert found in ([None] * 10, [-float(n)] * 10), found
            cache.store(wanted, [-float(n)] * 10)


def one_source(n: int) -> PhraseBlock:
    return PhraseBlock.of_source((str(n),), [(str(m),) for m in range(10)])


def test_several_processes_may_write_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    # The two make the file together, and write half of the entries both.
    processes = [Forked(write_many, path, start) for start in ("0", "50")]
    for process in processes:
        assert process.stdout.readline() == b"open\n"
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        assert (process.communicate()[1], process.returncode) == (b"", 0)
    with ScoreCache(path) as cache:
        assert len(cache) == 1500
        for n in range(150):
            assert cache.lookup(score_keys("model", one_source(n))) == [-float(n)] * 10


def store_and_be_killed(path: str) -> None:
    ScoreCache(path).store([bytes(16)], [-2.5])
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_stored_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    killed = Forked(store_and_be_killed, path)
    killed.communicate()
    assert killed.returncode == -9
    with ScoreCache(path) as cache:
        assert cache.lookup([bytes(16)]) == [-2.5]


def test_a_cache_of_an_earlier_version_keeps_its_scores_and_needs_no_log(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)) as cache:
        cache.store(keys(1), [-1.0])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    with ScoreCache(str(path)) as cache:
        assert cache.lookup(keys(1)) == [-1.0]
        assert [file.name for file in tmp_path.iterdir()] == ["cache"]


# Files that are no cache


def _refused(path: Path, message: str, *, timeout: float = 0.1) -> None:
    before = path.read_bytes()
    with pytest.raises(PhrasescoreError, match=message) as caught:
        ScoreCache(str(path), timeout=timeout)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_of_another_kind_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_bytes(b"0 ||| la maison ||| LM0= -2 ||| -3\n" * 100)
    _refused(path, "cannot use this score cache: file is not a database; name a new file")


ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "statements",
    [
        f"DROP TABLE scores; CREATE VIEW scores (key) AS {ENDLESS}",
        "DROP TABLE phrasescore_score_cache; CREATE VIEW phrasescore_score_cache AS SELECT 1",
        f"CREATE TRIGGER grow INSERT ON scores BEGIN INSERT INTO scores (key) {ENDLESS}; END",
        "DROP TABLE scores; CREATE VIRTUAL TABLE scores USING rtree (key, value, more)",
        "DROP TABLE scores; CREATE TABLE scores (key, value AS (hex(zeroblob(100000000))))",
        "CREATE INDEX slow ON scores (hex(zeroblob(100000000)))",
        "CREATE TABLE more (key)",
        "DROP TABLE scores",
    ],
)
def test_a_database_with_more_than_the_two_tables_is_refused_and_stays(
    tmp_path: Path, statements: str
) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)):
        pass
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)
    _refused(path, "found another database; name a new file$")


@pytest.mark.parametrize("suffix", ["", "-journal"])
def test_a_pipe_in_the_place_of_a_file_of_the_cache_keeps_nobody_waiting(
    tmp_path: Path, suffix: str
) -> None:
    path = str(tmp_path / "cache")
    if suffix:
        with ScoreCache(path):
            pass
    os.mkfifo(path + suffix)
    with pytest.raises(PhrasescoreError, match=f"cache{suffix}: expected a plain file, found a"):
        ScoreCache(path)


def test_a_locked_cache_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("BEGIN EXCLUSIVE")
        _refused(path, "database is locked")


def test_a_cache_that_is_locked_for_too_long_while_in_use_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path), timeout=0.1) as cache:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            assert cache.lookup(keys(1)) == [None]  # reading goes on
            with pytest.raises(PhrasescoreError, match="database is locked"):
                cache.store(keys(1), [-1.0])
        cache.store(keys(1), [-1.0])
        assert cache.lookup(keys(1)) == [-1.0]


def test_a_corrupt_cache_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)) as cache:
        cache.store(keys(5000), [-1.0] * 5000)
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"Z" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    with ScoreCache(str(path)) as cache:
        with pytest.raises(PhrasescoreError, match=r"cache: .* malformed; name a new file"):
            cache.lookup(keys(5000))
        with pytest.raises(PhrasescoreError, match=r"cache: .* malformed; name a new file"):
            cache.store(keys(1, "new"), [-1.0])


@pytest.mark.parametrize("value", [b"short", bytes(32), struct.pack("<d", math.nan)])
def test_an_entry_that_is_no_score_is_an_error(tmp_path: Path, value: bytes) -> None:
    path = tmp_path / "cache"
    with ScoreCache(str(path)):
        pass
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO scores VALUES (?, ?)", (keys(1)[0], value))
        database.commit()
    message = "the score cache is damaged: found"
    with ScoreCache(str(path)) as cache, pytest.raises(PhrasescoreError, match=message):
        cache.lookup(keys(1))


def test_a_folder_a_missing_folder_and_a_folder_s_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, message in [
        (tmp_path, "unable to open database file"),
        (tmp_path / "none" / "cache", "unable to open database file"),
        (tmp_path / "file" / "cache", "unable to open database file"),
    ]:
        with pytest.raises(PhrasescoreError, match=message):
            ScoreCache(str(path))


def test_an_empty_file_becomes_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.touch()  # as from mktemp
    with ScoreCache(str(path)) as cache:
        cache.store(keys(1), [-1.0])
        assert cache.lookup(keys(1)) == [-1.0]


@pytest.mark.parametrize("size", [0, 4096, 12_288])
def test_a_disk_without_space_is_one_error_and_no_thread_s_own(tmp_path: Path, size: int) -> None:
    # An error in sqlitedict's thread would be a warning of pytest's, and so a failure.
    with _small_disk(size), pytest.raises(PhrasescoreError, match=_FULL):
        ScoreCache(str(tmp_path / "scores"))


def test_a_full_disk_costs_what_could_not_be_stored_and_leaves_no_other_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "scores"
    cache = ScoreCache(str(path))
    cache.store(keys(400), [-1.0] * 400)
    with _small_disk(20_000):
        with cache, pytest.raises(PhrasescoreError, match=_FULL):
            cache.store(keys(400, "new"), [-1.0] * 400)
        assert [file.name for file in tmp_path.iterdir()] == ["scores"]
    with ScoreCache(str(path)) as cache:
        assert cache.lookup(keys(400)) == [-1.0] * 400
        assert cache.lookup(keys(400, "new")) == [None] * 400


_FULL = r"scores: cannot use this score cache: "


@contextmanager
def _small_disk(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
