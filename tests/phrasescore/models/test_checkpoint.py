"""Promises of phrasescore.models.checkpoint."""

import dataclasses
import json
import math
import os
import resource
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import phrasescore
from phrasescore.errors import ModelError, PhrasescoreError
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import (
    FORWARD,
    REVERSE,
    Checkpoint,
    CurvePoint,
    TrainingRecord,
    direction_of,
    empty_network,
    load_checkpoint,
    save_checkpoint,
)
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import EncoderDecoderConfig
from phrasescore.vocabulary import Vocabulary

SIZES = EncoderDecoderConfig(
    hidden_size=4, embedding_size=3, maxout_size=2, output_rank=2, init_std=0.5
)
RECORD = TrainingRecord(
    direction=FORWARD,
    seed=3,
    data_fingerprint="abc",
    training_pairs=7,
    source_coverage=0.93,
    curve=(CurvePoint(10, 0.5, 3.25, 20.5), CurvePoint(20, 1.0, 3.0, None)),
)


def make_checkpoint(direction: str = FORWARD) -> Checkpoint:
    source, target = Vocabulary(["la", "maison"]), Vocabulary(["the", "house", "home"])
    network = EncoderDecoder(SIZES, len(source), len(target))
    network.initialize(torch.Generator().manual_seed(1))
    record = dataclasses.replace(RECORD, direction=direction)
    return Checkpoint(network, Config(model=SIZES), source, target, record)


@pytest.fixture(name="folder")
def saved_folder(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "model", make_checkpoint())
    return tmp_path / "model"


def test_a_loaded_model_scores_as_the_saved_one(folder: Path) -> None:
    batch = batch_pairs([([2, 3], [2]), ([1], [4, 1, 3])])
    loaded = load_checkpoint(folder)
    assert torch.equal(loaded.model(batch), make_checkpoint().model(batch))
    assert not loaded.model.training


def test_everything_else_comes_back_too(folder: Path) -> None:
    saved, loaded = make_checkpoint(), load_checkpoint(folder)
    assert loaded.config == saved.config
    assert loaded.record == saved.record
    assert loaded.source_vocabulary == saved.source_vocabulary
    assert loaded.target_vocabulary == saved.target_vocabulary
    assert loaded.library_version == phrasescore.__version__
    assert loaded.num_parameters == sum(p.numel() for p in saved.model.parameters())


def test_a_folder_has_the_documented_files_with_ordinary_permissions(folder: Path) -> None:
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == [
        "config.toml",
        "model.safetensors",
        "source.vocab",
        "target.vocab",
        "training.json",
    ]
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}


def test_the_sides_of_a_reverse_model_are_those_of_the_table_swapped(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "reverse", make_checkpoint(REVERSE))
    loaded = load_checkpoint(tmp_path / "reverse")
    assert loaded.reverse
    assert loaded.table_source_vocabulary == loaded.target_vocabulary
    assert loaded.table_target_vocabulary == loaded.source_vocabulary
    save_checkpoint(tmp_path / "forward", make_checkpoint(FORWARD))
    loaded = load_checkpoint(tmp_path / "forward")
    assert not loaded.reverse
    assert loaded.table_source_vocabulary == loaded.source_vocabulary


@pytest.mark.parametrize("reverse", [False, True])
def test_a_model_knows_from_which_end_it_predicts(tmp_path: Path, reverse: bool) -> None:
    found = []
    for right_to_left in (False, True):
        direction = direction_of(reverse=reverse, right_to_left=right_to_left)
        save_checkpoint(tmp_path / direction, make_checkpoint(direction))
        loaded = load_checkpoint(tmp_path / direction)
        assert (loaded.reverse, loaded.right_to_left) == (reverse, right_to_left)
        found.append(loaded.fingerprint)
    # The same weights give other scores.
    assert found[0] != found[1]


def test_the_fingerprint_is_of_weights_vocabularies_and_direction(tmp_path: Path) -> None:
    checkpoint = make_checkpoint()
    other_settings = dataclasses.replace(
        checkpoint, config=checkpoint.config.override(["training.updates=7"])
    )
    other_record = dataclasses.replace(checkpoint, record=TrainingRecord(seed=99))
    other_words = dataclasses.replace(checkpoint, source_vocabulary=Vocabulary(["le", "maison"]))
    other_weights = make_checkpoint()
    with torch.no_grad():
        next(other_weights.model.parameters())[0, 0] += 1e-6
    found = []
    for place, saved in enumerate(
        [
            checkpoint,
            other_record,
            other_settings,
            other_words,
            other_weights,
            make_checkpoint(REVERSE),
        ]
    ):
        save_checkpoint(tmp_path / str(place), saved)
        found.append(load_checkpoint(tmp_path / str(place)).fingerprint)
    assert found[0] == found[1] == found[2]
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.toml", "source.vocab", "target.vocab", "training.json"]
)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"model: not a whole model: {name} is missing"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.toml", "source.vocab", "target.vocab", "training.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_file_that_has_no_end_is_refused_at_once(folder: Path, name: str, kind: str) -> None:
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    with pytest.raises(PhrasescoreError, match=f"{name}: expected a plain file, found a pipe or"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "source.vocab", "training.json"])
def test_a_file_of_no_sane_size_is_not_read(folder: Path, name: str) -> None:
    os.truncate(folder / name, 1 << 40)
    with pytest.raises(PhrasescoreError, match=f"{name}: expected at most [0-9,]* bytes, found 1,"):
        load_checkpoint(folder)


def change_record(folder: Path, **values: object) -> None:
    path = folder / "training.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_newer_format_is_refused_with_both_versions(folder: Path) -> None:
    change_record(folder, format=2, phrasescore="9.1.0")
    with pytest.raises(ModelError) as caught:
        load_checkpoint(folder)
    assert str(caught.value) == (
        f"{folder}: the model has format 2, written by phrasescore 9.1.0; this is phrasescore "
        f"{phrasescore.__version__}, which reads format 1"
    )


def test_a_field_unknown_here_is_ignored_and_a_missing_one_has_its_default(folder: Path) -> None:
    change_record(folder, invented_later=3)
    path = folder / "training.json"
    values = json.loads(path.read_text())
    del values["source_coverage"]
    path.write_text(json.dumps(values))
    assert load_checkpoint(folder).record == dataclasses.replace(RECORD, source_coverage=0.0)


@pytest.mark.parametrize(
    ("name", "what"),
    [("model.safetensors", "weights"), ("target.vocab", "vocabulary"), ("config.toml", "settings")],
)
def test_a_changed_file_is_noticed(folder: Path, name: str, what: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ModelError, match=f"{name}: the {what} changed: expected fingerprint"):
        load_checkpoint(folder)


def test_a_changed_direction_is_noticed(folder: Path) -> None:
    change_record(folder, direction=REVERSE)
    with pytest.raises(
        ModelError, match=r"training\.json: the recorded direction does not fit the fingerprint"
    ):
        load_checkpoint(folder)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    config = Config(model=dataclasses.replace(SIZES, embedding_size=5))
    save_checkpoint(folder, dataclasses.replace(make_checkpoint(), config=config))
    expected = r"of shape \(4, 5\) from config.toml.*got torch.float32 of shape \(4, 3\)"
    with pytest.raises(ModelError, match=expected):
        load_checkpoint(folder)


def forge_weights(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    module = nn.Module()
    for name, tensor in weights.items():
        module.register_buffer(name, tensor)
    save_checkpoint(other, dataclasses.replace(make_checkpoint(), model=module))
    shutil.rmtree(folder)
    other.rename(folder)


def test_weights_of_other_names_are_refused(folder: Path) -> None:
    forge_weights(folder, {"strange": torch.zeros(2)})
    with pytest.raises(ModelError, match=r"source_embedding: expected .*, got no weights"):
        load_checkpoint(folder)


def test_weights_that_are_not_numbers_are_refused_with_the_folder_named(tmp_path: Path) -> None:
    checkpoint = make_checkpoint()
    with torch.no_grad():
        checkpoint.model.get_parameter("output.bias")[1] = math.nan
    save_checkpoint(tmp_path / "model", checkpoint)
    with pytest.raises(ModelError, match=r"model\.safetensors: .*'output.bias' are not all finite"):
        load_checkpoint(tmp_path / "model")


def test_weights_of_another_type_are_refused(folder: Path) -> None:
    checkpoint = make_checkpoint()
    bias = checkpoint.model.get_parameter("output.bias")
    bias.requires_grad = False
    bias.data = bias.data.long()
    save_checkpoint(folder, checkpoint)
    expected = r"output\.bias: expected torch\.float32 of shape \(5,\) .*, got torch\.int64"
    with pytest.raises(ModelError, match=expected):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": 1}', "", '{"minutes": NaN}', f'{{"minutes": {10**400}}}']
)
def test_a_record_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "training.json").write_text(text)
    with pytest.raises(ModelError, match=r"training\.json: expected"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"training_pairs": None}, "Expected `int`, got `null` - at `$.training_pairs`"),
        ({"duplicates": "7"}, "Expected `int`, got `str` - at `$.duplicates`"),
        ({"updates": 1.5}, "Expected `int`, got `float` - at `$.updates`"),
        ({"seed": True}, "Expected `int`, got `bool` - at `$.seed`"),
        ({"curve": None}, "Expected `array`, got `null` - at `$.curve`"),
        ({"curve": [3]}, "Expected `object`, got `int` - at `$.curve[0]`"),
        ({"curve": [{"update": 1}]}, "Object missing required field `minutes` - at `$.curve[0]`"),
        (
            {
                "curve": [
                    {"update": 1, "minutes": 1, "training_loss": "", "validation_perplexity": None}
                ]
            },
            "Expected `float`, got `str` - at `$.curve[0].training_loss`",
        ),
    ],
)
def test_a_value_of_a_wrong_type_in_the_record_is_refused(
    folder: Path, values: dict[str, object], problem: str
) -> None:
    change_record(folder, **values)
    with pytest.raises(ModelError, match=r"training\.json: expected the record of a mo") as caught:
        load_checkpoint(folder)
    assert problem in str(caught.value)


def test_a_whole_number_in_the_record_is_a_number(folder: Path) -> None:
    change_record(folder, minutes=2)
    assert load_checkpoint(folder).record.minutes == 2.0


def test_a_record_that_would_be_no_json_is_not_written(tmp_path: Path) -> None:
    record = TrainingRecord(source_coverage=math.nan)
    with pytest.raises(ValueError, match="JSON"):
        save_checkpoint(tmp_path / "m", dataclasses.replace(make_checkpoint(), record=record))
    assert list(tmp_path.iterdir()) == []


def test_a_direction_that_is_none_is_refused(folder: Path) -> None:
    change_record(folder, direction="backwards")
    with pytest.raises(ModelError, match="direction: expected target-given-source or"):
        load_checkpoint(folder)


def test_saving_replaces_an_older_model_or_leaves_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_checkpoint(folder).fingerprint

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(PhrasescoreError, match="No space left"):
        save_checkpoint(folder, make_checkpoint(REVERSE))
    assert load_checkpoint(folder).fingerprint == before
    monkeypatch.undo()
    save_checkpoint(folder, make_checkpoint(REVERSE))
    assert load_checkpoint(folder).reverse
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_a_disk_that_fills_up_leaves_the_older_model(folder: Path, size: int) -> None:
    before = load_checkpoint(folder).fingerprint
    assert size < (folder / "model.safetensors").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(PhrasescoreError, match=r"model: cannot write: .*File too large"):
            save_checkpoint(folder, make_checkpoint(REVERSE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load_checkpoint(folder).fingerprint == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_empty_network_has_the_shapes_of_a_full_one_and_takes_no_memory() -> None:
    empty = empty_network(Config(model=SIZES), 4, 5).state_dict()
    full = EncoderDecoder(SIZES, 4, 5).state_dict()
    assert {name: part.shape for name, part in empty.items()} == {
        name: part.shape for name, part in full.items()
    }
    assert {part.device.type for part in empty.values()} == {"meta"}
