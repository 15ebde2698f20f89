"""``phrasescore decode --feature cslm``: what only a neural language model in the search has."""

from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.nbest import NbestList, read_nbest
from phrasescore.features.model import Network
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm
from tests.phrasescore.cli.test_decode import INI, LM, TABLE

TEXT = "la maison\n\nmaison xyz la bleue maison\nla la maison bleue\n"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RandomCslm:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}.items():
        (tmp_path / name).write_text(text)
    return RandomCslm(["the", "house", "home"], path=tmp_path / "model")


def decode(*options: str, models: tuple[str, ...] = ("model",)) -> Result:
    arguments = ["decode", "source", "--config", "moses.ini", "--threads", "1", "--device", "cpu"]
    for name in models:
        arguments += ["--feature", "cslm", "--model", name]
    if "--processes" not in options:
        arguments += ["--processes", "1"]
    return run(*arguments, *options)


def read(path: str) -> list[NbestList]:
    return list(read_nbest(path))


@pytest.mark.usefixtures("model")
def test_without_a_weight_it_stands_in_lists_alone() -> None:
    result = decode("--nbest", "nbest", "--nbest-size", "1", "-o", "out")
    assert "CSLM0 has no weight and gets 0" in result.stderr
    decode("-o", "plain", models=())
    assert Path("out").read_bytes() == Path("plain").read_bytes()
    assert all("CSLM0" in found.features(0) for found in read("nbest"))


@pytest.mark.usefixtures("model")
def test_several_of_them_are_numbered(tmp_path: Path) -> None:
    RandomCslm(["the"], order=2, seed=5, path=tmp_path / "other")
    (tmp_path / "weights").write_text("CSLM0= 1\nCSLM1= 0.25\n")
    succeeded(
        decode(
            "--weights",
            "weights",
            "--nbest",
            "n",
            "--nbest-size",
            "1",
            "-o",
            "out",
            models=("model", "other"),
        )
    )
    assert list(read("n")[0].features(0))[-2:] == ["CSLM0", "CSLM1"]


@pytest.mark.parametrize("option", [["--backoff-lm", "lm.arpa"], ["--unnormalized"]])
@pytest.mark.usefixtures("model")
def test_unknown_words_are_backed_off_and_log_z_left_out_as_in_rescore(option: list[str]) -> None:
    Path("weights").write_text("CSLM0= 0.5\n")
    result = succeeded(
        decode(
            *option,
            "--weights",
            "weights",
            "--nbest",
            "nbest",
            "--nbest-size",
            "8",
            "-o",
            "out",
        )
    )
    assert ("trained without self_normalization" in result.stderr) == (len(option) == 1)
    backoff = option[1] if len(option) == 2 else None
    column = Network("model", backoff_lm=backoff, unnormalized=backoff is None, name="After")
    command = ["rescore", "nbest", "--source", "source", *column.options(), "--device", "cpu"]
    succeeded(run(*command, "-o", "rescored"))
    decode("--nbest", "usual", "--nbest-size", "1", "-o", "out")
    for found, usual in zip(read("rescored"), read("usual"), strict=True):
        for place in range(len(found.hypotheses)):
            features = found.features(place)
            assert features["CSLM0"][0] == pytest.approx(features["After"][0], abs=1e-5)
        assert features["CSLM0"] != usual.features(0)["CSLM0"]


@pytest.mark.parametrize(
    ("options", "models", "code", "message"),
    [
        (["--backoff-lm", "lm.arpa", "--unnormalized"], ("model",), 2, "cannot be used with --unn"),
        (["--unnormalized"], (), 2, "--unnormalized requires a model of the kind cslm"),
        (["--backoff-lm", "no.arpa"], ("model",), 1, "no.arpa: cannot open: No such file"),
        (["--backoff-lm", "source"], ("model",), 1, "source:1: expected an ARPA file"),
        (["--backoff-lm", "lm.arpa", "-o", "lm.arpa"], ("model",), 1, "would overwrite another"),
    ],
)
@pytest.mark.usefixtures("model")
def test_options_of_language_models_that_cannot_be_are_refused(
    options: list[str], models: tuple[str, ...], code: int, message: str
) -> None:
    check_refusal(decode(*options, models=models), message, code)


@pytest.mark.usefixtures("model")
def test_a_model_of_another_kind_and_a_weight_too_many_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lstm").mkdir()
    (tmp_path / "lstm" / "config.toml").write_text('kind = "lstm"\n')
    result = decode(models=("lstm",))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "lstm: expected a model of kind cslm, found one of lstm" in result.stderr
    (tmp_path / "weights").write_text("CSLM0= 1 2\n")
    check_refusal(decode("--weights", "weights"), "weights: expected one weight for CSLM0, found 2")
