"""A short run of the campaign: each reader gets a damaged file.

`make fuzz CASES=50000` is a long one; docs/reliability.md has what it found.
"""

from pathlib import Path

import pytest

from tests.fuzz.arena import DEADLINE, Arena
from tests.fuzz.campaign import run_cases
from tests.fuzz.material import make_material
from tests.fuzz.subjects import SUBJECTS

CASES = 1


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
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (subject.share < 1))
        for name, subject in SUBJECTS.items()
    ],
)
def test_a_damaged_file_is_refused_in_a_line_or_taken_whole(arena: Arena, name: str) -> None:
    subject = SUBJECTS[name]
    # The files as they are are taken: a command that refuses everything would pass. This run may
    # compile kernels first.
    outcome = arena.run(subject.words, deadline=2 * DEADLINE)
    assert outcome.status == 0, outcome
    assert subject.check is None or subject.check() is None
    arena.restore()
    result = run_cases(arena, name, range(CASES))
    assert result.refused + result.taken == CASES
    assert not result.findings
