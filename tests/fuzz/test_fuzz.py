"""Each reader gets damaged files.

``make fuzz CASES=500`` is a long run; docs/reliability.md has what it found. A case is played again
by ``FIRST=123 .venv/bin/python -m pytest tests/fuzz -m "" -k "rescore and cache"``.
"""

import math
import os
from pathlib import Path

import pytest

from tests.fuzz.arena import DEADLINE, Arena
from tests.fuzz.cases import run_case
from tests.fuzz.material import make_material
from tests.fuzz.subjects import SUBJECTS

# The number of the first case, and how many there are of each subject.
FIRST, CASES = int(os.environ.get("FIRST", "0")), int(os.environ.get("CASES", "1"))
_BATCH = 50  # cases of a test


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "pristine"
    make_material(folder)
    return folder


@pytest.fixture
def arena(material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.chdir(tmp_path)
    return Arena(material, tmp_path / "arena")


@pytest.mark.parametrize(
    ("name", "first", "end"),
    [
        pytest.param(
            *(name, first, min(first + _BATCH, FIRST + count)),
            marks=[pytest.mark.slow] * (subject.share < 1 or CASES > 1),
        )
        for name, subject in SUBJECTS.items()
        for count in [math.ceil(subject.share * CASES)]
        for first in range(FIRST, FIRST + count, _BATCH)
    ],
)
def test_damaged_files_are_refused_in_a_line_or_taken_whole(
    arena: Arena, name: str, first: int, end: int
) -> None:
    subject = SUBJECTS[name]
    # The files as they are are taken: a command that refuses everything would pass. This run may
    # compile kernels first.
    outcome = arena.run(subject.words, deadline=2 * DEADLINE)
    assert outcome.status == 0, outcome
    assert subject.check is None or subject.check() is None
    arena.restore()
    problems = [run_case(arena, name, number) for number in range(first, end)]
    assert not [*filter(None, problems)]
