"""``phrasescore experiment`` with the real commands, on a language of ten words."""

import random
import tomllib
from pathlib import Path

import pytest

from moses_integration.moses_ini import load_weights
from tests.command_line import run, succeeded

INI = """\
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=1 path=table
Distortion
KENLM name=LM0 factor=0 path=lm.arpa
[distortion-limit]
2
[weight]
WordPenalty0= -0.1
TM0= 1
Distortion0= 0.1
LM0= 0.1
"""
CONFIG = """\
systems = ["Baseline", "+CSLM+RNN", { name = "+LSTM", search = ["cslm"], rescore = ["lstm"] }]
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
[models.rnn]
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
    """Words ``s3`` mean ``t3``; the table has another translation of each, a likelier one."""
    monkeypatch.chdir(tmp_path)
    numbers = random.Random(1)
    for name, size in (("train", 60), ("dev", 12), ("test", 12)):
        sentences = [numbers.choices(range(10), k=numbers.randint(3, 7)) for _ in range(size)]
        for side in "st":
            lines = (" ".join(f"{side}{word}" for word in words) for words in sentences)
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    table = []
    for word in range(10):
        table.append(f"s{word} ||| t{word} ||| 0.4 ||| 0-0 ||| 1 1 1\n")
        table.append(f"s{word} ||| t{(word + 3) % 10} x ||| 0.5 ||| 0-0 ||| 1 1 1\n")
    (tmp_path / "table").write_text("".join(sorted(table)))
    grams = "".join(f"-1\tt{word}\n" for word in range(10))
    lm = f"\\data\\\nngram 1=14\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n{grams}"
    (tmp_path / "lm.arpa").write_text(f"{lm}-4\tx\n\n\\2-grams:\n-0.5\tt1 t1\n\n\\end\\\n")
    (tmp_path / "moses.ini").write_text(INI)
    (tmp_path / "x.toml").write_text(CONFIG)
    return tmp_path


@pytest.mark.slow
def test_the_whole_way_from_text_to_the_table(folder: Path) -> None:
    succeeded(run("experiment", "x.toml", "-o", "out"))
    table = tomllib.loads((folder / "out" / "table.toml").read_text())
    baseline, neural, _ = table["row"]
    # The second translations are likelier, but longer: tuning finds a penalty for words.
    for text in ("dev", "test"):
        assert baseline[text]["bleu"] == pytest.approx(100)
        assert neural[text]["bleu"] == pytest.approx(100)
        assert neural[text]["p_value"] == 1
    weights = load_weights(
        str(folder / "out" / "systems" / "+CSLM+RNN" / "seed1" / "weights")
    ).lists
    assert {name: len(values) for name, values in weights.items()} == {
        "WordPenalty0": 1, "TM0": 2, "Distortion0": 1, "LM0": 1, "CSLM0": 1,
    }  # fmt: skip
    for row in ("Baseline", "+CSLM+RNN", "+LSTM"):
        own = folder / "out" / "systems" / row / "seed1"
        succeeded(run("translate", own / "system.toml", "test.s", "--workers", "1", "-o", "again"))
        assert (folder / "again").read_bytes() == (own / "test.out").read_bytes()
