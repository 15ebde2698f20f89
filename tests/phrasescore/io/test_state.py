"""Promises of phrasescore.io.state: a state file is whole, of its kind, and of the same run."""

from pathlib import Path

import msgspec
import pytest

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.state import check_same_run, read_state, write_state


class Rounds(msgspec.Struct):
    number: int
    names: list[str] = []


def test_what_is_written_is_what_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_state(path, Rounds) is None
    for state in (Rounds(1), Rounds(2, ["\u00e9t\u00e9"])):
        write_state(path, state)
        assert read_state(path, Rounds) == state
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"\xff",
        b'{"number": 1}',
        b'{"format": 2, "number": 1}',
        b'{"format": 1, "number": "1"}',
        b'{"format": 1}',
    ],
)
def test_what_is_no_state_of_this_kind_and_format_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"state\.json: expected the state of a run of this version"
    ):
        read_state(path, Rounds)


def test_a_state_of_version_0_1_has_no_format(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b'{"number": 1}')
    assert read_state(path, Rounds, unversioned=True) == Rounds(1)


def test_a_state_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path}: cannot open: "):
        read_state(tmp_path, Rounds)
    path = tmp_path / "none" / "state.json"
    with pytest.raises(PhrasescoreError, match=f"{path}: cannot write: No such file"):
        write_state(path, Rounds(1))


def test_a_run_goes_on_only_with_what_it_was_begun_with() -> None:
    check_same_run({"a": 1, "b": [2]}, {"b": [2], "a": 1}, "w", "begin anew")
    problem = (
        r"^w was begun with another b \(2, now None\): resume it as it was begun, or begin anew$"
    )
    with pytest.raises(PhrasescoreError, match=problem):
        check_same_run({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 4}, "w", "begin anew")
