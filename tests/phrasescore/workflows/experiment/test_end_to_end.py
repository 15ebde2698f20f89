"""``phrasescore experiment`` with the real commands, on a language of ten words."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from moses_integration.moses_ini import load_weights
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.workflows import fold_lists
from phrasescore.workflows.experiment import process
from tests.command_line import run, succeeded
from tests.phrasescore.workflows.experiment.tiny_language import write_language
from tests.plugin_site import GOOD, REPOSITORY, install
from tests.tiny_bitext import sentence_pairs, write_bitext
from tests.tiny_generator import TinyGenerator

CONFIG = """\
systems = ["Baseline", "+CSLM+RNN", { name = "+LSTM", search = ["cslm"], lists = ["lstm"] }]
[data]
moses_ini = "moses.ini"
train = ["train.s", "train.t"]
dev = { source = "dev.s", references = "dev.t" }
test.test = { source = "test.s", references = "test.t" }
[engine]
processes = 1
threads = 1
nbest_size = 10
iterations = 2
search = { stack = 5 }
[tuning]
replicas = 1
[models.encoder-decoder]
updates = 3
set.model.hidden_size = 8
[models.cslm]
updates = 3
set.model.hidden_size = 8
[models.lstm]
updates = 3
set.model.hidden_size = 8
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_language(tmp_path)
    (tmp_path / "x.toml").write_text(CONFIG)
    return tmp_path


@pytest.mark.slow
def test_the_whole_way_from_text_to_the_table(folder: Path) -> None:
    succeeded(run("experiment", "x.toml", "-o", "out"))
    table = tomllib.loads((folder / "out" / "table.toml").read_text())
    baseline, neural, _ = table["row"]
    # The second translations are likelier, but longer: tuning finds a penalty for words.
    for text in ("dev", "test"):
        assert baseline["scores"][text]["mean"] == pytest.approx(100)
        assert neural["scores"][text]["mean"] == pytest.approx(100)
    assert neural["scores"]["test"]["p_value"] == 1
    assert "p_value" not in neural["scores"]["dev"]
    weights = load_weights(folder / "out" / "+CSLM+RNN" / "weights").lists
    assert {name: len(values) for name, values in weights.items()} == {
        "WordPenalty0": 1, "TM0": 2, "Distortion0": 1, "LM0": 1, "CSLM0": 1,
    }  # fmt: skip
    for row in ("Baseline", "+CSLM+RNN", "+LSTM"):
        own = folder / "out" / row
        succeeded(run("translate", own, "test.s", "--workers", "1", "-o", "again"))
        assert (folder / "again").read_bytes() == (own / "test.out").read_bytes()


@pytest.mark.slow
def test_programs_language_models_and_features_of_other_packages_rescore_lists(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = folder / "site"
    site.mkdir()
    install(GOOD, site)
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}{os.pathsep}{site}")
    monkeypatch.syspath_prepend(str(site))
    TinyGenerator(folder / "gpt")
    (folder / "qe.py").write_text(
        "import sys\nfor line in sys.stdin: print(-line.count('x'), flush=True)\n"
    )
    row = '{ name = "+all", columns = ["copied_words"], '
    row += 'lists = ["qe", "copied_words", "gpt"] }'
    (folder / "x.toml").write_text(
        f'systems = ["Baseline", {row}]\n'
        + CONFIG.partition("\n")[2].replace("replicas = 1", "replicas = 1\nmethod = 'mira'")
        + f"[features.qe]\ncommand = '{sys.executable} qe.py'\n"
        + "[features.gpt]\nctranslate2 = 'gpt'\nprompt = '{source}='\n"
    )
    succeeded(run("experiment", "x.toml", "-o", "out"))
    table = tomllib.loads((folder / "out" / "table.toml").read_text())
    assert table["row"][1]["scores"]["test"]["mean"] > 10
    own = folder / "out" / "+all"
    weights = load_weights(str(own / "weights")).lists
    assert {"Program0", "CopiedWords0", "CT20"} <= weights.keys()
    assert len(weights["TM0"]) == 2
    lists = ("--nbest", "lists")
    succeeded(run("translate", own, "test.s", "--workers", "1", "-o", "again", *lists))
    for line in (folder / "lists").read_text().splitlines():
        words, features = line.split(" ||| ")[1:3]
        assert f"Program0= {-words.count('x')} ".replace("-0", "0") in features
    assert (folder / "again").read_bytes() == (own / "test.out").read_bytes()
    result = succeeded(run("experiment", "x.toml", "-o", "out"))
    assert "step 1" not in result.stderr
    (folder / "qe.py").write_text("import sys\nfor line in sys.stdin: print(1, flush=True)\n")
    result = succeeded(run("experiment", "x.toml", "-o", "out", "--dry-run"))
    assert [
        line.split("  ")[1].split(":")[0] for line in result.stdout.splitlines() if "to do" in line
    ]


BLEU = """\
systems = ["Baseline", "+RNN", { name = "+tuned", columns = ["tuned"] }]
[data]
moses_ini = "model/moses.ini"
train = ["s", "t"]
alignments = "links"
dev = { source = "dev.s", references = "dev.t" }
test.test = { source = "dev.s", references = "dev.t" }
[engine]
processes = 1
threads = 1
nbest_size = 10
iterations = 2
[tuning]
method = "xbleu"
[models.encoder-decoder]
updates = 3
set.model.hidden_size = 8
objective = "bleu"
[models.tuned]
objective = "bleu"
start = "other"
[models.other]
kind = "encoder-decoder"
updates = 2
set.model.hidden_size = 8
"""


@pytest.mark.slow
def test_columns_are_trained_for_bleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = sentence_pairs(60)
    write_bitext(tmp_path, pairs[:50])
    for side, name in enumerate("st"):
        (tmp_path / f"dev.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs[50:]))
    words = ("--alignments", "links", "--lm-order", "2", "--workers", "1")
    succeeded(run("build", "s", "t", "-o", "model", *words))
    (tmp_path / "x.toml").write_text(BLEU)
    # Steps with the real functions, for a text that is too small for them.
    (tmp_path / "step.py").write_text(
        "import runpy\nfrom phrasescore.workflows import fold_lists\nfold_lists._FEWEST = 50\n"
        "runpy.run_module('phrasescore.cli.step', run_name='__main__')\n"
    )
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "step.py"))
    monkeypatch.setattr(fold_lists, "_FEWEST", 50)
    result = succeeded(run("experiment", "x.toml", "-o", "out"))
    assert result.stderr.count(": translate folds\n") == 1
    models = {
        name: load_checkpoint(tmp_path / "out" / "models" / name)
        for name in ("encoder-decoder.start", "encoder-decoder", "other", "tuned")
    }
    for name, start in (("encoder-decoder", "encoder-decoder.start"), ("tuned", "other")):
        tuning = models[name].record.fine_tuning
        assert tuning is not None
        assert tuning.start_fingerprint == models[start].fingerprint
        assert (tuning.lists, tuning.held_out_lists) == (45, 5)
    weights = {
        name: load_weights(tmp_path / "out" / name / "weights").lists
        for name in ("Baseline", "+RNN", "+tuned")
    }
    assert [len(each["TranslationModel0"]) for each in weights.values()] == [4, 5, 5]
    # The lists are made with the weights that tuning found for the first row.
    folds = tmp_path / "out" / "tables" / "folds" / "weights"
    assert load_weights(folds).lists == weights["Baseline"]
    result = succeeded(run("experiment", "x.toml", "-o", "out"))
    assert "step 1" not in result.stderr
