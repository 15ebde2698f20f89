"""The rules of the house that no linter knows."""

import ast
import configparser
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from phrasescore.cli import VERBS, main

REPOSITORY = Path(__file__).resolve().parent.parent
# Tests may be longer: tables of cases are read one row at a time.
MAX_LINES = {"tests": 500}
USUAL_MAX_LINES = 400
MAX_FUNCTION_LINES = 80  # without the docstring
MAX_PARAMETERS = 12
MAX_IMPORTS = 20  # of our modules, anywhere in a file
PACKAGES = ("phrasescore", "moses_integration", "tuning")
# The budget of the command line: whoever adds an option says which one goes. Help, -v and -q do not
# count. The plan's numbers for 0.4 are 20 verbs and 340 options; the numbers here only fall.
MAX_VERBS = 20
MAX_OPTIONS = 225
HEAVY = (
    *("torch", "numpy", "numba", "kenlm", "nltk", "sacremoses", "sqlitedict", "xopen"),
    *("matplotlib", "sacrebleu", "scipy", "sentencepiece", "sklearn", "thot"),
)


def _setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    return parser


def _requirements() -> list[Requirement]:
    setup = _setup()
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    return [Requirement(line) for text in texts for line in text.splitlines() if line.strip()]


def _pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_no_python_file_is_too_long_to_read() -> None:
    too_long = {}
    for folder in (*PACKAGES, "tests", "examples"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            length = len(path.read_text(encoding="utf-8").splitlines())
            if length >= MAX_LINES.get(folder, USUAL_MAX_LINES):
                too_long[str(path.relative_to(REPOSITORY))] = length
    assert too_long == {}


@functools.cache
def _trees() -> list[tuple[str, ast.Module]]:
    """Return the name and the syntax tree of each file of the product."""
    return [
        (str(path.relative_to(REPOSITORY)), ast.parse(path.read_text(encoding="utf-8")))
        for folder in PACKAGES
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
    ]


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}: {node.name}", node


def test_no_function_is_too_long_to_read() -> None:
    def length(node: ast.stmt) -> int:
        return (node.end_lineno or 0) - node.lineno + 1

    too_long = []
    for name, node in _functions():
        docstring = 0 if ast.get_docstring(node) is None else length(node.body[0])
        if length(node) - docstring > MAX_FUNCTION_LINES:
            too_long.append((name, length(node) - docstring))
    assert too_long == []


def test_no_function_has_too_many_parameters() -> None:
    counts = [
        (name, sum(isinstance(each, ast.arg) for each in ast.iter_child_nodes(node.args)))
        for name, node in _functions()
    ]
    assert [(name, count) for name, count in counts if count > MAX_PARAMETERS] == []


def test_no_file_imports_too_many_of_our_modules() -> None:
    modules = {name.removesuffix(".py").replace("/", ".") for name, _ in _trees()}
    counts = {}
    for name, tree in _trees():
        imported = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = (f"{node.module}.{each.name}" for each in node.names)
                imported.update(each if each in modules else str(node.module) for each in names)
        counts[name] = sum(each.partition(".")[0] in PACKAGES for each in imported)
    assert {name: count for name, count in counts.items() if count > MAX_IMPORTS} == {}


def test_constraints_pin_every_requirement_to_a_version_that_it_allows() -> None:
    pins = _pins()
    names = {canonicalize_name(wanted.name) for wanted in _requirements()}
    assert names - pins.keys() == set()
    for wanted in _requirements():
        assert pins[canonicalize_name(wanted.name)] in SpecifierSet(str(wanted.specifier)), wanted


def test_the_page_on_installing_names_the_pinned_torch() -> None:
    page = (REPOSITORY / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"pip install torch=={_pins()['torch']} --index-url" in page


def test_constraints_pin_exactly() -> None:
    assert [version for version in _pins().values() if not re.fullmatch(r"[0-9.]+", version)] == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from phrasescore.cli import main\n"
        f"for verb in ([], *([verb] for verb in {sorted(VERBS)!r})):\n"
        "    main([*verb, '--help'], standalone_mode=False)\n"
        f"    heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    if heavy:\n"
        "        sys.exit(f'{verb}: {heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_keeps_its_budget() -> None:
    context = click.Context(main)
    counts = {}
    for name in VERBS:
        verb = main.get_command(context, name)
        assert verb is not None
        options = {param.name for param in verb.params if isinstance(param, click.Option)}
        counts[name] = len(options - {"help_all", "verbose", "quiet"})
    rows = sorted(counts.items(), key=lambda row: -row[1])
    table = "".join(f"{count:4} {name}\n" for name, count in rows)
    sys.stdout.write(table + f"{sum(counts.values()):4} in {len(counts)} verbs\n")  # pytest -rP
    assert len(counts) <= MAX_VERBS
    assert sum(counts.values()) <= MAX_OPTIONS


def test_the_version_has_its_entry_in_the_changelog() -> None:
    from phrasescore import __version__

    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[(Unreleased|{re.escape(__version__)})\]", changelog, re.MULTILINE)


def test_files_agree_with_the_settings_for_editors() -> None:
    editor = configparser.ConfigParser()
    editor.read_string("[top]\n" + (REPOSITORY / ".editorconfig").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    length = project["tool"]["ruff"]["line-length"]
    assert editor["*.{py,pyi}"].getint("max_line_length") == length
    kinds = ("*.cfg", "*.css", "*.in", "*.js", "*.md", "*.py", "*.pyi", "*.toml", "*.yaml", "*.yml")
    unlike = [
        str(path.relative_to(REPOSITORY))
        for folder in ("", "docs/**/", "examples/**/", "moses_integration/**/", "phrasescore/**/",
                       "tests/[!d]*/**/", "tuning/**/")
        for kind in kinds
        for path in REPOSITORY.glob(folder + kind)
        if re.search(rb"[ \t\r]$|^\t|[^\n]\Z|\n\n\Z", path.read_bytes(), re.MULTILINE)
    ]  # fmt: skip
    assert unlike == []


def test_the_checks_before_a_commit_are_those_of_make_check() -> None:
    hooks = (REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    made = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"entry: \.venv/bin/(.*?)(?: --force-exclude)?$", hooks, re.MULTILINE)
    assert named == ["ruff check", "ruff format --check", "lint-imports"]
    assert [command for command in named if f"\t$(BIN)/{command}" not in made] == []


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "common", "misc", "base", "manager", "handler"}
    files = [path for path in REPOSITORY.glob("[a-z]*/**/*.py") if path.stem in vague]
    assert files == []


def test_no_compiled_generator_is_cached() -> None:
    # numba raises a KeyError where it compiles a caller of a generator that it has loaded from its
    # cache: after a first run that was killed, every later run would fail.
    found = []
    for name, node in _functions():
        decorators = " ".join(map(ast.unparse, node.decorator_list))
        is_cached = "KERNEL" in decorators or "kept_njit" in decorators
        if is_cached and any(isinstance(each, ast.Yield) for each in ast.walk(node)):
            found.append(name)
    assert found == []


def test_no_test_folder_is_a_package() -> None:
    assert list((REPOSITORY / "tests").rglob("__init__.py")) == []


def test_a_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = {}
    for folder in PACKAGES:
        for path in (REPOSITORY / folder).rglob("*.py"):
            for found in re.finditer(r"^class _?(\w+)", path.read_text("utf-8"), re.MULTILINE):
                places.setdefault(found[1], []).append(str(path.relative_to(REPOSITORY)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_programs_that_tests_start_heed_the_signals_that_the_tests_ignore() -> None:
    code = (
        "import signal, subprocess, sys\n"
        "numbers = (signal.SIGINT, signal.SIGHUP)\n"
        "for number in numbers:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"  # as nohup and a shell's &
        "import tests.conftest\n"
        "code = 'import signal; print(*map(signal.getsignal, (2, 1)))'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SIG_IGN" not in done.stdout
    assert "default_int_handler" in done.stdout
