"""The commands that are killed and whose disks get full, and the files that they work on.

The files are the shipped example, cut, and small networks.
"""

import gzip
import itertools
import os
import resource
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.benchmarks.commands import PHRASESCORE
from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "english-french"

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
[models.encoder-decoder]
updates = 10
set.model.hidden_size = 16
"""
_SYSTEM = """\
moses_ini = "small.ini"
weights = "system.weights"
nbest_size = 20
search.stack = 5
[[rescore]]
model = "rnnsearch"
"""

# The names in commands: what takes seconds, for kills, and what takes less, for disks.
LONG = {"table": "table.gz", "lists": "all.gz --source all.en"}
SHORT = {"table": "small.gz", "lists": "lists.gz --source dev.en"}


@dataclass(frozen=True)
class Case:
    """A command that writes into the folder "out".

    :ivar command: with names from ``LONG`` or ``SHORT``.
    :ivar resume: whether it goes on with ``--resume``; else it begins again.
    :ivar grows: whether an output is there before the end, as the table of the rows that are done,
        and the best weights so far after Ctrl-C.
    """

    command: str
    resume: bool = False
    grows: bool = False


_SIZES = "--set model.hidden_size=32 --set model.embedding_size=24"
_TEXT = "train.en train.fr"
_BLEU = (
    "rnnsearch --objective bleu --from rnnsearch --lists lists.gz --source dev.en "
    "--references dev.fr --weights weights --set training.validation_share=0.1 --updates 5"
)
_ANNOTATE = "annotate {table} --model rnn -o out/out.gz"
_RESCORE = "rescore {lists} --model rnnsearch -o out/out.gz --cache out/cache"
_TUNE = (
    "tune small.ini --set limits.stack=3 --workers 1 --tokenized "
    "--source dev.en --references dev.fr --method xbleu --iterations 3 --nbest-size 20 --threads 1 "
    "--working-dir out/loop -o out/out"
)
_RAY = "--engine ray --workers 1"
_TRAINED = {
    "encoder-decoder": f"encoder-decoder {{table}} {_SIZES}",
    "rnnsearch": f"rnnsearch {_TEXT} {_SIZES}",
    "grconv": f"grconv {_TEXT} {_SIZES} --set model.encoder_size=32",
    "lstm": f"lstm {_TEXT} {_SIZES}",
    "cslm": "cslm train.fr --set model.hidden_size=32",
    "joint": f"joint {_TEXT} --alignments train.align --set model.hidden_size=32",
    "transformer": f"transformer {_TEXT} --set model.hidden_size=32 --set model.heads=4 "
    "--set model.feed_forward_size=32 --set vocabulary.subwords=500",
    "bleu": _BLEU,
}
_RESUMED = {
    "annotate": f"{_ANNOTATE} --threads 1 --engine here",
    "annotate processes": f"{_ANNOTATE} --engine processes --workers 2",
    "annotate ray": f"{_ANNOTATE} {_RAY}",
    "rescore": f"{_RESCORE} --threads 1 --engine here",
    "rescore processes": f"{_RESCORE} --engine processes --workers 2",
    "rescore ray": f"{_RESCORE} {_RAY}",
    "rescore command": "rescore {lists} --command 'sed -u s/.*/1/' -o out/out.gz",
    "build": "build train.en train.fr -o out/out --workers 2",
    **{
        f"train {name}": f"train {text} -o out/out --device cpu --threads 1 "
        f"--set training.checkpoint_updates=3{' --updates 16' * ('--updates' not in text)}"
        for name, text in _TRAINED.items()
    },
}
_BEGUN_AGAIN = {
    "score": "score some.en some.fr --model rnnsearch --model rnn -o out/out.gz",
    "rerank": "rerank all.gz --weights moses.ini --nbest out/out.gz -o out/best",
    "translate by a moses.ini": "translate small.ini test.en --tokenized --set limits.stack=3 "
    "--workers 2 -o out/out --nbest out/lists.gz --nbest-size 9",
    "generate": "generate rnnsearch dev.en --beam 5 -o out/out --nbest out/lists.gz "
    "--nbest-size 5 --threads 1",
    "segment": "segment test.en --model rnn --reverse-model rnn.reverse -o out/out "
    "--segments out/segments.json --threads 1",
    "select": "select train.en train.fr --in-domain-target lm.fr.arpa.gz --general-target own.arpa "
    "--share 0.5 -o out/out --target-output out/out.fr",
    "translate": "translate system.toml test.en --workers 2 -o out/out --nbest out/lists.gz "
    "--nbest-size 9 "
    "--explain out/json",
    "build-lm": "build-lm train.fr -o out/out.gz",
    "evaluate": "evaluate all.fr turned.fr --references all.fr --paired approximate -o out/out "
    "--by-length reference --format json",
    "report": "report small.gz --model rnn --translation a=dev.fr --source dev.en "
    "--references dev.fr -o out/out",
    "export": "export joint -o out/out --moses-ini moses.ini --moses-ini-out out/ini",
}
CASES = {
    **{name: Case(command, resume=True) for name, command in _RESUMED.items()},
    **{name: Case(command) for name, command in _BEGUN_AGAIN.items()},
    "tune": Case(_TUNE, resume=True, grows=True),
    # A worker of Ray has one thread.
    "tune ray": Case(f"{_TUNE.replace('--threads 1 ', '')} {_RAY}", resume=True, grows=True),
    "tune lists of a system": Case(
        _TUNE.replace("small.ini", "system.toml"), resume=True, grows=True
    ),
    "tune lists": Case(
        "tune --lists lists.gz --references dev.fr --weights moses.ini "
        "--starts 5 --threads 1 -o out/out --report out/report",
        grows=True,
    ),
    "experiment": Case("experiment experiment.toml -o out/made", grows=True),
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
    for_lists = [line for line in weights if not line.startswith("Unknown")] + ["RNNsearch0= 0.3"]
    (folder / "weights").write_text("\n".join([*for_lists, ""]))
    both = "\n".join(["[search]", *weights, "[lists]", *for_lists, ""])
    (folder / "system.weights").write_text(both)
    (folder / "system.toml").write_text(_SYSTEM)
    (folder / "experiment.toml").write_text(_EXPERIMENT)
    _run("build-lm train.fr --order 3 -o own.arpa", folder)
    for kind, inputs, name in (
        ("encoder-decoder", "table.gz", "rnn"),
        ("encoder-decoder --reverse", "table.gz", "rnn.reverse"),
        ("rnnsearch", _TEXT, "rnnsearch"),
        ("cslm --set model.self_normalization=0.1", "train.fr", "cslm"),
        ("joint --set model.self_normalization=0.1", f"{_TEXT} --alignments train.align", "joint"),
    ):
        _run(f"train {kind} {inputs} -o {name} --updates 2 --threads 1 --device cpu", folder)


def _run(command: str, folder: Path) -> None:
    with (folder / "made.log").open("wb") as log:
        assert start(command, folder, log).wait() == 0, (folder / "made.log").read_text()
    (folder / "made.log").unlink()


def start(
    command: str, folder: Path, stderr: int | BinaryIO, limit: int | None = None
) -> "subprocess.Popen[bytes]":
    """Start a command in a session of its own.

    :param limit: bytes of each file that it may write.
    """

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [*PHRASESCORE, *shlex.split(command)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=restrict,
    )


def _cut(source: Path, target: Path, lines: int) -> None:
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
        kept = b"".join(itertools.islice(file, lines))
    target.write_bytes(gzip.compress(kept, 1) if target.suffix == ".gz" else kept)
