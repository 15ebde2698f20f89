"""The package as a user gets it: built, checked, installed without any tool, and used."""

import ast
import gzip
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import phrasescore
from phrasescore.version import __version__

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("phrasescore", "moses_integration", "tuning")
# What git ignores, and git.
NO_SOURCE = (
    *(".git", ".venv", "*.egg-info", "__pycache__", "build", "dist", "site", "demo-output"),
    *(".cache", ".*_cache", ".hypothesis"),
)
TOOLS = ("build", "hypothesis", "mypy", "pytest", "ruff", "twine")
EXAMPLE = REPOSITORY / "examples" / "english-french"
INSTALL = REPOSITORY / "docs" / "install.md"


def _run(*words: str | Path, cwd: Path, succeeds: bool = True) -> subprocess.CompletedProcess[str]:
    away = {"PYTHONPATH", "VIRTUAL_ENV"}
    environment = {name: text for name, text in os.environ.items() if name not in away}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == succeeds, (words, done.stdout, done.stderr)
    return done


def _build(folder: Path) -> tuple[Path, Path, set[str]]:
    source = folder / "source"
    shutil.copytree(REPOSITORY, source, ignore=shutil.ignore_patterns(*NO_SOURCE))
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ".")
    built = _run(*command, cwd=source)
    assert "deprecat" not in built.stderr.lower()
    (package,), (wheel,) = (list((folder / "dist").glob(kind)) for kind in ("*.tar.gz", "*.whl"))
    return package, wheel, files


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"phrasescore-{__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


def _required(names: list[str]) -> Iterator[Distribution]:
    waiting, seen = [Requirement(name) for name in names], set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        found = distribution(name)
        yield found
        waiting += map(Requirement, found.requires or ())


def _install(wheel: Path, folder: Path, *options: str) -> Path:
    """Return the programs of a new environment that has the wheel, what it requires, and no more.

    Requirements are linked from this environment, so that no network is needed.

    :param options: of pip, which checks that no requirement is missing, or with --no-deps does not.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    (packages,) = folder.glob("lib/python*/site-packages")
    for found in _required(_metadata(wheel).get_all("Requires-Dist") or []):
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
    programs = folder / "bin"
    usual = ("--no-index", "--no-compile", "--disable-pip-version-check", "--quiet")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install")
    _run(*pip, *usual, *options, wheel, cwd=folder)
    return programs


@pytest.mark.slow
def test_source_and_wheel_are_built_and_run_where_no_tool_is(tmp_path: Path) -> None:
    package, wheel, files = _build(tmp_path)
    _run(sys.executable, "-m", "twine", "check", "--strict", package, wheel, cwd=tmp_path)

    with tarfile.open(package) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert files - packed == {".gitignore"} & files
    with zipfile.ZipFile(wheel) as archive:
        wheeled = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert wheeled == {name for name in files if name.partition("/")[0] in PACKAGES}

    metadata = _metadata(wheel)
    assert metadata["Version"] == __version__
    assert metadata["Author"] in (REPOSITORY / "LICENSE").read_text(encoding="utf-8").replace(
        "the phrasescore", "The phrasescore"
    )
    assert metadata["License-Expression"] == "MIT"

    programs = _install(wheel, tmp_path / "environment", "--no-deps")
    code = f"import importlib.util as u; print([n for n in {TOOLS!r} if u.find_spec(n)])"
    assert _run(programs / "python", "-c", code, cwd=tmp_path).stdout == "[]\n"
    said = _run(programs / "phrasescore", "--version", cwd=tmp_path)
    assert said.stdout == f"phrasescore {__version__}\n"

    # The page's list of requirements without kenlm is the list of all others.
    (code,) = re.findall(r"python -c '(.+?)' > needed.txt", INSTALL.read_text("utf-8"), re.DOTALL)
    needed = _run(programs / "python", "-c", code, cwd=tmp_path).stdout.splitlines()
    required = metadata.get_all("Requires-Dist") or []
    others = {text for text in required if "extra ==" not in text} - {*needed}
    assert [Requirement(text).name for text in others] == ["kenlm"]


@pytest.mark.slow
def test_the_first_recipe_of_the_readme_runs_where_no_tool_and_no_kenlm_is(tmp_path: Path) -> None:
    _, wheel, _ = _build(tmp_path)
    programs = _install(wheel, tmp_path / "environment")
    shown = _run(programs / "phrasescore", "show", cwd=tmp_path).stdout
    assert re.search("^kenlm +[0-9]", shown, re.MULTILINE)
    assert re.search("^ray +missing, for --engine ray", shown, re.MULTILINE)
    for link in (tmp_path / "environment").glob("lib/python*/site-packages/kenlm*"):
        link.unlink()
    for name in ("train.en.gz", "train.fr.gz"):
        (tmp_path / name[:-3]).write_bytes(gzip.decompress((EXAMPLE / name).read_bytes()))
    for name in ("dev.en", "dev.fr", "test.en", "test.fr", "news.en"):
        text = (EXAMPLE / name.replace("news", "test")).read_bytes()
        (tmp_path / name).write_bytes(b"".join(text.splitlines(keepends=True)[:100]))
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    section = readme.partition("**1. ")[2].partition("\n**")[0]
    recipe = re.findall(r"^\$ phrasescore (.+)$", section, re.MULTILINE)
    assert [line.split()[0] for line in recipe[:4]] == ["build", "init", "experiment", "translate"]
    recipe[2] += " --rows Baseline"  # the others train for an hour
    for line in recipe[:4]:
        _run(programs / "phrasescore", *shlex.split(line), cwd=tmp_path)
    assert len((tmp_path / "news.fr").read_text(encoding="utf-8").splitlines()) == 100
    (tmp_path / "lm").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    score = (programs / "phrasescore", "score", "news.en", "news.fr", "--lm", "lm")
    said = _run(*score, cwd=tmp_path, succeeds=False)
    assert said.stderr.startswith("Error: kenlm is not installed")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("CITATION.cff", f"version: {__version__}"),
        ("CITATION.cff", "license: MIT"),
        ("README.md", f"  version = {{{__version__}}},"),
        ("docs/release-notes.md", f"## {__version__}"),
    ],
)
def test_every_file_names_this_version(name: str, line: str) -> None:
    assert line in (REPOSITORY / name).read_text(encoding="utf-8").splitlines()


def test_the_changelog_and_the_citation_name_one_day_of_release() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    (day,) = re.findall(rf"^## \[{re.escape(__version__)}\] - (.+)$", changelog, re.MULTILINE)
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"date-released: {day}" in citation


@pytest.mark.parametrize("name", phrasescore.__all__)
def test_each_public_name_has_an_example_that_its_function_accepts(name: str) -> None:
    public = {each: getattr(phrasescore, each) for each in dir(phrasescore)}
    text = inspect.getdoc(public[name]) or ""
    assert text.count("Example::\n\n") == 1
    nodes = list(ast.walk(ast.parse(inspect.cleandoc(f"\n{text.partition('Example::')[2]}"))))
    assert name in [node.id for node in nodes if isinstance(node, ast.Name)]
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        called = public.get(ast.unparse(call.func).removeprefix("phrasescore."))
        if called is not None and all(each.arg for each in call.keywords):
            given = {str(each.arg): each.value for each in call.keywords}
            inspect.signature(called).bind(*call.args, **given)
