"""Promises of phrasescore.errors: str() is the whole message for the user."""

import errno

import pytest

from phrasescore.errors import ConfigError, DataError, ModelError, PhrasescoreError, file_problem


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("table.gz", 7, "expected x, found y"), "table.gz:7: expected x, found y"),
        (DataError("table.gz", None, "no lines"), "table.gz: no lines"),
        (DataError("-", 7, "no"), "<stdin>:7: no"),
        (DataError("-", None, "no"), "<stdin>: no"),
        (ConfigError("a.toml", "[model] size", "bad"), "a.toml: [model] size: bad"),
        (ConfigError("a.toml", None, "bad"), "a.toml: bad"),
        (ModelError("bad"), "bad"),
    ],
)
def test_the_message_says_where_and_what(error: PhrasescoreError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, PhrasescoreError)


def test_the_parts_of_an_error_stay_available() -> None:
    data = DataError("-", 7, "no")
    assert (data.path, data.line, data.problem) == ("-", 7, "no")
    config = ConfigError("a.toml", "[model] size", "bad")
    assert (config.path, config.key, config.problem) == ("a.toml", "[model] size", "bad")


def test_no_place_for_temporary_files_is_a_problem_of_the_machine() -> None:
    error = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert file_problem(error) == "No usable temporary directory found in ['/tmp']"
    assert file_problem(OSError(errno.EBADF, "Bad file descriptor")) is None  # a bug
