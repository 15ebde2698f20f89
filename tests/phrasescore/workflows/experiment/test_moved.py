"""An experiment that is moved, copied, or named in another way: its steps are done."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni
from phrasescore.features.program import Command
from phrasescore.systems.system import read_system
from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.workflows.experiment.experiment_folder import planned
from tests.phrasescore.workflows.experiment.tiny_language import write_language

ROW = (
    "{name = '+mine', columns = ['encoder-decoder'], "
    "lists = ['encoder-decoder', 'qe', 'lexicon', 'length_ratio']}"
)
SYSTEMS = f"systems = ['Baseline', '+RNN', {ROW}]\n"
FEATURES = "[features]\nqe.command = 'sh qe.sh --model lex.f2e'\nlexicon.lexicon = 'lex.f2e'\n"


@pytest.fixture
def here(doubles: Path) -> Path:
    """Return a folder with an experiment that is done; the language model is outside."""
    here = doubles / "here"
    here.mkdir()
    for name in ("train.en", "train.fr", "dev.en", "dev.fr", "test.en", "test.fr", "table"):
        (doubles / name).rename(here / name)
    (doubles / "moses.ini").rename(here / "moses.ini")
    (here / "qe.sh").write_text("while read line; do echo 0; done\n")
    (here / "lex.f2e").write_text("a b 1\n")
    text = (doubles / "x.toml").read_text().partition("\n")[2]
    (here / "x.toml").write_text(f"{SYSTEMS}{text}{FEATURES}")
    succeeded(run("experiment", "here/x.toml", "-o", "here/out"))
    (doubles / "calls").unlink()
    return here


def check_done(config: Path | str, out: Path | str) -> None:
    """Check that all steps are done, and that all that is written names what there is."""
    assert [state for state, _ in planned(config=config, out=out)] == ["done"] * 8
    assert "8 of 8 steps are done" in succeeded(run("experiment", config, "-o", out)).stderr
    systems = sorted(Path(out).glob("*/system.toml"))
    assert len(systems) == 3
    for path in systems:
        # A missing file is an error.
        system = read_system(path)
        assert all(map(os.path.exists, map(str, named_files(system.read_ini()))))
        for column in system.lists:
            if isinstance(column, Command):
                assert all(os.path.exists(word) for word in column.words()[1::2])
    for path in Path(out).rglob("moses.ini"):
        assert all(file.exists() for file in named_files(MosesIni.read(str(path), path.parent)))


def written(out: Path) -> str:
    """Return the text of all files except logs, whose commands were run as they stand there."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    return "".join(path.read_text() for path in files if path.parent.name != "logs")


def test_what_is_written_names_no_folder_of_the_user(here: Path) -> None:
    outside = str(here.parent / "lm.arpa")  # named by an absolute path
    assert outside in written(here / "out")
    assert str(here.parent) not in written(here / "out").replace(outside, "")


@pytest.mark.parametrize(
    "move",
    [
        lambda here: here.rename(here.parent / "there"),
        lambda here: shutil.copytree(here, here.parent / "there", copy_function=shutil.copy),
        lambda here: here.rename(here.parent / "a folder"),
        lambda here: here.rename(here.parent / "deep" / "there"),
    ],
    ids=["moved", "copied", "blank", "deeper"],
)
def test_all_steps_are_done_where_the_folder_moves(
    here: Path, move: Callable[[Path], Path | None]
) -> None:
    (here.parent / "deep").mkdir()
    there = move(here) or here
    if here.exists():
        shutil.rmtree(here)
    check_done(there / "x.toml", there / "out")
    assert not (here.parent / "calls").exists()


def test_all_steps_are_done_where_only_the_results_move(here: Path) -> None:
    (here.parent / "disk").mkdir()
    (here / "out").rename(here.parent / "disk" / "out")
    check_done("here/x.toml", "disk/out")
    # A link to the results, which are elsewhere.
    (here / "out").symlink_to(here.parent / "disk" / "out")
    check_done("here/x.toml", "here/out")
    assert not (here.parent / "calls").exists()


def test_all_steps_are_done_where_data_move_that_have_absolute_names(here: Path) -> None:
    data = here.parent / "data"
    (here / "out").rename(here.parent / "out")
    here.rename(data)
    text = (data / "x.toml").read_text()
    for name in ("moses.ini", "train.en", "train.fr", "dev.en", "dev.fr", "lex.f2e", "qe.sh"):
        text = text.replace(name, f"{data}/{name}")
    text = text.replace('source = "test.en"', f'source = "{data}/test.en"')
    (here.parent / "y.toml").write_text(text.replace('["test.fr"]', f'["{data}/test.fr"]'))
    check_done("y.toml", "out")
    named = [Path(name) for name in MosesIni.read("out/moses.ini").named_paths()]
    assert named == [data / "table", here.parent / "lm.arpa"]
    # These names do not depend on where the results are.
    (here.parent / "far" / "away").mkdir(parents=True)
    for path in [*Path("out").rglob("moses.ini"), *Path("out").rglob("system.toml")]:
        assert "../../../../" not in path.read_text()
    (here.parent / "out").rename(here.parent / "far" / "away" / "out")
    for path in Path("far").rglob("system.toml"):
        assert all(file.exists() for file in named_files(read_system(path).read_ini()))
    check_done("y.toml", "far/away/out")
    assert not (here.parent / "calls").exists()


def test_a_folder_that_a_moses_ini_cannot_name_is_refused(here: Path) -> None:
    (here / "the system").mkdir()
    for name in ("moses.ini", "table"):
        (here / name).rename(here / "the system" / name)
    text = (here / "x.toml").read_text()
    (here / "x.toml").write_text(text.replace('"moses.ini"', '"the system/moses.ini"'))
    problem = "expected a path without blanks and '#', found '../the system/table'"
    check_refusal(run("experiment", "here/x.toml", "-o", "here/new"), problem)


@pytest.mark.parametrize(
    ("working", "config", "out"),
    [
        ("here", "x.toml", "out"),
        ("here/out", "../x.toml", "."),
        (".", "{}/here/x.toml", "{}/here/out"),
        (".", "./here/../here/x.toml", "here/./out/../out/"),
        ("link", "x.toml", "{}/link/out"),
        (".", "link/x.toml", "link/out"),
        ("/", "{}/link/x.toml", "{}/here/out"),
    ],
)
def test_all_steps_are_done_whatever_the_working_folder_and_the_names(
    here: Path, monkeypatch: pytest.MonkeyPatch, working: str, config: str, out: str
) -> None:
    root = here.parent
    (root / "link").symlink_to("here")
    monkeypatch.chdir(root / working)
    check_done(config.format(root), out.format(root))
    assert not (root / "calls").exists()


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("dev.en", "dev.fr", 0),  # both have the same lines
        ("--model lex.f2e", "--model qe.sh", 2),
        ("replicas = 1", "replicas = 1\nseed = 2", 6),
        ("'length_ratio'", "'number_mismatch'", 2),
    ],
)
def test_a_name_is_no_setting_and_a_content_is_one(
    here: Path, old: str, new: str, changed: int
) -> None:
    config = here / "x.toml"
    config.write_text(config.read_text().replace(old, new))
    states = [state for state, _ in planned(config=config, out=here / "out")]
    assert states.count("to do") == changed


@pytest.mark.slow
def test_systems_translate_where_they_were_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.phrasescore.workflows.experiment.test_end_to_end import CONFIG

    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    write_language(tmp_path / "here")
    (tmp_path / "here" / "x.toml").write_text(CONFIG)
    succeeded(run("experiment", "here/x.toml", "-o", "here/out"))
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir("/")
    there = tmp_path / "there"
    lines = succeeded(run("experiment", there / "x.toml", "-o", there / "out", "--dry-run")).stdout
    assert " to do " not in lines
    again = tmp_path / "again"
    for own in [path.parent for path in sorted((there / "out").glob("*/system.toml"))]:
        command = ["translate", own, there / "test.s", "--workers", "1"]
        succeeded(run(*command, "-o", again))
        assert again.read_bytes() == (own / "test.out").read_bytes()
    # The experiment stands for its best row, and a moses.ini is a system, too.
    for system in (there / "out", there / "out" / "tables" / "encoder-decoder" / "moses.ini"):
        succeeded(run("translate", system, there / "test.s", "--workers", "1", "-o", again))
        assert again.read_text().count("\n") == (there / "test.s").read_text().count("\n")
