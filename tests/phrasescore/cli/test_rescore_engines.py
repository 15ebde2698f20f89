"""Promises of ``phrasescore rescore`` on every engine, whole or stopped: the same bytes."""

import gzip
import importlib.util
import json
import time
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import Result

from phrasescore.errors import ModelError
from phrasescore.models.checkpoint import ModelFolder, load_checkpoint
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomModel
from tests.forked import Forked, run_command
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists, rescore

# Small enough that 12 lists of at most 30 different hypotheses are many blocks, groups and chunks.
SIZES = {
    "phrasescore.io.text.BLOCK_SIZE": 512,
    "phrasescore.workflows.rescore.CHUNK_LISTS": 2,
    "phrasescore.features.networks.SentenceScore.group_size": {"cpu": 8},
    "phrasescore.features.word_counts.TargetLength.group_size": {"cpu": 8},
}
COUNT, SIZE = 12, 30


def rescore_in_small_pieces(*arguments: str) -> None:
    for name, size in SIZES.items():
        module, _, constant = name.rpartition(".")
        setattr(resolve_name(module), constant, size)
    run_command("rescore", *arguments)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in SIZES.items():
        monkeypatch.setattr(name, size)


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path, sentences=COUNT, size=SIZE)


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Columns of two models of one shortlist, their ensemble, and a feature."""
    found = []
    for seed in (0, 1):
        model = RandomModel(tmp_path / f"model{seed}", SOURCE_WORDS, TARGET_WORDS, seed=seed)
        found += ["--model", str(model.path), "--feature", "target_length"]
    return [*found[:-2], "--ensemble"]


@pytest.fixture
def whole(tmp_path: Path, lists: Lists, options: list[str]) -> bytes:
    out = tmp_path / "whole"
    assert rescore(lists, *options, "--threads", "1", "-o", out).exit_code == 0
    data = out.read_bytes()
    out.unlink()
    return data


def need_ray(engine: str) -> None:
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")


def rescored(lists: Lists, out: Path, *options: str) -> tuple[Result, bytes]:
    """Run rescore in this process; return what it says, and the file."""
    result = succeeded(rescore(lists, *options, "-o", out))
    return result, out.read_bytes()


@pytest.mark.parametrize(
    "engine", ["here", "processes", pytest.param("ray", marks=pytest.mark.slow)]
)
def test_every_engine_writes_the_same_bytes_with_and_without_a_cache(
    tmp_path: Path, lists: Lists, options: list[str], whole: bytes, engine: str
) -> None:
    need_ray(engine)
    options += ["--engine", engine, "--workers", "2", "--cache", str(tmp_path / "cache")]
    first, found = rescored(lists, tmp_path / "out", *options)
    assert found == whole
    # Now all scores are in the cache: neither a worker nor a network is needed.
    again, found = rescored(lists, tmp_path / "out", *options)
    assert found == whole
    assert "; 0 scored in 0 decoder steps" not in first.stderr
    assert "; 0 scored in 0 decoder steps" in again.stderr


def stop_in_the_middle(lists: Lists, out: Path, *options: str) -> None:
    """Kill a run that has eleven of the lists and waits for more, when four or more are written."""
    arguments = ["-", "--source", lists.source, *options, "-o", str(out)]
    with Forked(rescore_in_small_pieces, *arguments) as process:
        lines = Path(lists.path).read_bytes().splitlines(keepends=True)
        process.stdin.write(b"".join(lines[: 11 * SIZE]))
        process.stdin.flush()
        journal = Path(f"{out}.part.json")
        deadline = time.monotonic() + 100
        while not journal.exists() or json.loads(journal.read_text())["lines"] < 4 * SIZE:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.kill()


@pytest.mark.parametrize(
    ("name", "engine", "resumed"),
    [
        pytest.param("out", "processes", "ray", marks=pytest.mark.slow),
        ("out.gz", "here", "processes"),
    ],
)
def test_a_killed_run_goes_on_with_another_engine_and_number_of_workers(
    tmp_path: Path,
    lists: Lists,
    options: list[str],
    whole: bytes,
    name: str,
    engine: str,
    resumed: str,
) -> None:
    need_ray(resumed)
    out = tmp_path / name
    stop_in_the_middle(lists, out, *options, "--engine", engine, "--workers", "2")
    journal = json.loads(Path(f"{out}.part.json").read_text())
    assert journal["lines"] % (2 * SIZE) == 0
    # Not by accident: without --resume, nothing that is done is thrown away.
    refused = rescore(lists, *options, "-o", out)
    assert (
        refused.exit_code,
        "continue it with --resume" in refused.stderr.replace("\n", " "),
    ) == (1, True)
    on = ["--engine", resumed, "--workers", "1", "--resume"]
    result, found = rescored(lists, out, *options, *on)
    assert f"continuing after line {journal['lines']}" in result.stderr
    if name == "out":
        assert found == whole
    else:
        _, again = rescored(lists, tmp_path / "again.gz", *options)
        assert found == again
        assert gzip.decompress(found) == whole
    assert not list(tmp_path.glob(f"{name}.*"))


def test_a_resumed_run_must_have_the_same_columns_and_input(
    tmp_path: Path, lists: Lists, options: list[str], whole: bytes
) -> None:
    out = tmp_path / "out"
    stop_in_the_middle(lists, out, *options)
    part = Path(f"{out}.part").read_bytes()
    result = rescore(lists, *options[4:], *options[:4], "-o", out, "--resume")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "was started with another value for feature 1 (EncoderDecoder0 " in result.stderr
    source = Path(lists.source).read_text()
    for path, text in ((lists.path, " ||| LM0= -3 "), (lists.source, source.split("\n")[0])):
        old = Path(path).read_text()
        Path(path).write_text(old.replace(text, text.replace("3", "4") if "3" in text else "x", 1))
        refused = rescore(lists, *options, "-o", out, "--resume")
        check_refusal(refused, f"{lists.path}: its first ")
        assert "out.part still holds the first" in refused.stderr
        Path(path).write_text(old)
    # What was done for the right lists is still there.
    good = json.loads(Path(f"{out}.part.json").read_text())["bytes"]
    assert Path(f"{out}.part").read_bytes()[:good] == part[:good]
    assert rescored(lists, out, *options, "--resume")[1] == whole


def test_what_cannot_be_is_refused_in_one_line(
    tmp_path: Path, lists: Lists, options: list[str]
) -> None:
    for arguments, message in [
        (["--engine", "ray", "--threads", "2"], "--threads requires --engine here; use"),
        (["--engine", "processes", "--device", "cuda"], "--device cuda: forked processes cannot"),
    ]:
        check_refusal(rescore(lists, *options, "-o", tmp_path / "out", *arguments), message, 2)
    assert not (tmp_path / "out").exists()


def test_a_worker_elsewhere_must_have_the_same_model(tmp_path: Path) -> None:
    model = RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)
    checkpoint = load_checkpoint(model.path)
    folder = ModelFolder(checkpoint.folder, checkpoint.fingerprint)
    assert folder.path == str(tmp_path / "model")
    assert folder.load().fingerprint == checkpoint.fingerprint
    RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS, seed=5)
    with pytest.raises(
        ModelError, match=f"^{folder.path}: a worker expected a model with the finger"
    ):
        folder.load()
