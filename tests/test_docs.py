"""What is promised in words: help, README, docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from phrasescore.cli import VERBS, main

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("phrasescore", "moses_integration", "tuning")
PYTHON_FILES = sorted(
    path
    for folder in (*PACKAGES, "tests", "examples")
    for path in (REPOSITORY / folder).rglob("*.py")
)
MODULES = [path for path in PYTHON_FILES if path.relative_to(REPOSITORY).parts[0] in PACKAGES]


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command below the group with its words, groups before what is in them."""
    waiting: list[tuple[str, click.Command]] = [("phrasescore", main)]
    while waiting:
        words, command = waiting.pop()
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                assert member is not None, f"{words} lists {name} and has it not"
                waiting.append((f"{words} {name}", member))


def test_every_command_shows_help_and_exits_0() -> None:
    for words, _ in _commands():
        result = CliRunner().invoke(main, [*words.split()[1:], "--help"])
        assert (result.exit_code, result.stderr) == (0, ""), words
        assert result.stdout.startswith("Usage: "), words


def test_every_command_and_option_is_explained() -> None:
    silent = []
    for words, command in _commands():
        if not command.help:
            silent.append(words)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.help:
                silent.append(f"{words} {parameter.opts[0]}")
            # An argument has no help of its own in click: the command's text names it.
            if isinstance(parameter, click.Argument):
                shown = parameter.metavar or parameter.human_readable_name
                if not re.search(re.sub(r"\W+", "|", shown), command.help or "", re.IGNORECASE):
                    silent.append(f"{words} {shown}")
    assert silent == []


def test_every_verb_is_in_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"phrasescore {verb}" not in readme] == []


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_every_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_public_function_and_class_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name, node in _public(tree, "") if not ast.get_docstring(node)] == []


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _public(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, _Definition]]:
    """Yield public definitions of a module and, one level down, of its public classes."""
    for node in parent.body:
        if not isinstance(node, _Definition) or node.name.startswith("_"):
            continue
        yield f"{prefix}{node.name}", node
        # The methods of a torch.autograd.Function are torch's; its class explains it.
        if isinstance(node, ast.ClassDef) and not _is_autograd_function(node):
            yield from _public(node, f"{node.name}.")


def _is_autograd_function(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("Function", "torch.autograd.Function") for base in node.bases)


# What could run code that a file holds.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_nothing_runs_code_that_it_loads(path: Path) -> None:
    found = _code_loaders(ast.parse(path.read_text(encoding="utf-8")))
    assert [f"{_name(path)}:{line}: {what}" for line, what in found] == []


def _code_loaders(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in _suspicious_call(node))
            continue
        else:
            continue
        yield from ((node.lineno, name) for name in names if name in FORBIDDEN_MODULES)


def _suspicious_call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
        yield node.func.id
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if (keyword.arg, value) in (
            ("shell", True),
            ("weights_only", False),
            ("allow_pickle", True),
        ):
            yield f"{keyword.arg}={value!r}"
    if ast.unparse(node.func) in ("torch.load", "os.system", "os.popen"):
        yield ast.unparse(node.func)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import load",
        "eval(text)",
        "exec(text)",
        "run(text, shell=True)",
        "torch.load(path, weights_only=False)",
        "numpy.load(path, allow_pickle=True)",
    ],
)
def test_the_search_for_code_loaders_finds_them(code: str) -> None:
    assert len(list(_code_loaders(ast.parse(code)))) >= 1
