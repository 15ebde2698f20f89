"""What the verbs load: each module that is not needed is waited for at every call."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny_arpa import TINY_ARPA

# Without the compiler, which loads scipy.linalg, numba only runs code that was kept.
HEAVY = {"torch", "numba", "scipy.linalg", "sympy", "torch._dynamo", "matplotlib", "ray"}
_LOADED = """\
import sys
from phrasescore.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("--help", set()),
        ("train --help", set()),
        ("evaluate t --references t", set()),
        ("perplexity t --lm lm", set()),
        ("build-lm t --order 2 --discount-fallback -o model", {"numba"}),
        ("train rnnsearch s t --updates 1 --device cpu -o model", {"torch", "numba"}),
    ],
)
def test_a_verb_loads_only_what_it_needs(command: str, wanted: set[str], tmp_path: Path) -> None:
    call = (sys.executable, "-c", _LOADED, *command.split())
    for run in ("first", "second"):  # the first call may compile
        folder = tmp_path / run
        folder.mkdir()
        (folder / "lm").write_text(TINY_ARPA)
        for name in "st":
            lines = "".join(f"{name} {number} .\n" for number in range(80))
            (folder / name).write_text(lines)
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert HEAVY.intersection(done.stderr.splitlines()) == wanted
