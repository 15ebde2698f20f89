"""The names of 0.3: what it wrote is read, what a user wrote is refused."""

import re
from pathlib import Path

import pytest

from phrasescore.errors import ConfigError, PhrasescoreError
from phrasescore.features.columns import Column
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from phrasescore.records import Weights
from phrasescore.settings import old_names
from phrasescore.settings.config import Config, preset_names
from phrasescore.settings.kinds import KINDS
from phrasescore.settings.old_names import other_name, weights_for
from phrasescore.systems.system import read_system
from phrasescore.workflows.experiment.config import read_experiment
from tests.command_line import check_refusal, run, succeeded
from tests.random_networks import RandomNetwork

OLD_LIST = """\
0 ||| a b ||| LM0= -1 Attention0= -3 ||| -1
0 ||| b a ||| LM0= -2 Attention0= -1 ||| -2
"""
NEW_LIST = OLD_LIST.replace("Attention", "RNNsearch")


def test_each_new_name_is_known_and_no_old_one() -> None:
    features = {kind.feature for kind in KINDS.values()} | {NamedFeature("unknown_words").label}
    known = (KINDS.keys(), set(preset_names()), features, KINDS.keys())
    tables = (old_names.KINDS, old_names.PRESETS, old_names.FEATURES, old_names.MODELS)
    for table, names in zip(tables, known, strict=True):
        assert set(table.values()) <= names
        assert not table.keys() & names


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Attention0", "RNNsearch0"),
        ("ReverseRNN12", "ReverseEncoderDecoder12"),
        ("ReverseRightToLeftAttention1Norm", "ReverseRightToLeftRNNsearch1Norm"),
    ],
)
def test_each_name_of_a_feature_finds_the_other(old: str, new: str) -> None:
    assert (other_name(old), other_name(new)) == (new, old)


@pytest.mark.parametrize("name", ["RNN", "RNN0_1", "MyRNN0", "RNNLM0", "LSTM0", "RNN0Normal", ""])
def test_other_names_have_no_other_name(name: str) -> None:
    assert other_name(name) is None


def test_an_exact_name_wins() -> None:
    weights: Weights = {"RNN0": (1.0,), "EncoderDecoder0": (2.0,)}
    for names in (["RNN0"], ["EncoderDecoder0"], ["RNN0", "EncoderDecoder0"]):
        assert weights_for(names, weights) == weights
    assert weights_for(["LM0"], weights) == weights
    one: Weights = {"RNN0": (1.0,)}
    assert weights_for(["RNN0", "EncoderDecoder0"], one) == one


@pytest.mark.parametrize("lists", [OLD_LIST, NEW_LIST])
@pytest.mark.parametrize("name", ["Attention0", "RNNsearch0"])
def test_rerank_and_tune_match_old_and_new_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lists").write_text(lists)
    Path("weights").write_text(f"LM0= 0.25\n{name}= 0.25\n")
    Path("references").write_text("b a\n")
    succeeded(run("rerank", "lists", "--weights", "weights", "-o", "out"))
    assert Path("out").read_text() == "b a\n"  # -0.75 is more than -1
    given = ("--references", "references", "--weights", "weights", "--seed", "1")
    result = succeeded(run("tune", "--lists", "lists", *given, "-o", "tuned"))
    assert "without a weight" not in result.stderr
    assert f"\n{lists.split('= ')[1].split()[1]}= " in Path("tuned").read_text()
    assert Path("lists").read_text() == lists


def test_the_kind_of_an_old_model_is_read(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model", RandomNetwork("rnnsearch", "uv", "ab").checkpoint)
    path = tmp_path / "model" / "config.toml"
    old = re.sub("rnnsearch", "attention", path.read_text())
    assert old != path.read_text()
    path.write_text(old)
    assert Config.of_model(tmp_path / "model").kind == "rnnsearch"
    with pytest.raises(PhrasescoreError, match="the settings changed"):
        load_checkpoint(tmp_path / "model")  # whose fingerprint is that of the new name
    with pytest.raises(ConfigError, match=r"kind: the kind of network attention is now rnnsearch$"):
        Config.from_toml(path)


@pytest.mark.parametrize(
    ("words", "where", "code"),
    [
        (("attention", "a", "b"), "KIND", 2),
        (("encoder-decoder", "a", "--config", "c"), "c: kind", 1),
    ],
)
def test_an_old_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], where: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").write_text('kind = "attention"\n')
    problem = f"{where}: the kind of network attention is now rnnsearch"
    check_refusal(run("train", *words, "-o", "model"), problem, code)


@pytest.mark.parametrize("name", old_names.PRESETS)
def test_an_old_preset_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the preset {name} is now {old_names.PRESETS[name]}$"):
        Config.preset(name)
    result = run("train", "encoder-decoder", "table", "--preset", name, "-o", "model")
    check_refusal(result, f"--preset {name} is gone: use {old_names.PRESETS[name]}", 2)


_DATA = """
[data]
moses_ini = "moses.ini"
dev = { source = "dev.en", references = "dev.fr" }
test.test = { source = "test.en", references = "test.fr" }
"""


@pytest.mark.parametrize(
    ("systems", "models", "problem"),
    [
        (
            "'+RNN'",
            "[models.rnn]",
            "[models.rnn] kind: the kind of network rnn is now encoder-decoder",
        ),
        ("{name = 'x', columns = ['rnn']}", "", "row 'x': the model rnn is now encoder-decoder"),
        (
            "'+RNNsearch'",
            "[models.rnnsearch]\nkind = 'attention'",
            "[models.rnnsearch] kind: the kind of network attention is now rnnsearch",
        ),
        (
            "'+RNN'",
            "[models.encoder-decoder]\npreset = 'small'",
            "[models.encoder-decoder] preset: the preset small is now encoder-decoder-small",
        ),
        (
            "'+reverse'",
            "",
            "row '+reverse': expected a table [models.reverse] with kind = \"encoder-decoder\" and",
        ),
    ],
)
def test_old_names_in_an_experiment_are_refused(
    tmp_path: Path, systems: str, models: str, problem: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"systems = ['Baseline', {systems}]\n{_DATA}{models}\n")
    with pytest.raises(ConfigError, match=re.escape(problem)):
        read_experiment(str(path))


def test_a_model_may_have_an_old_name(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    row = "{name = 'x', columns = ['rnn']}"
    models = "[models.rnn]\nkind = 'encoder-decoder'\n"
    path.write_text(f"systems = ['Baseline', {row}]\n{_DATA}{models}")
    assert read_experiment(str(path)).models["rnn"].kind == "encoder-decoder"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('scores_command = "cat"', Command("cat")),
        ('command = "cat"', Command("cat")),
        ('feature = "target_unknown_words"', NamedFeature("unknown_words")),
    ],
)
def test_old_words_of_a_system_are_read(tmp_path: Path, words: str, expected: Column) -> None:
    (tmp_path / "moses.ini").touch()
    path = tmp_path / "system.toml"
    path.write_text(f'moses_ini = "moses.ini"\nrescore = [{{ {words} }}]\n')
    (column,) = read_system(path).lists
    assert column == expected
