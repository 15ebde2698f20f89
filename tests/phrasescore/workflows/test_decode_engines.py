"""Promises of workflows.decode on engines: the same files on each, and after a worker's death."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from phrasescore.workflows.decode import DecodeSummary
from phrasescore.workflows.search_settings import SearchSettings, choose_engine

import phrasescore
from moses_integration.decoder.moses import NbestRequest
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from phrasescore.workflows import embedded_search
from tests.doubles import RandomCslm
from tests.log import warnings
from tests.phrasescore.cli.test_decode import INI, LM, TABLE
from tests.ray_here import kill_worker, run_ray

HERE, PROCESSES = Compute(engine="here"), Compute(engine="processes", workers=2)
RAY = Compute(engine="ray", workers=2)


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    yield from run_ray()


@pytest.fixture(
    params=[PROCESSES, pytest.param(RAY, marks=pytest.mark.slow)], ids=["processes", "ray"]
)
def engine(request: pytest.FixtureRequest) -> Compute:
    if request.param is RAY:
        request.getfixturevalue("ray")
    return request.param


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "source").write_text("la maison\n\nder die das xyz maison ist bleue xyz\n" * 20)
    RandomCslm(["the", "house", "home"], order=3, path=tmp_path / "model")
    return tmp_path


def decode(
    name: str, engine: Compute | None, progress: Callable[[Progress], None] | None = None
) -> DecodeSummary:
    return phrasescore.decode(
        *("source", "moses.ini", f"{name}.out"),
        weights={"CSLM0": 0.5},
        nbest=NbestRequest(f"{name}.nbest", 4, alignment=True),
        search=SearchSettings(features=("cslm",), models=("model",), device="cpu"),
        engine=engine,
        progress=progress,
    )


def test_an_engine_changes_nothing_even_if_a_worker_is_killed(
    engine: Compute, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beginnings = []

    def kill_first(now: Progress) -> None:
        if not now.done and not now.finished:
            beginnings.append(now)
            kill_worker()

    here = decode("here", HERE)
    assert warnings(caplog)[0].startswith("140 of 200 source words are not in the table")
    assert decode("killed", engine, kill_first) == here
    assert len(beginnings) == 1
    for end in ("out", "nbest"):
        assert (folder / f"killed.{end}").read_bytes() == (folder / f"here.{end}").read_bytes()


def test_a_table_that_is_no_table_is_named(engine: Compute, folder: Path) -> None:
    (folder / "table").write_text("la maison ||| the house\n")
    with pytest.raises(PhrasescoreError, match="table:1: expected at least 3 fields"):
        decode("out", engine)
    assert not (folder / "out.out").exists()


def test_one_process_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", None)
    search = SearchSettings(processes=1)
    assert phrasescore.decode("source", "moses.ini", "out", search=search).sentences == 60
    assert phrasescore.decode("source", "moses.ini", "out", engine=HERE).sentences == 60


@pytest.mark.parametrize(
    ("settings", "engine", "chosen"),
    [
        ({}, None, Compute(engine="processes")),
        ({"processes": 3}, None, Compute(engine="processes", workers=3)),
        ({"processes": 3}, Compute(engine="processes"), Compute(engine="processes", workers=3)),
        ({"threads": 2}, HERE, Compute(engine="here", workers=1)),
        ({}, RAY, RAY),
    ],
)
def test_processes_are_the_workers_of_the_usual_engine(
    settings: dict[str, int], engine: Compute | None, chosen: Compute
) -> None:
    assert choose_engine(engine, SearchSettings(**settings)) == chosen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "engine", "problem"),
    [
        ({"processes": 2}, PROCESSES, "--processes and --workers cannot be combined"),
        ({"processes": 2}, RAY, "--processes requires --engine processes; ray uses --workers"),
        ({"processes": 1}, HERE, "--processes requires --engine processes; here uses --workers"),
        ({"threads": 1}, RAY, "--threads has no effect with --engine ray"),
        (
            {},
            Compute(engine="here", workers=2),
            "--workers: the engine here translates one sentence at a",
        ),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(
    settings: dict[str, int], engine: Compute, problem: str
) -> None:
    with pytest.raises(ArgumentError, match=problem):
        phrasescore.decode(
            *("source", "moses.ini", "out"),
            search=SearchSettings(**settings),  # type: ignore[arg-type]
            engine=engine,
        )


def test_moses_runs_on_no_engine(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="--engine requires the embedded search"):
        phrasescore.decode(
            *("source", "moses.ini", "out"), decoder="moses", moses_bin=folder, engine=RAY
        )


def test_workers_are_ended_where_ctrl_c_comes_as_they_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    class Pool:
        is_ended = False

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None:
            Pool.is_ended = True

        def submit(self, _: object) -> SimpleNamespace:
            return SimpleNamespace(result=interrupt)

    monkeypatch.setattr(embedded_search, "open_pool", lambda *_, **__: Pool())
    with pytest.raises(KeyboardInterrupt):
        decode("interrupted", RAY)
    assert Pool.is_ended
