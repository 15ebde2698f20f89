"""Promises of phrasescore.settings.config."""

import dataclasses
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from phrasescore.errors import ConfigError
from phrasescore.settings.config import (
    RESUMABLE,
    Config,
    TrainingConfig,
    check_resumable,
    preset_names,
)
from phrasescore.settings.kinds import KINDS, EncoderDecoderConfig, GrconvConfig, LstmConfig


def test_the_paper_preset_has_the_sizes_of_section_4_1_1() -> None:
    # Cho et al. (2014), 4.1.1: 1000 hidden units, rank-100 matrices, 500 maxout units pooling two
    # inputs each, Adadelta with rho 0.95 and epsilon 1e-6, 64 pairs a batch, 15,000 words a side.
    config = Config.preset("cho2014")
    assert config.model == EncoderDecoderConfig(1000, 100, 500, 100, 0.01)
    assert (config.vocabulary.source_size, config.vocabulary.target_size) == (15000, 15000)
    training = config.training
    assert (training.optimizer, training.rho, training.epsilon) == ("adadelta", 0.95, 1e-6)
    assert training.batch_size == 64


def test_the_preset_of_sutskever_has_the_sizes_and_the_recipe_of_sections_3_1_and_3_4() -> None:
    config = Config.preset("sutskever2014")
    assert config.model == LstmConfig(4, 1000, 1000, True, 0.08, 0.0)
    assert (config.vocabulary.source_size, config.vocabulary.target_size) == (160000, 80000)
    training = config.training
    assert (training.optimizer, training.learning_rate) == ("sgd", 0.7)
    assert (training.schedule, training.halving_start, training.halving_epochs) == (
        "halving",
        5.0,
        0.5,
    )
    assert (training.batch_size, training.loss, training.clip_norm) == (128, "mean", 5.0)
    assert training.epochs == 7.5


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_presets_of_a_kind_are_found_by_it(kind: str) -> None:
    names = preset_names(KINDS[kind])
    assert names
    assert all((Config.preset(name).kind == kind) == (name in names) for name in preset_names())


def test_the_preset_of_cho_2014b_has_the_sizes_of_section_3() -> None:
    # 3.2: 2000 units, radius 0.4, 620-dimensional embeddings, Adadelta, 296,144 updates. 3.1: at
    # most 30 words, the 30,000 most frequent. The rest is not in the paper, and the file says so.
    config = Config.preset("cho2014b")
    assert config.model == GrconvConfig(2000, 1000, 620, 500, 500, 0.4, 0.01, 0.0)
    assert (config.vocabulary.source_size, config.vocabulary.target_size) == (30000, 30000)
    training = config.training
    assert (training.optimizer, training.updates, training.max_length) == ("adadelta", 296144, 30)


def test_the_preset_of_bahdanau_trains_as_long_as_rnnsearch_50() -> None:
    # Table 2: 2.88 times 10^5 updates, sentences of up to 50 words; section 4.2, B.2: the rest.
    training = Config.preset("bahdanau2014").training
    assert (training.updates, training.max_length) == (288_000, 50)
    assert (training.batch_size, training.window_batches, training.clip_norm) == (80, 20, 1.0)


@pytest.mark.parametrize(
    ("name", "max_length", "updates"), [("rnnenc30", 30, 846_322), ("rnnenc50", 50, 600_000)]
)
def test_the_presets_of_rnnenc_have_the_papers_sizes(
    name: str, max_length: int, updates: int
) -> None:
    # Bahdanau et al. (2014), A.3 and B.2: 1000 units, embeddings of 620, 500 maxout units, 80
    # sentences a batch, 20 batches sorted together. Table 2: 8.46 and 6.00 times 10^5 updates; Cho
    # et al. (2014b), 3.2, have the first to the last digit.
    config = Config.preset(name)
    assert config.model == EncoderDecoderConfig(1000, 620, 500, 500, 0.01, 0.0)
    assert (config.vocabulary.source_size, config.vocabulary.target_size) == (30000, 30000)
    training = config.training
    assert (training.batch_size, training.window_batches, training.clip_norm) == (80, 20, 1.0)
    assert (training.max_length, training.updates) == (max_length, updates)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_survives_writing_and_reading(name: str, tmp_path: Path) -> None:
    config = Config.preset(name)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert Config.from_toml(path) == config
    # Every setting is written, so that a later change of a default changes no old model.
    assert set(tomllib.loads(config.to_toml())["training"]) == {
        setting.name for setting in dataclasses.fields(TrainingConfig)
    }


def test_what_a_file_leaves_out_keeps_its_default() -> None:
    assert Config.from_dict({}, "empty.toml") == Config()
    assert Config.from_dict({"model": {"hidden_size": 7}}, "x").model.embedding_size == 100
    assert LstmConfig().reverse_source


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"hiden_size": 3}}, "f.toml: unknown key 'hiden_size' in [model]; did you mean"),
        ({"training": {"zzz": 3}}, "f.toml: unknown key 'zzz' in [training]; expected one of: "),
        ({"trainig": {}}, "f.toml: unknown table [trainig]; did you mean 'training'?"),
        ({"model": {"hidden_size": 0}}, "f.toml: [model] hidden_size: expected"),
        ({"training": {"patience": -1}}, "f.toml: [training] patience: expected"),
        ({"model": {"hidden_size": 10_000_000}}, "f.toml: [model] hidden_size: expected"),
        ({"training": {"batch_size": 2**20 + 1}}, "f.toml: [training] batch_size: expected"),
        ({"training": {"window_batches": 65537}}, "f.toml: [training] window_batches: expected"),
        ({"vocabulary": {"source_size": 2**31}}, "f.toml: [vocabulary] source_size: expected"),
        ({"training": {"seed": 10**400}}, "f.toml: [training] seed: expected"),
        ({"training": {"epochs": 10**400}}, "f.toml: [training] epochs: expected"),
        ({"model": {"hidden_size": "x"}}, "f.toml: [model] hidden_size: expected a whole number, "),
        ({"model": {"hidden_size": True}}, "f.toml: [model] hidden_size: expected a whole number,"),
        ({"training": {"validation_share": 0.7}}, "f.toml: [training] validation_share: expected"),
        ({"training": {"learning_rate": 0}}, "f.toml: [training] learning_rate: expected"),
        ({"training": {"clip_norm": float("inf")}}, "f.toml: [training] clip_norm: expected"),
        ({"training": {"optimizer": "sgdx"}}, "f.toml: [training] optimizer: expected one of adad"),
        ({"model": 3}, "f.toml: [model]: expected a table, got 3"),
        ({"kind": "encoder"}, "f.toml: kind: unknown kind of network; did you mean 'encoder-decod"),
    ],
)
def test_a_bad_setting_is_refused_with_file_and_key(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(values, "f.toml")
    assert str(caught.value).startswith(message)


def test_a_whole_number_is_a_number() -> None:
    rate = Config.from_dict({"training": {"learning_rate": 1}}, "x").training.learning_rate
    assert type(rate) is float


def test_assignments_are_typed_and_the_last_one_wins() -> None:
    config = Config().override(
        [
            "training.batch_size=8",
            "training.batch_size = 16",
            "training.epsilon=1e-8",
            "training.optimizer=adam",
            'training.loss="mean"',
            "model.hidden_size=5",
        ]
    )
    assert config.training.batch_size == 16
    assert config.training.epsilon == 1e-8
    assert (config.training.optimizer, config.training.loss) == ("adam", "mean")
    assert config.model.hidden_size == 5


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("batch_size=3", "--set: expected table.key=value, such as training.batch_size=32; got 'b"),
        ("training.batch_size", "--set: expected table.key=value"),
        ("kind.x=3", "--set: [kind]: expected a table, got 'encoder-decoder'"),
        ("train.batch_size=3", "--set: unknown table [train]; did you mean 'training'?"),
        ("training.batchsize=3", "--set: unknown key 'batchsize' in [training]; did you mean"),
        ("training.batch_size=1.5", "--set: [training] batch_size: expected a whole number"),
        ("training.batch_size=many", "--set: [training] batch_size: expected a whole number"),
    ],
)
def test_a_bad_assignment_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override([assignment])
    assert str(caught.value).startswith(message)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        Config.from_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(ConfigError, match=r"bad\.toml: expected TOML"):
        Config.from_toml(tmp_path / "bad.toml")


def test_an_unknown_preset_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'cho2014'"):
        Config.preset("cho2015")


def test_only_limits_may_change_on_resume() -> None:
    old = Config()
    check_resumable(old, old.override([f"training.{key}=9" for key in RESUMABLE]))
    with pytest.raises(ConfigError, match=r"\[training\] batch_size: the run to resume has 64"):
        check_resumable(old, old.override(["training.batch_size=32"]))
    with pytest.raises(ConfigError, match=r"\[model\] hidden_size"):
        check_resumable(old, old.override(["model.hidden_size=32"]))


def test_settings_are_known_without_torch() -> None:
    program = "import sys, phrasescore.settings.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
