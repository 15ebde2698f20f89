"""A kind of network that another package adds is trained and used by all verbs."""

import math
import re
import tomllib
from pathlib import Path

import pytest

import phrasescore
from moses_integration.moses_ini import load_weights
from phrasescore.errors import ArgumentError, PluginError
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.settings import kinds
from phrasescore.settings.compute import Compute
from tests.command_line import run, succeeded
from tests.phrasescore.workflows.experiment.tiny_language import INI
from tests.plugin_site import REPOSITORY

NBEST = """\
0 ||| t1 t2 ||| LM0= -1 ||| -1
0 ||| t1 t2 x ||| LM0= -2 ||| -2
1 ||| t3 ||| LM0= -1 ||| -1
"""
EXPERIMENT = """\
systems = ["Baseline", { name = "+bag", rescore = ["bag"] }]
[data]
moses_ini = "moses.ini"
dev = { source = "dev.s", references = "dev.t" }
test.test = { source = "dev.s", references = "dev.t" }
[engine]
processes = 1
threads = 1
nbest_size = 5
iterations = 2
search = { stack = 5 }
[tuning]
replicas = 1
[models.bag]
updates = 20
"""
LM = """\
\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-3\t<unk>
-1\t<s>
-1\t</s>
-1\tt1

\\2-grams:
-0.5\tt1 t1

\\end\\
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, where the kind ``bag`` is installed."""
    metadata = tmp_path / "site" / "bag-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bag\nVersion: 1\n")
    entry = "[phrasescore.networks]\nbag = tests.bag_of_words:KIND\n"
    (metadata / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(metadata.parent)
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}:{metadata.parent}")  # of steps
    monkeypatch.setattr(kinds, "_loaded", {})
    monkeypatch.chdir(tmp_path)
    table = []
    for word in range(10):
        table.append(f"s{word} ||| t{word} ||| 0.4 ||| 0-0 ||| 1 1 1\n")
        table.append(f"s{word} ||| t{(word + 3) % 10} x ||| 0.5 ||| 0-0 ||| 1 1 1\n")
    (tmp_path / "table").write_text("".join(sorted(table)))
    (tmp_path / "source").write_text("s1 s2\ns3\n")
    (tmp_path / "nbest").write_text(NBEST)
    return tmp_path


def test_a_new_kind_is_trained_and_scores_and_generates(folder: Path) -> None:
    record = phrasescore.train("bag", "table", "model", compute=Compute(threads=1)).record
    assert record.updates == 40
    assert 'kind = "bag"\n' in (folder / "model" / "config.toml").read_text()

    checkpoint = load_checkpoint("model")

    def log_probs(pairs: list[tuple[str, str]]) -> list[float]:
        vocabularies = checkpoint.source_vocabulary, checkpoint.target_vocabulary
        ids = [[side.ids(text.split()) for side, text in zip(vocabularies, pair, strict=True)]
               for pair in pairs]  # fmt: skip
        values: list[float] = checkpoint.model(batch_pairs([(s, t) for s, t in ids])).tolist()
        return values

    phrasescore.rescore("nbest", "source", ["model"], "rescored", compute=Compute(threads=1))
    lines = (folder / "rescored").read_text().splitlines()
    expected = log_probs([("s1 s2", "t1 t2"), ("s1 s2", "t1 t2 x"), ("s3", "t3")])
    found = [float(line.split("Bag0= ")[1].split()[0]) for line in lines]
    assert found == pytest.approx(expected, abs=1e-5)

    model = phrasescore.load_model("model", compute=Compute(threads=1))
    scores = model.score(["s1 s2", "s3"], ["t1 t2", "t3"])
    assert scores.tolist() == pytest.approx(expected[::2], abs=1e-5)

    phrasescore.annotate("table", ["model"], "annotated", compute=Compute(threads=1))
    columns = [line.split(" ||| ") for line in (folder / "annotated").read_text().splitlines()]
    expected = log_probs([(source, target) for source, target, *_ in columns])
    found = [math.log(float(scores.split()[1])) for _, _, scores, *_ in columns]
    assert found == pytest.approx(expected, abs=1e-4)

    phrasescore.generate(
        "source", "model", "translated", nbest=("list", 3), compute=Compute(threads=1)
    )
    sources = ["s1 s2", "s3"]
    for line in (folder / "list").read_text().splitlines():
        number, target, values, _ = line.split(" ||| ")
        own = log_probs([(sources[int(number)], target)])
        assert float(values.removeprefix("Bag0= ")) == pytest.approx(own[0], abs=1e-5)
    assert len((folder / "translated").read_text().splitlines()) == 2


def write_experiment(folder: Path) -> None:
    (folder / "dev.s").write_text("s1 s1\ns2\ns3 s1\ns5\n")
    (folder / "dev.t").write_text("t1 t1\nt2\nt3 t1\nt5\n")
    for name, text in {"x.toml": EXPERIMENT, "moses.ini": INI, "lm.arpa": LM}.items():
        (folder / name).write_text(text)


def test_an_experiment_trains_and_uses_a_new_kind(folder: Path) -> None:
    write_experiment(folder)
    steps = succeeded(run("experiment", "x.toml", "-o", "out", "--dry-run")).stdout
    assert re.search(r"phrasescore train bag \S+/table -o \S+/out/models/bag --updates 20", steps)
    assert re.search(r"phrasescore rescore .*--model \S+/out/models/bag", steps)


@pytest.mark.slow
def test_an_experiment_has_rows_with_a_new_kind(folder: Path) -> None:
    write_experiment(folder)
    succeeded(run("experiment", "x.toml", "-o", "out"))
    rows = tomllib.loads((folder / "out" / "table.toml").read_text())["row"]
    assert [row["name"] for row in rows] == ["Baseline", "+bag"]
    weights = load_weights(str(folder / "out" / "systems" / "+bag" / "seed1" / "weights"))
    assert "Bag0" in weights.lists


def test_the_message_about_an_unknown_kind_names_new_kinds(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="unknown kind of network; did you mean 'bag'"):
        phrasescore.train("bagg", "table", "model")
    (folder / "site" / "bag-1.dist-info" / "entry_points.txt").write_text(
        "[phrasescore.networks]\nbag = tests.bag_of_words:BagNetwork\n"
    )
    with pytest.raises(PluginError, match="bag 1: network bag: expected a NetworkKind named bag"):
        phrasescore.train("bag", "table", "model")
