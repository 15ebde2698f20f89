"""Promises of workflows.decode, called as a function."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.progress import Progress
from phrasescore.workflows.search_settings import moses_limits
from tests.phrasescore.cli.test_decode import INI, LM, TABLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "source").write_text("la maison\n\nxyz\nmaison\n")
    return tmp_path


def test_the_summary_has_the_figures_and_the_warnings_of_a_run(folder: Path) -> None:
    seen: list[Progress] = []
    (folder / "weights").write_text("LM0= 0.5\nRNN0= 1\n")
    done = phrasescore.decode(
        *(folder / "source", "moses.ini", folder / "out"),
        weights="weights",
        search=phrasescore.SearchSettings(processes=1),
        progress=seen.append,
    )
    assert (folder / "out").read_text() == "the house\n\nxyz\nhome\n"
    assert (done.sentences, done.untranslated, done.requests) == (4, 0, 0)
    assert done.warnings == ("moses.ini has no features for these weights: RNN0",)
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("decode", 4, True)


def test_arguments_that_do_not_go_together_are_refused(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="`distinct` and `alignment` go with `nbest`"):
        phrasescore.decode("source", "moses.ini", folder / "out", distinct=True)
    assert not (folder / "out").exists()


def test_limits_have_the_names_and_numbers_of_moses() -> None:
    settings = phrasescore.SearchSettings(stack_size=50, algorithm="cube", beam_threshold=0.0)
    found = {"stack": "50", "search-algorithm": "1", "beam-threshold": "0.0"}
    assert moses_limits(settings) == found
