"""Long commands, and the files that they work on: the shipped example, cut, and small networks."""

import gzip
import itertools
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.faults.starter import starter

EXAMPLE = REPOSITORY / "examples" / "english-french"
_SIZES = "--set model.hidden_size=32 --set model.embedding_size=24"

_EXPERIMENT = """\
systems = ["Baseline", "+RNN"]
[data]
moses_ini = "moses.ini"
dev = { source = "dev.en", references = "dev.fr" }
test.held = { source = "test.en", references = "test.fr" }
[engine]
jobs = 2
processes = 1
threads = 1
nbest_size = 20
iterations = 2
search = { stack = 3 }
[tuning]
method = "xbleu"
[models.rnn]
updates = 10
set.model.hidden_size = 16
"""
_SYSTEM = """\
moses_ini = "small.ini"
weights = "system.weights"
nbest_size = 20
search.stack = 5
[[rescore]]
model = "attention"
"""
_ARPA = """\
\\data\\
ngram 1=3
ngram 2=1

\\1-grams:
-1\t<unk>
-99\t<s>\t-1
-1\t</s>

\\2-grams:
-1\t<s> </s>

\\end\\
"""


@dataclass(frozen=True)
class Work:
    """A command that takes some seconds.

    :ivar resume: what is added to it to go on.
    :ivar outputs: files that are the same bytes whatever came between.
    :ivar grows: whether they are there before the end, as the table of the rows that are done, and
        the best weights so far after Ctrl-C.
    :ivar measures: whether values in them depend on the speed of the machine. Then only the names
        of the settings are compared.
    """

    name: str
    command: str
    outputs: tuple[str, ...] = ("out.gz",)
    resume: str = " --resume"
    grows: bool = False
    measures: bool = False

    def read(self, path: Path) -> bytes:
        """Return what is the same whatever came between."""
        data = path.read_bytes()
        if not self.measures:
            return data
        settings = [line.strip(b"# ") for line in data.splitlines() if b" = " in line]
        return b" ".join(line.partition(b" = ")[0] for line in settings)


def _train(kind: str, inputs: str, *more: str) -> Work:
    settings = f"--updates 16 --set training.checkpoint_updates=3 --threads 1 {' '.join(more)}"
    command = f"train {kind} {inputs} -o out --device cpu {settings}"
    name = f"train {kind}{' xbleu' * ('xbleu' in inputs)}"
    return Work(name, command, ("out/model.safetensors", "out/config.toml"))


def _whole(
    name: str, command: str, *more: str, output: str = "out", measures: bool = False
) -> Work:
    """Return a command that begins again, and has its whole outputs at its end."""
    return Work(name, command, tuple(filter(None, (output, *more))), "", measures=measures)


_TEXT = "train.en train.fr"
_ANNOTATE = "annotate table.gz --model rnn -o out.gz"
_RESCORE = "rescore all.gz --source all.en --model attention --cache cache -o out.gz"
_LISTS = (
    "--objective xbleu --from attention --lists lists.gz --source dev.en --references dev.fr "
    "--weights weights"
)
_TUNE = (
    "tune --decoder embedded --decoder-flags '--stack 3 --processes 1' --config small.ini "
    "--source dev.en --references dev.fr --working-dir loop --method xbleu "
    "--iterations 3 --nbest-size 20 --threads 1 -o out"
)
_RAY = "--engine ray --workers 1"
WORKS = {
    work.name: work
    for work in (
        Work("annotate", f"{_ANNOTATE} --threads 1 --engine here"),
        Work("annotate processes", f"{_ANNOTATE} --engine processes --workers 2"),
        Work(
            "build",
            "build train.en train.fr -o out --workers 2",
            ("out/aligned.grow-diag-final-and", "out/phrase-table.gz", "out/lm.arpa.gz"),
        ),
        _train("encoder-decoder", "table.gz", _SIZES),
        _train("attention", _TEXT, _SIZES),
        _train("grconv", _TEXT, _SIZES, "--set model.encoder_size=32"),
        _train("lstm", _TEXT, _SIZES),
        _train("cslm", "train.fr", "--set model.hidden_size=32"),
        _train("joint", _TEXT, "--alignments train.align", "--set model.hidden_size=32"),
        _train("attention", _LISTS, "--set training.validation_share=0.1", "--updates 5"),
        Work("rescore", f"{_RESCORE} --threads 1 --engine here"),
        Work("annotate ray", f"{_ANNOTATE} {_RAY}"),
        Work("rescore processes", f"{_RESCORE} --engine processes --workers 2"),
        Work("tune", _TUNE, ("out",), grows=True),
        _train(
            "transformer",
            _TEXT,
            "--set model.hidden_size=32 --set model.heads=4 --set model.feed_forward_size=32",
            "--set vocabulary.subwords=500",
        ),
        _whole(
            "decode",
            "decode test.en --config small.ini --stack 3 --processes 2 -o out --nbest n.gz 9",
            "n.gz",
        ),
        _whole("generate", "generate attention dev.en --beam 2 -o out --nbest n.gz 2", "n.gz"),
        _whole(
            "segment",
            "segment test.en --model rnn --reverse-model rnn.reverse -o out --segments json",
            "json",
        ),
        _whole(
            "select",
            "select train.en train.fr --in-domain-target lm.fr.arpa.gz --general-target own.arpa "
            "--in-domain lm.fr.arpa.gz --general own.arpa --share 0.5 -o out "
            "--target-output out.fr --scores scores",
            "out.fr",
            "scores",
        ),
        _whole(
            "score",
            "score some.en some.fr --model attention --model rnn --word-scores words -o out",
            "words",
        ),
        _whole(
            "translate",
            "translate system.toml test.en --workers 2 -o out --nbest n.gz 5 --explain json",
            "n.gz",
            "json",
        ),
        _whole("build-lm", "build-lm train.fr -o out"),
        Work(
            "tune lists",
            "tune lists.gz --references dev.fr --moses-ini moses.ini --starts 5 --threads 1 -o out "
            "--moses-ini-out ini --features-out features --scores-out scores --report report",
            ("out", "ini", "features", "scores", "report"),
            "",
            grows=True,
        ),
        _whole(
            "evaluate",
            "evaluate all.fr turned.fr --references all.fr --paired approximate -o out "
            "--by-length reference --plot plot.svg",
            "plot.svg",
        ),
        _whole(
            "report",
            "report small.gz --model rnn --translation a=dev.fr --source dev.en "
            "--references dev.fr -o out",
            "out/index.html",
            "out/report.json",
            output="",
        ),
        _whole(
            "init",
            "init moses.ini --train train.en train.fr --dev dev.en dev.fr --test test.en test.fr "
            "--minutes 5 -o out",
            measures=True,
        ),
        _whole("combine", "combine all.gz all.gz -o out --votes"),
        _whole("rerank", "rerank all.gz --mbr --weights weights --ignore-missing -o out"),
        Work("rescore ray", f"{_RESCORE} {_RAY}"),
        Work("tune ray", f"{_TUNE} --rescore attention {_RAY}", ("out",), grows=True),
        Work("experiment", "experiment experiment.toml -o made", ("made/table.txt",), "", True),
    )
}


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, lines in {"dev.en": 24, "dev.fr": 24, "test.en": 12, "test.fr": 12}.items():
        _cut(EXAMPLE / name, folder / name, lines)
    for side in ("en", "fr"):
        shutil.copy(EXAMPLE / f"dev.{side}", folder / f"all.{side}")
        _cut(EXAMPLE / f"test.{side}", folder / f"some.{side}", 100)
    shutil.copy(EXAMPLE / "dev.20best.gz", folder / "all.gz")
    french = (EXAMPLE / "dev.fr").read_bytes().splitlines(keepends=True)
    (folder / "turned.fr").write_bytes(b"".join(reversed(french)))
    for name, lines in {"train.en": 3000, "train.fr": 3000, "train.align": 3000}.items():
        _cut(EXAMPLE / f"{name}.gz", folder / name, lines)
    _cut(EXAMPLE / "phrase-table.gz", folder / "table.gz", 60_000)
    _cut(EXAMPLE / "phrase-table.gz", folder / "small.gz", 2000)
    lists = gzip.decompress((EXAMPLE / "dev.20best.gz").read_bytes()).split(b"\n")
    kept = [line for line in lists[:-1] if int(line.split(b" ")[0]) < 24]
    (folder / "lists.gz").write_bytes(gzip.compress(b"\n".join([*kept, b""]), 1))
    for name in (
        "lm.fr.arpa.gz",
        "phrase-table.gz",
        "reordering-table.wbe-msd-bidirectional-fe.gz",
    ):
        os.symlink(EXAMPLE / name, folder / name)
    shutil.copy(EXAMPLE / "moses.ini", folder)
    ini = (EXAMPLE / "moses.ini").read_text()
    (folder / "small.ini").write_text(ini.replace("phrase-table.gz", "small.gz"))
    weights = [line for line in ini.partition("[weight]")[2].splitlines() if "=" in line]
    for_lists = [line for line in weights if not line.startswith("Unknown")] + ["Attention0= 0.3"]
    (folder / "weights").write_text("\n".join([*for_lists, ""]))
    both = "\n".join(["[search]", *weights, "[lists]", *for_lists, ""])
    (folder / "system.weights").write_text(both)
    (folder / "system.toml").write_text(_SYSTEM)
    (folder / "experiment.toml").write_text(_EXPERIMENT)
    baseline = _EXPERIMENT.partition("[models")[0].replace(', "+RNN"', "")
    (folder / "baseline.toml").write_text(baseline)
    (folder / "test.arpa").write_text(_ARPA)
    _run("build-lm train.fr --order 3 -o own.arpa", folder)
    for kind, inputs, name in (
        ("encoder-decoder", "table.gz", "rnn"),
        ("encoder-decoder --reverse", "table.gz", "rnn.reverse"),
        ("attention", _TEXT, "attention"),
        ("cslm --set model.self_normalization=0.1", "train.fr", "cslm"),
        ("joint --set model.self_normalization=0.1", f"{_TEXT} --alignments train.align", "joint"),
    ):
        _run(f"train {kind} {inputs} -o {name} --updates 2 --threads 1 --device cpu", folder)


def _run(command: str, folder: Path) -> None:
    status, stderr = starter().run(command.split(), folder, 600)
    assert status == 0, stderr


PHRASESCORE = (sys.executable, "-m", "phrasescore")


def _cut(source: Path, target: Path, lines: int) -> None:
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
        kept = b"".join(itertools.islice(file, lines))
    target.write_bytes(gzip.compress(kept, 1) if target.suffix == ".gz" else kept)
