"""Run two versions of this package side by side on the example, and compare every output file.

    .venv/bin/python tests/benchmarks/same_bytes.py OLD NEW -o FOLDER [--only NAME]...

OLD and NEW are checkouts. Each command runs in both, with the same inputs: those that the old
version has made. What a run says of its time is left out of the comparison (`IGNORED`).
"""

import argparse
import filecmp
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "english-french"
# Parts of a line that tell times, versions or folders, which differ between any two runs.
IGNORED = re.compile(
    rb'"(minutes|seconds|library|version|phrasescore|torch)": [^\n]*|\d+(\.\d+)? (s|minutes)\b'
    rb"|[0-9,]+ [a-z]+/s"
)
# A bigram model that knows one word.
ARPA = (
    "\\data\\\nngram 1=4\nngram 2=1\n\n"
    "\\1-grams:\n-1\t<s>\t0\n-1\t</s>\t0\n-2\t<unk>\t0\n-1\tle\t0\n\n"
    "\\2-grams:\n-1\t<s> le\n\n\\end\\\n"
)
TRAIN = "--updates 30 --threads 1 --set training.validation_pairs=50"
NETWORKS = "--model ed --model att --model lstm --model grconv --model cslm"

# By name: the command, from the folder in which all of it runs; {x} is the example.
COMMANDS = {
    "train ed": "train encoder-decoder {x}/phrase-table.gz -o ed --preset small " + TRAIN,
    "train back": "train encoder-decoder {x}/phrase-table.gz -o back --reverse " + TRAIN,
    "train text": "train encoder-decoder train.en train.fr -o text --preset rnnenc-small " + TRAIN,
    "train tback": "train encoder-decoder train.en train.fr -o tback --preset rnnenc-small "
    "--reverse " + TRAIN,
    "train att": "train attention train.en train.fr -o att " + TRAIN,
    "train lstm": "train lstm train.en train.fr -o lstm " + TRAIN,
    "train grconv": "train grconv train.en train.fr -o grconv " + TRAIN,
    "train cslm": "train cslm train.fr -o cslm " + TRAIN,
    "annotate": "annotate {x}/phrase-table.gz --model ed --model back --feature unknown_words@1 "
    "--feature punctuation_mismatch -o annotated.gz --moses-ini {x}/moses.ini "
    "--moses-ini-out annotated.ini",
    "annotate bfloat16": "annotate {x}/phrase-table.gz --model ed --precision bfloat16 -o bf16.gz",
    "annotate int8": "annotate {x}/phrase-table.gz --model ed --precision int8 -o int8.gz",
    "rescore": "rescore {x}/dev.20best.gz --source {x}/dev.en "
    + NETWORKS
    + " --lm {x}/lm.fr.arpa.gz "
    "--feature length_ratio --feature unknown_words --normalize -o dev.rescored.gz",
    "rescore ensemble": "rescore {x}/dev.20best.gz --source {x}/dev.en --model att --model lstm "
    "--ensemble --word-scores words.gz -o ensemble.gz",
    "rescore cslm": "rescore {x}/dev.20best.gz --source {x}/dev.en --model cslm "
    "--backoff-lm {x}/lm.fr.arpa.gz --cache scores.db -o backoff.gz",
    "rescore int8": "rescore {x}/dev.20best.gz --source {x}/dev.en --model att --precision int8 "
    "-o rescored.int8.gz",
    "rerank average": "rerank dev.rescored.gz --average Attention0 -o average.fr",
    "rerank nbest": "rerank dev.rescored.gz --average Attention0 --nbest -o average.nbest.gz",
    "rerank mbr": "rerank dev.rescored.gz --average Attention0 --mbr -o mbr.fr",
    **{
        f"tune {method}": f"tune dev.rescored.gz --references {{x}}/dev.fr --moses-ini "
        f"{{x}}/moses.ini --method {method} -o {method}.weights --report {method}.report"
        for method in ("mert", "mira", "pro", "xbleu")
    },
    "tune replicas": "tune dev.rescored.gz --references {x}/dev.fr --moses-ini {x}/moses.ini "
    "--replicas 2 --moses-ini-out replicas.ini --format json --report replicas.json -o "
    "replicas.weights",
    "tune embedded": "tune --decoder embedded --config {x}/moses.ini --decoder-flags '--stack 10' "
    "--source {x}/dev.en --references {x}/dev.fr --method xbleu --iterations 2 --nbest-size 20 "
    "--rescore att --working-dir loop --translations loop.fr -o loop.weights",
    "tune merge": "tune --weights mert.weights --moses-ini {x}/moses.ini "
    "--moses-ini-out merged.ini",
    "rerank weights": "rerank dev.rescored.gz --weights mert.weights --nbest -o tuned.nbest.gz",
    "decode": "decode {x}/test.en --config {x}/moses.ini --stack 20 --nbest test.nbest 10 "
    "--alignment -o test.out",
    "decode cslm": "decode {x}/test.en --config {x}/moses.ini --stack 10 --feature cslm "
    "--model cslm --feature-weight CSLM0=0.1 --unnormalized --nbest cslm.nbest 5 "
    "--distinct -o cslm.out",
    "generate": "generate att {x}/test.en --beam 4 --ensemble lstm --nbest generated.nbest 4 "
    "-o generated.out",
    "generate sample": "generate ed phrases --sample 20 --top 5 -o samples",
    "segment": "segment short.en --model text --reverse-model tback "
    "--segments segments -o segmented",
    "select": "select train.en train.fr --in-domain-target {x}/lm.fr.arpa.gz --general-target "
    "letters.arpa --share 0.2 -o part.en --target-output part.fr --scores part.scores",
    "select random": "select train.en train.fr --random --lines 100 -o random.en "
    "--target-output random.fr",
    "perplexity": "perplexity {x}/test.fr --model cslm --lm {x}/lm.fr.arpa.gz --mix-on {x}/dev.fr",
    "evaluate": "evaluate {x}/dev.en average.fr mbr.fr --references {x}/dev.fr --paired bootstrap "
    "--nbest dev.rescored.gz -o evaluated",
    "evaluate json": "evaluate average.fr mbr.fr --references {x}/dev.fr --source {x}/dev.en "
    "--by-length source --by-unknown att --format json -o evaluated.json",
    "show": "show ed",
    "show table": "show {x}/phrase-table.gz",
    "report": "report {x}/phrase-table.gz dev.rescored.gz --model ed --model att "
    "--source {x}/dev.en --references {x}/dev.fr --translation mbr=mbr.fr "
    "-o report",
    "experiment": "experiment experiment.toml -o experiment",
}
# What each experiment step leaves that tells times or folders; its results are compared.
SKIPPED = re.compile(
    r"(^|/)(logs/|steps\.json|.*tune\.json|table\.html|.*\.log$|lock$|.*\.cache|scores\.db)"
)


def prepare(folder: Path) -> None:
    folder.mkdir(parents=True)
    for side in ("en", "fr"):
        with gzip.open(EXAMPLE / f"train.{side}.gz") as packed:
            (folder / f"train.{side}").write_bytes(packed.read())
    with gzip.open(EXAMPLE / "phrase-table.gz") as packed:
        lines = [packed.readline() for _ in range(4000)]
    (folder / "table.gz").write_bytes(gzip.compress(b"".join(lines), mtime=0))
    sources = dict.fromkeys(line.split(b" ||| ")[0] for line in lines)
    (folder / "phrases").write_bytes(b"\n".join(list(sources)[:40]) + b"\n")
    for name in ("phrase-table.gz", "lm.fr.arpa.gz"):  # moses.ini has paths from here
        (folder / name).symlink_to(EXAMPLE / name)
    for path in EXAMPLE.glob("reordering-table*"):
        (folder / path.name).symlink_to(path)
    (folder / "letters.arpa").write_text(ARPA, "utf-8")
    short = (EXAMPLE / "test.en").read_bytes().split(b"\n")[:30]
    (folder / "short.en").write_bytes(b"\n".join(short) + b"\n")
    text = (EXAMPLE / "experiment.toml").read_text("utf-8")
    text = re.sub(r"(updates|epochs) = \d+", "updates = 30", text)
    text = text.replace("iterations = 3", "iterations = 2")
    text = text.replace('"moses.ini"', f'"{EXAMPLE}/moses.ini"')
    text = re.sub(
        r'"((train|dev|test|heldout)\.[a-z.]+)"', lambda found: f'"{EXAMPLE}/{found[1]}"', text
    )
    (folder / "experiment.toml").write_text(text, "utf-8")


def run(tree: Path, folder: Path, command: str) -> tuple[int, bytes, bytes]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    words = shlex.split(command.format(x=EXAMPLE))
    done = subprocess.run(
        [sys.executable, "-c", "from phrasescore.cli import main; main()", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not SKIPPED.search(str(name)):
            yield name


def content(path: Path, folder: Path) -> bytes:
    """Return what is compared of a file: decompressed, without times and folders."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return IGNORED.sub(b"", data.replace(str(folder).encode(), b"FOLDER"))


def compare(name: str, sides: dict[str, Path], before: set[Path]) -> list[str]:
    made = {side: set(files(folder)) - before for side, folder in sides.items()}
    found = [f"{name}: only one side has {path}" for path in made["old"] ^ made["new"]]
    for path in sorted(made["old"] & made["new"]):
        one, other = (sides[side] / path for side in ("old", "new"))
        if filecmp.cmp(one, other, shallow=False):
            continue
        if content(one, sides["old"]) != content(other, sides["new"]):
            found.append(f"{name}: {path} differs")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], choices=list(COMMANDS))
    given = parser.parse_args()
    trees = {"old": given.old.resolve(), "new": given.new.resolve()}
    sides = {side: given.output.resolve() / side for side in trees}
    for folder in sides.values():
        if not folder.exists():
            prepare(folder)
    different = []
    for name in given.only or COMMANDS:
        before = set(files(sides["old"]))
        results = {side: run(trees[side], folder, COMMANDS[name]) for side, folder in sides.items()}
        codes = [code for code, _, _ in results.values()]
        found = compare(name, sides, before)
        outs = [
            IGNORED.sub(b"", results[side][1].replace(str(folder).encode(), b""))
            for side, folder in sides.items()
        ]
        if outs[0] != outs[1]:
            found.append(f"{name}: stdout differs")
        if codes != [0, 0]:
            said = {side: result[2].decode()[-300:] for side, result in results.items()}
            found.append(f"{name}: exit codes {codes}: {json.dumps(said)}")
        files_made = len(set(files(sides["old"])) - before)
        print(f"{'same' if not found else 'DIFFERENT':9} {name} ({files_made} files)", flush=True)
        different += found
        for path in set(files(sides["old"])) - before:  # what follows has the same inputs
            if (sides["new"] / path).exists():
                shutil.copyfile(sides["old"] / path, sides["new"] / path)
    print("\n".join(different) or "every output file is the same")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
