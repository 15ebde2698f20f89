"""Disks that get full: one line of error and the old output, or all bytes."""

import resource
import shlex
import subprocess
from pathlib import Path

from tests.faults.works import PHRASESCORE

# Writers, each with the files that it writes, in the folder "disk".
WRITERS = {
    "annotate": (
        "annotate small.gz --model rnn -o disk/out.gz --threads 1 --engine here",
        "out.gz",
    ),
    "annotate plain": (
        "annotate small.gz --model rnn -o disk/out --threads 1 --engine here",
        "out",
    ),
    "rescore": (
        (
            "rescore lists.gz --source dev.en --model attention -o disk/out.gz --threads 1 "
            "--cache disk/cache --engine here"
        ),
        "out.gz",
    ),
    "rerank": ("rerank lists.gz --average LM0 --nbest -o disk/out.gz", "out.gz"),
    "combine": ("combine lists.gz lists.gz -o disk/out.gz", "out.gz"),
    "decode": (
        (
            "decode dev.en --config moses.ini --stack 3 --processes 1 -o disk/out "
            "--nbest disk/lists.gz 50"
        ),
        "out",
    ),
    "generate": (
        "generate attention dev.en --nbest disk/lists.gz 5 -o disk/out --threads 1",
        "out",
    ),
    "generate --augment": (
        "generate rnn --augment small.gz --targets 2 -o disk/out.gz --threads 1",
        "out.gz",
    ),
    "select": (
        "select train.fr --in-domain lm.fr.arpa.gz --random --share 0.9 -o disk/out.gz",
        "out.gz",
    ),
    "tune": (
        (
            "tune lists.gz --references dev.fr --moses-ini moses.ini --moses-ini-out disk/out "
            "--method mira --features-out disk/features.gz --scores-out disk/scores.gz"
        ),
        "out",
    ),
    "train": (
        "train lstm dev.en dev.fr --updates 2 -o disk/out --threads 1",
        "out/model.safetensors",
    ),
    "show": ("show small.gz --model rnn --format json", ""),
}


def fill(command: str, output: str, folder: Path, size: int) -> str | None:
    """Run a writer in a folder where no file gets larger than ``size``; return what is wrong.

    A limit of a file's size ends a write as a full disk does, and needs no mount.
    """
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    before = {path.name: path.read_bytes() for path in disk.iterdir() if path.is_file()}
    try:
        done = subprocess.run(
            [*PHRASESCORE, *shlex.split(command)],
            cwd=folder,
            capture_output=True,
            timeout=180,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
    except subprocess.TimeoutExpired:
        return f"{size} bytes: it hangs"
    if done.returncode == 0:
        return None
    errors = done.stderr.decode().splitlines()
    if done.returncode != 1 or not errors or not errors[-1].startswith("Error: "):
        return f"{size} bytes: exit {done.returncode}: {errors[-3:]}"
    for name, data in before.items():
        if (disk / name).read_bytes() != data:
            return f"{size} bytes: the old {name} is another"
    if output and output.partition("/")[0] not in before and (disk / output).exists():
        return f"{size} bytes: exit 1, and {output} is there"
    return None
