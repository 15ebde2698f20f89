"""Features of other packages: found, listed, used, and refused with the reason."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from phrasescore.version import __version__
from tests.command_line import run, succeeded
from tests.plugin_site import BROKEN, GOOD, REPOSITORY, install

NBEST = """0 ||| la maison ||| LM0= -1 ||| -1
0 ||| la maison ( ||| LM0= -2 ||| -2
1 ||| une maison noire ||| LM0= -3 ||| -3
1 ||| la rue ||| LM0= -4 ||| -4
"""
SOURCE = "the maison\nthe rue noire\n"
REFERENCE = "la maison\nune rue\n"
TABLE = (
    "the maison ||| la maison ||| 0.5 ||| 0-0 1-1 ||| 1 1 1\nof ||| de ||| 1 ||| 0-0 ||| 1 1 1\n"
)

# The features of the broken package, and the reasons for which each is refused.
REFUSED = {
    "too_few": "expected 2 values, one per pair, got only 1",
    "too_many": "expected 2 values, one per pair, got more",
    "not_a_number": "expected a finite float, got nan for the pair 'the maison ||| la maison ('",
    "infinite": "expected a finite float, got inf for the pair 'the maison ||| la maison'",
    "whole": "expected a finite float, got 2 for the pair 'the maison ||| la maison'",
    "raises": r"value 2: it raised KeyError: 'no such word:\nmaison'",
    "nothing": "value 1: it raised TypeError: 'NoneType' object is not iterable",
    "no_values": "expected a class with a method values(pairs)",
    "not_made": "it cannot be created: TypeError: NotMade.__init__() missing 1 required positional "
    "argument: 'path'",
    "not_there": "its import failed: AttributeError: module 'broken_features' has no attribute "
    "'NotThere'",
    "not_a_class": "expected a class at broken_features:NOT_A_CLASS, found 3",
    "ends": "its import failed: SystemExit: 0",
    "not_imported": "its import failed: ImportError: expected another version of something",
    "target_length": f"phrasescore {__version__} has a feature of this name itself",
    "Odd-Name": "expected a name of a-z, 0-9 and '_' that begins with a letter",
}


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where packages are installed; the files of the tests are in the current one."""
    for name, text in (("nbest", NBEST), ("source", SOURCE), ("table", TABLE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "reference").write_text(REFERENCE)
    (tmp_path / "weights").write_text("LM0= 1\n")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "site"
    folder.mkdir()
    install(GOOD, folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def rescore(*arguments: str) -> Result:
    return run("rescore", "nbest", "--source", "source", *arguments)


def error_of(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (1, "")
    errors = [line for line in result.stderr.splitlines() if not line.startswith("phrasescore: ")]
    assert len(errors) == 1
    return errors[0].removeprefix("Error: ")


def test_a_feature_of_another_package_is_a_column_of_lists_tables_and_text() -> None:
    result = succeeded(rescore("--feature", "copied_words", "--feature", "uneven_brackets"))
    # By hand: "maison" and "noire" are copied, "rue" is too short.
    assert re.findall("LM0= -. (.*) \\|\\|\\|", result.stdout) == [
        "CopiedWords0= 1 UnevenBrackets0= 0",
        "CopiedWords0= 1 UnevenBrackets0= 1",
        "CopiedWords0= 1 UnevenBrackets0= 0",
        "CopiedWords0= 0 UnevenBrackets0= 0",
    ]
    assert "CopiedWords0: 4 values, 0.75 on average" in result.stderr
    for engine in ("here", "processes"):
        result = run("annotate", "table", "--feature", "copied_words", "--engine", engine)
        assert "||| 0.5 2.718282 |||" in result.stdout.splitlines()[0]
        assert "||| 1 1 |||" in result.stdout.splitlines()[1]
        assert "2 values, 0.5 on average" in result.stderr
    result = run("score", "source", "reference", "--feature", "copied_words")
    assert (result.exit_code, result.stdout) == (0, "1\n0\n")


def test_a_feature_for_lists_alone_is_refused_of_a_table_with_its_reason() -> None:
    result = run("annotate", "table", "--feature", "uneven_brackets")
    assert result.exit_code == 2
    reason = "a phrase may open a bracket that the next one closes"
    assert f"feature uneven_brackets is only for rescore: {reason}" in result.stderr


def test_all_names_are_listed_with_where_they_are_from(site: Path) -> None:
    install(BROKEN, site)
    result = run("show")
    assert (result.exit_code, result.stderr) == (0, "")
    facts = json.loads(run("show", "--format", "json").stdout)["facts"]
    about = "The number of source words that the translation has letter for letter."
    assert facts["feature copied_words"] == f"{about} (outside-feature 1.0.0)"
    assert facts["feature uneven_brackets"].endswith(" Only for lists. (outside-feature 1.0.0)")
    assert facts["feature target_length"].endswith(" Only for lists.")
    assert facts["feature unknown_words"].endswith("shortlists. Needs --model.")
    assert facts["metrics"].endswith("cer; tune has no multi-bleu, chrf, chrf++, ter")
    refused = {name for name in facts if name.startswith("refused feature ")}
    names = ("not_there", "not_a_class", "ends", "not_imported", "target_length", "Odd-Name")
    assert refused == {f"refused feature {name}" for name in names}
    for name in names:
        assert facts[f"refused feature {name}"] == f"broken-package 0.1: {REFUSED[name]}"
    shown = " ".join(result.stdout.split())
    assert all(f"{name} {' '.join(text.split())}" in shown for name, text in facts.items())


@pytest.mark.parametrize("name", REFUSED)
def test_a_feature_that_breaks_the_contract_is_refused_in_one_line(site: Path, name: str) -> None:
    install(BROKEN, site)
    Path("out").write_text("old")
    found = error_of(rescore("--feature", "copied_words", "--feature", name, "-o", "out"))
    assert found == f"broken-package 0.1: feature {name}: {REFUSED[name]}"
    assert Path("out").read_text() == "old"


@pytest.mark.parametrize("name", ["too_few", "too_many", "infinite", "whole", "raises"])
def test_a_table_and_text_refuse_it_too(site: Path, name: str) -> None:
    install(BROKEN, site)
    Path("out").write_text("old")
    options = ("--feature", name, "-o", "out")
    found = [
        error_of(run("annotate", "table", *options)),
        error_of(run("score", "source", "reference", *options)),
    ]
    if name == "too_many":
        found.append(error_of(run("annotate", "table", *options, "--engine", "processes")))
    beginning = re.escape(f"broken-package 0.1: feature {name}: ")
    assert all(re.match(f"{beginning}(expected|value)", line) for line in found), found
    assert Path("out").read_text() == "old"


def test_a_name_of_two_packages_is_refused(site: Path) -> None:
    install(GOOD, site, name="another", version="3")
    problem = "installed 2 times under this name, by another 3 and outside-feature 1.0.0"
    found = error_of(rescore("--feature", "copied_words"))
    assert found == f"another 3: feature copied_words: {problem}"
    assert problem in " ".join(run("show").stdout.split())


def test_names_that_nobody_has_are_refused_with_those_there_are() -> None:
    result = rescore("--feature", "copied_word")
    assert result.exit_code == 2
    assert re.search("expected one of length_ratio, .*, copied_words, unev", result.stderr)


def test_the_current_folder_and_a_model_s_are_not_searched(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    install(BROKEN, folder)
    # Modules that would say so if they were imported.
    for name in ("broken_features", "ends_python", "not_importable"):
        (folder / f"{name}.py").write_text("open('imported', 'w').close()\n")
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tmp_path / 'site'}"}
    done = subprocess.run(
        [sys.executable, "-m", "phrasescore", "show"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "outside-feature" in done.stdout
    assert "broken-package" not in done.stdout
    assert not (folder / "imported").exists()
