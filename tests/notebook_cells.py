"""Run the code cells of a notebook in a process of its own, without Jupyter.

``python -m tests.notebook_cells NOTEBOOK`` stores the outputs in the notebook.
"""

import ast
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.forked import Forked, run_script

# Lines that end the standard output of a cell, and the value of its last expression.
_PRINTED, _VALUE = "=== printed ===", "=== value ==="


def read_notebook(path: Path) -> dict[str, Any]:
    """Return the JSON of a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored_output(cell: dict[str, Any]) -> tuple[str, str]:
    """Return what a cell printed, and the value of its last expression, as they are stored."""
    printed = value = ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            printed += "".join(output["text"])
        else:
            value += "".join(output["data"]["text/plain"])
    return printed, value


def run_cells(cells: list[dict[str, Any]], folder: Path) -> list[tuple[str, str]]:
    """Run cells in a folder as one program; return what each printed, and its last value."""
    program = "\n".join(_code("".join(cell["source"])) for cell in cells)
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(program)
        file.flush()
        process = Forked(run_script, file.name, cwd=folder)
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr.decode()
    outputs = []
    for output in stdout.decode().split(f"{_VALUE}\n")[:-1]:
        printed, value = output.split(f"{_PRINTED}\n")
        outputs.append((printed, value.removesuffix("\n")))
    return outputs


def _code(source: str) -> str:
    """Return a cell's code that also prints the value of its last expression."""
    lines, last = source.splitlines(), ast.parse(source).body[-1]
    value = "None"
    if isinstance(last, ast.Expr):
        value = "\n".join(lines[last.lineno - 1 :])
        lines = lines[: last.lineno - 1]
    show = ["if _ is not None:", "    print(repr(_))"]
    return "\n".join(
        [*lines, f"_ = (\n{value}\n)", f"print({_PRINTED!r})", *show, f"print({_VALUE!r})"]
    )


def _store(path: Path) -> None:
    notebook = read_notebook(path)
    cells = code_cells(notebook)
    for number, (cell, output) in enumerate(
        zip(cells, run_cells(cells, path.parent), strict=True), start=1
    ):
        printed, value = (text.splitlines(keepends=True) for text in output)
        cell["execution_count"], cell["outputs"] = number, []
        if printed:
            stream = {"name": "stdout", "output_type": "stream", "text": printed}
            cell["outputs"].append(stream)
        if value:
            cell["outputs"].append(
                {
                    "data": {"text/plain": value},
                    "execution_count": number,
                    "metadata": {},
                    "output_type": "execute_result",
                }
            )
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    _store(Path(sys.argv[1]))
