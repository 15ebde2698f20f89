"""Promises of phrasescore.train, as a user of the library meets them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.training import NewNetwork
from tests.log import warnings
from tests.tiny_runs import write_table

CPU = Compute(device="cpu", threads=1)

TINY = (
    "model.hidden_size=6",
    "model.embedding_size=4",
    "model.maxout_size=3",
    "model.output_rank=4",
    "training.batch_size=5",
    "training.validation_share=0.2",
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(name="table")
def written_table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "table")


def test_a_table_becomes_a_model_whose_record_is_returned(
    table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Progress] = []
    record = phrasescore.train(
        *("encoder-decoder", table, tmp_path / "model"),
        settings=NewNetwork(changes=TINY, updates=20, seed=3),
        compute=CPU,
        progress=seen.append,
    )
    assert warnings(caplog) == []
    assert (record.updates, record.stopped_by, record.seed) == (20, "updates", 3)
    assert record.summary().startswith("limit of updates reached; validation perplexity ")
    loaded = load_checkpoint(tmp_path / "model")
    assert loaded.record == record
    assert loaded.config.training.seed == 3
    finished = {now.task: (now.done, now.unit) for now in seen if now.finished}
    assert finished == {"read": (60, "lines"), "train": (20, "updates")}
    # The clock of the updates starts when all is read.
    begun = [place for place, now in enumerate(seen) if now.task == "train" and not now.done]
    before = seen[begun[-1] - 1]
    assert (before.task, before.finished) == ("read", True)


def stop_after(update: int) -> Callable[[Progress], None]:
    def progress(now: Progress) -> None:
        if now.task == "train" and now.skipped + now.done == update:
            os.kill(os.getpid(), signal.SIGTERM)

    return progress


def test_a_run_that_a_signal_stops_raises_and_goes_on_to_the_same_bits(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasescore.progress.INTERVAL", 0.0)

    def train(name: str, **arguments: object) -> None:
        phrasescore.train(
            *("encoder-decoder", [str(table)], tmp_path / name),
            **grouped(phrasescore.train, {"updates": 20, "compute": CPU, **arguments}),
        )

    train("whole", changes=TINY)
    with pytest.raises(phrasescore.StoppedError, match="stopped after update 7") as caught:
        train("model", changes=TINY, progress=stop_after(7))
    assert caught.value.signal == signal.SIGTERM
    assert not (tmp_path / "model").exists()
    train("model", resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "model")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "model.work").exists()


@pytest.mark.parametrize(
    ("kind", "inputs", "arguments", "problem"),
    [
        ("lsmt", ["a", "b"], {}, "KIND: unknown kind of network; did you mean 'lstm'?"),
        ("RNNsearch", ["a", "b"], {}, "KIND: unknown kind of network; did you mean 'rnnsearch'?"),
        ("encoder-decoder", [], {}, "expected a phrase table or two files"),
        ("cslm", ["a", "b"], {}, "cslm is trained on one text, got 2 files"),
        ("cslm", "a", {"reverse": True}, "cslm reads no source"),
        ("cslm", "a", {"right_to_left": True}, "--right-to-left: cslm predicts from left to right"),
        (
            "encoder-decoder",
            "a",
            {"target_corpus": "b", "target_vocabulary": "c"},
            "--target-corpus and --target-vocabulary cannot be combined",
        ),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    tmp_path: Path, kind: str, inputs: str | list[str], arguments: dict, problem: str
) -> None:
    with pytest.raises(ArgumentError, match=problem.replace("?", r"\?")):
        phrasescore.train(kind, inputs, tmp_path / "model", **grouped(phrasescore.train, arguments))
    assert list(tmp_path.iterdir()) == []
