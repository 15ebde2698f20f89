"""What the verbs load: each module that is not needed is waited for at every call."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "numba", "scipy", "sympy", "torch._dynamo", "matplotlib", "ray"}
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
        ("train rnnsearch s t --updates 1 --device cpu -o model", {"torch", "numba", "scipy"}),
    ],
)
def test_a_verb_loads_only_what_it_needs(command: str, wanted: set[str], tmp_path: Path) -> None:
    for name in "st":
        lines = "".join(f"{name} {number} .\n" for number in range(80))
        (tmp_path / name).write_text(lines)
    call = (sys.executable, "-c", _LOADED, *command.split())
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert HEAVY.intersection(done.stderr.splitlines()) == wanted
