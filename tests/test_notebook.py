"""The notebook in examples/ runs, and shows what it stores."""

import re
from pathlib import Path

import pytest

from tests.notebook_cells import code_cells, read_notebook, run_cells, stored_output

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "python.ipynb"
_NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d*)?(?:e[-+]\d+)?"


@pytest.mark.slow
def test_the_notebook_shows_what_it_stores() -> None:
    """Numbers may differ a little between processors; what a network writes may be different."""
    cells = code_cells(read_notebook(NOTEBOOK))
    for cell, found in zip(cells, run_cells(cells, NOTEBOOK.parent), strict=True):
        stored = stored_output(cell)
        assert [bool(text) for text in found] == [bool(text) for text in stored]
        if "varies" in cell["metadata"].get("tags", ()):
            continue
        for text, expected in zip(found, stored, strict=True):
            assert re.sub(_NUMBER, "0", text) == re.sub(_NUMBER, "0", expected)
            numbers, known = (
                [float(number.replace(",", "")) for number in re.findall(_NUMBER, each)]
                for each in (text, expected)
            )
            assert numbers == pytest.approx(known, rel=1e-3)
