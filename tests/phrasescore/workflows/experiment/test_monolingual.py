"""Monolingual text of an experiment: its n-gram model, its networks, and its checks."""

import logging
import math
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.settings.building import Estimating
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.functions import start_weights
from phrasescore.workflows.experiment.model_steps import ngram_order
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.texts import check_words
from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.workflows.experiment.experiment_folder import (
    CONFIG,
    INI,
    experiment,
    steps_of,
)
from tests.phrasescore.workflows.experiment.tiny_language import write_language
from tests.reference_ngrams import ReferenceNgrams, log10_prob

TRIGRAMS = "\\data\\\nngram 1=1\nngram 2=1\nngram 3=1\n\n"  # enough to know the order
TEXTS = "train = ['train.s', 'train.t']\nmonolingual = 'more.t'\n"
TINY = f"""\
systems = ["Baseline"]
[data]
moses_ini = "moses.ini"
{TEXTS}dev = {{ source = "dev.s", references = "dev.t" }}
test.test = {{ source = "test.s", references = "test.t" }}
[engine]
processes = 1
threads = 1
nbest_size = 10
iterations = 2
search = {{ stack = 5 }}
[tuning]
replicas = 1
"""


def write_config(given: str, before: str = "", engine: str = "") -> None:
    config = CONFIG.replace("[engine]\n", f"monolingual = {given}\n[engine]\n{engine}")
    Path("x.toml").write_text(f"{before}\n{config}[tuning]\nreplicas = 1\n")


@pytest.mark.parametrize("decoder", ["embedded", "moses"])
def test_all_rows_have_the_n_gram_model_and_a_cslm_learns_the_texts(
    folder: Path, decoder: str
) -> None:
    for name in ("more.fr", "other.fr", "moses"):
        (folder / name).write_text("a\n\nb\n")
    (folder / "lm.arpa").write_text(TRIGRAMS)
    engine = f"decoder = '{decoder}'\nmoses_bin = '.'\n"
    write_config("['more.fr', 'other.fr']", "systems = ['Baseline', '+RNN', '+CSLM']", engine)
    out, plan = folder / "out", build_plan(read_experiment("x.toml"), folder / "out")
    model, texts = out / "models" / "monolingual.arpa.gz", (folder / "more.fr", folder / "other.fr")
    first = plan.steps[0]
    assert (first.name, first.inputs, first.outputs) == ("build-lm monolingual", texts, (model,))
    assert first.settings == {
        "texts": texts,
        "output": model,
        "settings": Estimating(order=3, discount_fallback=True),
    }
    for path, start in (("moses.ini", ""), ("tables/encoder-decoder/moses.ini", "../../")):
        text = plan.written[out / path].decode()
        line = f"KENLM name=LM1 factor=0 path={start}models/monolingual.arpa.gz order=3\n"
        assert text.count("models/monolingual.arpa.gz") == text.count(line) == 1
        ini = MosesIni(str(out / path), text.encode())
        assert ini.tuneable_weights()["LM1"] == (0.5,)
        assert ini.tuneable_weights()["LM0"] == (0.5,)
    searches = [step for step in plan.steps if step.function in ("tune", "translate")]
    assert len(searches) == 6
    assert all(model in step.inputs for step in searches)
    assert steps_of(plan)["train cslm"].settings["inputs"] == (folder / "train.fr", *texts)
    assert steps_of(plan)["train encoder-decoder"].settings["inputs"] == (folder / "table",)
    assert plan.needed(["Baseline"])[0] == first
    (out / "tables" / "encoder-decoder").mkdir(parents=True)
    for written, content in plan.written.items():
        written.write_bytes(content)
    tune = steps_of(plan)["tune Baseline seed 1"].settings
    weights = start_weights(tune["parts"], ())
    assert weights.search["LM1"] == weights.lists["LM1"] == (0.5,)


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("KENLM name=LM0 path=lm.arpa order=4\nKENLM name=LM1 path=lm.arpa", 4),
        ("KENLM name=LM0 path=lm.arpa", 3),
        ("", 5),
    ],
)
def test_the_order_is_that_of_the_first_n_gram_model(tmp_path: Path, line: str, order: int) -> None:
    (tmp_path / "lm.arpa").write_text(TRIGRAMS)
    path = tmp_path / "moses.ini"
    path.write_text(INI.replace("KENLM name=LM0 path=/lm.arpa", line))
    assert ngram_order(MosesIni.read(str(path), tmp_path)) == order


TRAIN = "Le chat dort ici .\nLa rue , à Paris , est longue .\nMarie voit le chat .\n" * 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # Of 7 words one, "chien", is unknown, and none is known in another casing.
        ("Le chien dort à Paris .\n\nMarie\n", ""),
        (
            "the cat sleeps here .\nMarie sees the cat .\n",
            "70% of its first 10 words are not in train.fr, such as 'the', 'cat', 'sleeps': is it",
        ),
        # "paris" is 1 of 12 words, more than 5 %; "chien" is unknown, too.
        (
            "le chat voit le chien , à paris , est ici .\n",
            "8% of its first 12 words are not in train.fr, such as 'paris': the model knows most",
        ),
        (
            "Le chat dort ici.\nLa rue, à Paris, est longue.\nMarie voit le chat.\n" * 2,
            "looks untokenised: punctuation is attached to words, such as 'ici.', and it is taken",
        ),
    ],
)
def test_a_text_of_another_form_than_the_target_side_is_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture, text: str, problem: str
) -> None:
    (folder / "train.fr").write_text(TRAIN)
    (folder / "more.fr").write_text(text)
    with caplog.at_level(logging.WARNING):
        check_words([Path("more.fr")], Path("train.fr"))
    found = [record.getMessage() for record in caplog.records]
    assert [line.startswith("more.fr") and problem in line for line in found] == (
        [True] if problem else []
    )


def test_an_experiment_warns_and_goes_on(folder: Path) -> None:
    (folder / "more.fr").write_text("x y\n")
    (folder / "lm.arpa").write_text(TRIGRAMS)
    write_config("'more.fr'", "systems = ['Baseline']")
    shown = succeeded(experiment("--dry-run"))
    problem = "more.fr: 100% of its first 2 words are not in "
    assert shown.stderr.count(problem) == 1
    assert re.search("1  to do  build-lm monolingual\n", shown.stdout)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "more.fr: cannot open: No such file or directory"),
        (b"", "more.fr: expected a tokenised text, found no word"),
        (b"a\n\nb \xff\n", "more.fr:3: expected UTF-8"),
        (b"a\n<s> b </s>\n", "more.fr:2: expected text without <s> and </s>, found <s>"),
    ],
)
def test_a_text_that_cannot_be_right_is_refused_at_once(
    folder: Path, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (folder / "more.fr").write_bytes(content)
    (folder / "lm.arpa").write_text(TRIGRAMS)
    write_config("'more.fr'")
    check_refusal(experiment("--dry-run"), problem)


def test_a_system_of_characters_has_no_n_gram_model_of_words(folder: Path) -> None:
    (folder / "more.fr").write_text("a b\n")
    (folder / "lm.arpa").write_text(TRIGRAMS)
    ini = (folder / "moses.ini").read_text()
    (folder / "moses.ini").write_text(f"# phrasescore: characters = true\n{ini}")
    write_config("'more.fr'")
    check_refusal(experiment("--dry-run"), "[data] monolingual: expected a system of words")


@pytest.mark.slow
def test_the_n_gram_model_is_tuned_and_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_language(tmp_path)
    lines = [f"t{number % 10} t{number % 7} t{number % 3} x" for number in range(40)]
    (tmp_path / "more.t").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "x.toml").write_text(TINY)
    result = succeeded(run("experiment", "x.toml", "-o", "out"))
    assert "step 1 of 3: build-lm monolingual" in result.stderr
    own = tmp_path / "out" / "Baseline"
    assert {"LM0", "LM1"} <= load_weights(own / "weights").search.keys()
    lists = ("--nbest", "lists", "--nbest-size", "5")
    succeeded(run("translate", own, "test.s", "--workers", "1", "-o", "again", *lists))
    assert (tmp_path / "again").read_bytes() == (own / "test.out").read_bytes()
    # The text has bigrams, as the system's own model has.
    model = ReferenceNgrams([tuple(line.split()) for line in lines], 2)
    for line in (tmp_path / "lists").read_text().splitlines():
        _, hypothesis, features, *_ = line.split(" ||| ")
        (value,) = re.findall(r"\bLM1= (\S+)", features)
        expected = log10_prob(model, hypothesis.split()) * math.log(10)
        assert float(value) == pytest.approx(expected, rel=1e-3)


@pytest.fixture
def language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_language(tmp_path, 1_200)
    (tmp_path / "more.t").write_text("t1 t2\n\nt3\n")
    return tmp_path


def init(*more: str) -> list[str]:
    texts = "--train train.s train.t --dev dev.s dev.t --test test.s test.t -o new.toml"
    return ["init", "moses.ini", *texts.split(), *more]


def test_init_writes_the_texts_as_the_system_s_words(language: Path) -> None:
    (language / "even more.t").write_text("t4\n")
    more = ("--monolingual", "more.t", "--monolingual", "even more.t")
    result = succeeded(run(*init(*more)))
    assert re.search(r"^ *0:04  build-lm monolingual$", result.stdout, re.MULTILINE)
    found = tomllib.loads(Path("new.toml").read_text())["data"]
    assert found["monolingual"] == ["more.t", "even more.t"]
    assert "build-lm monolingual" in run("experiment", "new.toml", "-o", "out", "--dry-run").stdout
    Path("new.toml").unlink()
    ini = (language / "moses.ini").read_text()
    (language / "moses.ini").write_text(f"# phrasescore: lowercase = true\n{ini}")
    (language / "more.t").write_text("T1 T2\n\nT3\n")
    result = succeeded(run(*init(*more)))
    assert "warning" not in result.stderr
    written = tomllib.loads(Path("new.toml").read_text())["data"]["monolingual"]
    assert written == ["new.text/monolingual.target0", "new.text/monolingual.target1"]
    assert [Path(path).read_text() for path in written] == ["t1 t2\n\nt3\n", "t4\n"]


def test_the_time_of_the_n_gram_model_is_forecast(language: Path) -> None:
    def times() -> dict[str, int]:
        shown = succeeded(run(*init("--monolingual", "more.t"))).stdout
        Path("new.toml").unlink()
        found = re.findall(r"^ *(\d+):(\d\d)  (.+)$", shown, re.MULTILINE)
        return {name: 60 * int(minutes) + int(seconds) for minutes, seconds, name in found}

    before = times()
    (language / "more.t").write_text("t1\n" * 400_000)
    after = times()
    # 400,000 lines: 20 s of estimating, and 12 s of loading.
    assert after["build-lm monolingual"] - before["build-lm monolingual"] == 20
    name = "translate test Baseline seed 1"
    assert after[name] - before[name] == pytest.approx(12, abs=2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "more.t: expected a file, found none"),
        (b"\n \n", "Error: more.t: expected a text, found no word"),
        (b"t1\n\xff\n", "more.t:2: expected UTF-8"),
        (b"t1\n" * 3_000 + b"<s> t1\n", "more.t:3001: expected text without <s> and </s>"),
    ],
)
def test_init_refuses_texts_that_cannot_be_right(
    language: Path, content: bytes | None, problem: str
) -> None:
    (language / "more.t").unlink()
    if content is not None:
        (language / "more.t").write_bytes(content)
    check_refusal(run(*init("--monolingual", "more.t")), problem)
    assert not list(language.glob("new*"))


def test_init_warns_of_a_text_that_is_tokenised_again(language: Path) -> None:
    ini = (language / "moses.ini").read_text()
    (language / "moses.ini").write_text(f'# phrasescore: tokenize = "en fr"\n{ini}')
    problem = "more.t looks tokenised, and it is tokenised again: give it as raw text"
    for text, times in (("t1 t2 .\n", 1), ("t1 t2.\n", 0)):
        (language / "more.t").write_text(text * 9)
        result = succeeded(run(*init("--monolingual", "more.t")))
        assert result.stderr.count(problem) == times
        shutil.rmtree("new.text")
        Path("new.toml").unlink()


@pytest.mark.usefixtures("language")
def test_init_warns_of_another_language() -> None:
    result = succeeded(run(*init("--monolingual", "dev.s")))
    assert result.stderr.count("dev.s: 100% of its first ") == 1
