"""Promises of phrasescore.train, as a user of the library meets them."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import NewNetwork
from phrasescore.workflows import train as module
from tests.tiny_runs import KilledError, write_table

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


def test_a_table_becomes_a_model_whose_record_is_returned(table: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    record = phrasescore.train(
        *("encoder-decoder", table, tmp_path / "model"),
        settings=NewNetwork(changes=TINY, updates=20, seed=3),
        compute=CPU,
        progress=seen.append,
    )
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


@pytest.mark.parametrize(
    ("files", "lines", "preset"),
    [
        ("st", 999, "rnnsearch-small"),
        ("st", 1_000, "rnnsearch-few"),
        ("st", 15_000, "rnnsearch-small"),
        ("t", 40_000, "encoder-decoder-few"),  # a table, with 40 lines for each sentence pair
        ("t", 39_999, "encoder-decoder-small"),
    ],
)
def test_the_usual_preset_depends_on_the_number_of_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, lines: int, preset: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("a\n" * lines)
    seen = list[str]()

    def stop(_kind: object, name: str, *_more: object) -> None:
        seen.append(name)
        raise KilledError

    monkeypatch.setattr(module, "layer_settings", stop)
    kind = preset.removesuffix("-few").removesuffix("-small")
    with pytest.raises(KilledError):
        phrasescore.train(kind, [tmp_path / name for name in files], tmp_path / "model")
    assert seen == [preset]
