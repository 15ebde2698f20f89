"""Packages with features, installed by pip into an empty folder: used, and refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked, run_script
from tests.plugin_site import BROKEN, GOOD, REPOSITORY


def run(*arguments: str, cwd: Path, site: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{site}"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_packages_that_pip_installs_are_used_and_refused(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    site = tmp_path / "site"
    projects = [shutil.copytree(path, tmp_path / path.name) for path in (GOOD, BROKEN)]
    alone = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    done = run("pip", "install", "-qq", *alone, "--target", str(site), *map(str, projects),
               cwd=tmp_path, site=site)  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The example's own tests, against the package that is installed.
    (projects[0] / "outside_feature.py").unlink()
    done = run("pytest", "-q", "-p", "no:cacheprovider", cwd=projects[0], site=site)
    assert done.returncode == 0, done.stdout
    (tmp_path / "table").write_text("the maison ||| la maison ||| 0.5 ||| 0-0 1-1 ||| 1 1 1\n")
    (tmp_path / "out").write_text("old")
    arguments = ("phrasescore", "annotate", "table", "-o", "out", "--feature")
    done = run(*arguments, "raises", cwd=tmp_path, site=site)
    reason = r"value 2: it raised KeyError: 'no such word:\nmaison'"
    problem = f"Error: broken-package 0.1: feature raises: {reason}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", problem)
    assert (tmp_path / "out").read_text() == "old"
    done = run(*arguments, "copied_words", cwd=tmp_path, site=site)
    assert done.returncode == 0, done.stderr
    assert "||| 0.5 2.718282 |||" in (tmp_path / "out").read_text()


@pytest.mark.timeout(600)
def test_the_examples_of_the_how_to_page_keep_their_contracts(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "your-own-feature.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "how_to.py").write_text("\n".join([*blocks, "test_long_words()"]))
    process = Forked(run_script, str(tmp_path / "how_to.py"))
    _, errors = process.communicate()
    assert (len(blocks), process.returncode, errors) == (2, 0, b"")
