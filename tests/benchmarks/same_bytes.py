"""Run an older version of this package and this one on the example, and compare every output file.

    .venv/bin/python tests/benchmarks/same_bytes.py OLD [NEW] -o FOLDER [--only NAME]...

OLD is a checkout, such as ``git worktree add /tmp/base 5ae91ec4``; NEW is this one unless named.
The exit code is 1 if anything differs. FOLDER keeps both sides' files: delete it before another
run, or repeat single commands there with ``--only``.

Commands are written once, in the words of today. ``SPELLINGS`` has, for each older version, the
words that it had instead: who renames a verb, an option, a kind, a preset or a feature adds a line
there. Outputs are compared after an older version's names of features and kinds were replaced by
today's names. Both sides have the same inputs: if an output differs, the older side's output is
copied to the other side. Times in outputs are ignored (``IGNORED``).
"""

import argparse
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "english-french"


class Spelling(NamedTuple):
    """The words of an older version where today's are different; all are regular expressions."""

    # A file that this version's checkout has and later versions do not have.
    mark: str
    # In commands and settings, today's words: the older ones. Neither begins or ends in a word.
    words: Mapping[str, str]
    # In outputs and their names, the older words: today's.
    outputs: Mapping[str, str]


_DECODE = {
    r"translate (\S+\.ini) (\S+) --tokenized": r"decode \2 --config \1",
    r"translate (cslm|joint)\.toml (\S+) --tokenized": r"decode \2 --config {x}/moses.ini "
    r"--feature \1 --model \1 --weights \1.search --unnormalized",
    r"--set limits\.stack=(\d+)": r"--stack \1",
}
SPELLINGS = {
    "0.3": Spelling(
        mark="phrasescore/settings/presets/attention-small.toml",
        words={
            "rnnsearch": "attention",
            "rnnsearch-small": "attention-small",
            "encoder-decoder-small": "small",
            r"RNNsearch(\d+)": r"Attention\1",
            r"EncoderDecoder(\d+)": r"RNN\1",
            r"\[models\.encoder-decoder\]": "[models.rnn]",
            # Columns with options were options of the verb.
            r"""--column 'feature = "(\w+)", model = "ed"'""": r"--feature \1@1",
            r"""--column 'model = "(\w+)", backoff_lm = "(\S+)"'""": r"--model \1 --backoff-lm \2",
            r"--nbest (\S+) --nbest-size (\d+)": r"--nbest \1 \2",
            r"--nbest (\S+) -o /dev/null": r"--nbest -o \1",
            "--lists dev.rescored.gz": "--nbest dev.rescored.gz",
            **_DECODE,
        },
        outputs={
            r"\bAttention(?=\d)": "RNNsearch",
            r"\bRNN(?=\d)": "EncoderDecoder",
            r'\b(kind"?(?: =|:) )"attention"': r'\1"rnnsearch"',
            r"\bmodels/attention\b": "models/rnnsearch",
            r"\bmodels/rnn\b": "models/encoder-decoder",
        },
    ),
    # Before a system was a folder.
    "0.4-dev": Spelling(mark="phrasescore/workflows/decode.py", words=_DECODE, outputs={}),
}
TODAY = Spelling("", {}, {})

# Parts of a line that tell times, versions or folders, which differ between any two runs, and the
# digest of a file that is compared itself.
IGNORED = re.compile(
    rb'"config.toml": "\w+"|'
    rb'"(minutes|seconds|library|version|phrasescore|torch)": [^\n]*|\d+(\.\d+)? (s|minutes)\b'
    rb"|[0-9,]+ [a-z]+/s"
)
# A bigram model that knows one word.
ARPA = (
    "\\data\\\nngram 1=4\nngram 2=1\n\n"
    "\\1-grams:\n-1\t<s>\t0\n-1\t</s>\t0\n-2\t<unk>\t0\n-1\tle\t0\n\n"
    "\\2-grams:\n-1\t<s> le\n\n\\end\\\n"
)
EXPERIMENT = """
systems = ["Baseline", "+CSLM+RNN", "+RNNsearch"]
[data]
moses_ini = "{x}/moses.ini"
train = ["{x}/train.en.gz", "{x}/train.fr.gz"]
dev = {{ source = "{x}/dev.en", references = "{x}/dev.fr" }}
test.test = {{ source = "{x}/heldout.en", references = "{x}/heldout.fr" }}
[engine]
decoder = "embedded"
processes = 1
threads = 1
nbest_size = 20
iterations = 2
search = {{ stack = 10 }}
[tuning]
method = "xbleu"
replicas = 1
[models.rnnsearch]
updates = 30
[models.encoder-decoder]
updates = 30
[models.cslm]
updates = 30
unnormalized = true
"""
TRAIN = "--updates 30 --threads 1 --set training.validation_pairs=50"
LISTS = "{x}/dev.20best.gz --source {x}/dev.en "

# By name: the command, from the folder in which all of it runs; {x} is the example.
COMMANDS = {
    "train ed": "train encoder-decoder {x}/phrase-table.gz -o ed --preset encoder-decoder-small "
    + TRAIN,
    "train back": "train encoder-decoder {x}/phrase-table.gz -o back --reverse " + TRAIN,
    "train text": "train encoder-decoder train.en train.fr -o text --preset rnnenc-small " + TRAIN,
    "train tback": "train encoder-decoder train.en train.fr -o tback --preset rnnenc-small "
    "--reverse " + TRAIN,
    "train rnnsearch": "train rnnsearch train.en train.fr -o search " + TRAIN,
    "train lstm": "train lstm train.en train.fr -o lstm " + TRAIN,
    "train grconv": "train grconv train.en train.fr -o grconv " + TRAIN,
    "train cslm": "train cslm train.fr -o cslm " + TRAIN,
    "train joint": "train joint train.en train.fr --alignments {x}/train.align.gz -o joint "
    + TRAIN,
    "train transformer": "train transformer train.en train.fr -o transformer " + TRAIN,
    "annotate": "annotate {x}/phrase-table.gz --model ed --model back --column 'feature = "
    '"unknown_words", model = "ed"\' --feature number_mismatch -o annotated.gz',
    "annotate bfloat16": "annotate {x}/phrase-table.gz --model ed --precision bfloat16 -o bf16.gz",
    "annotate int8": "annotate {x}/phrase-table.gz --model ed --precision int8 -o int8.gz",
    "rescore": f"rescore {LISTS}--model ed --model search --model lstm --model grconv "
    "--model cslm --model transformer --lm {x}/lm.fr.arpa.gz --feature length_ratio "
    "--feature unknown_words -o dev.rescored.gz",
    "rescore ensemble": f"rescore {LISTS}--model search --model lstm --ensemble -o ensemble.gz",
    "rescore cslm": f'rescore {LISTS}--column \'model = "cslm", backoff_lm = '
    '"{x}/lm.fr.arpa.gz"\' --cache scores.db -o backoff.gz',
    "rescore int8": f"rescore {LISTS}--model search --precision int8 -o rescored.int8.gz",
    **{
        f"tune {method}": f"tune --lists dev.rescored.gz --references {{x}}/dev.fr --weights "
        f"{{x}}/moses.ini --method {method} -o {method}.weights --report {method}.report"
        for method in ("mert", "mira", "xbleu")
    },
    "tune json": "tune --lists dev.rescored.gz --references {x}/dev.fr --weights {x}/moses.ini "
    "--report tuned.json -o tuned.weights",
    "tune a system": "tune {x}/moses.ini --set limits.stack=10 --source {x}/dev.en --references "
    "{x}/dev.fr --tokenized --method xbleu --iterations 2 --nbest-size 20 -o loop",
    "rerank weights": "rerank dev.rescored.gz --weights mert.weights --nbest tuned.nbest.gz "
    "-o /dev/null",
    "rerank tuned": "rerank dev.rescored.gz --weights mert.weights -o tuned.fr",
    "translate": "translate {x}/moses.ini {x}/test.en --tokenized --set limits.stack=20 "
    "--nbest test.nbest --nbest-size 10 --alignment -o test.out",
    "translate cslm": "translate cslm.toml {x}/test.en --tokenized --set limits.stack=10 "
    "--nbest cslm.nbest --nbest-size 5 --distinct -o cslm.out",
    "translate joint": "translate joint.toml short.en --tokenized --set limits.stack=10 "
    "-o joint.out",
    "generate": "generate search {x}/test.en --beam 4 --ensemble lstm --nbest generated.nbest "
    "--nbest-size 4 "
    "-o generated.out",
    "generate sample": "generate ed phrases --sample 20 -o samples",
    "segment": "segment short.en --model text --reverse-model tback "
    "--segments segments -o segmented",
    "select": "select train.en train.fr --in-domain-target {x}/lm.fr.arpa.gz --general-target "
    "letters.arpa --share 0.2 -o part.en --target-output part.fr",
    "perplexity": "perplexity {x}/test.fr --model cslm --lm {x}/lm.fr.arpa.gz",
    "evaluate": "evaluate {x}/dev.en tuned.fr --references {x}/dev.fr "
    "--paired bootstrap --lists dev.rescored.gz -o evaluated",
    "evaluate json": "evaluate {x}/dev.en tuned.fr --references {x}/dev.fr --source {x}/dev.en "
    "--by-length source --by-unknown search --format json -o evaluated.json",
    "experiment": "experiment experiment.toml -o experiment",
}
# What each experiment step leaves that tells times or folders; its results are compared.
SKIPPED = re.compile(
    r"(^|/)(logs/|steps\.json|.*tune\.json|table\.html|.*\.log$|lock$|.*\.cache|scores\.db)"
)


class Side(NamedTuple):
    tree: Path
    folder: Path
    spelling: Spelling

    def run(self, command: str) -> tuple[int, bytes, bytes]:
        words = shlex.split(spell(command, self.spelling).format(x=EXAMPLE))
        done = subprocess.run(
            [sys.executable, "-c", "from phrasescore.cli import main; main()", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.tree)},
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def files(self) -> dict[str, Path]:
        """Return all files that are compared, by their names in today's words."""
        names = (path.relative_to(self.folder) for path in sorted(self.folder.rglob("*")))
        return {
            modernize(str(name).encode(), self.spelling).decode(): self.folder / name
            for name in names
            if (self.folder / name).is_file() and not SKIPPED.search(str(name))
        }

    def plain(self, data: bytes) -> bytes:
        """Return what is compared of an output: unpacked, in today's words, without times."""
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        data = data.replace(str(self.folder).encode(), b"FOLDER")
        return IGNORED.sub(b"", modernize(data, self.spelling))


def spelling_of(tree: Path) -> Spelling:
    """Return the words of a checkout."""
    return next((each for each in SPELLINGS.values() if (tree / each.mark).exists()), TODAY)


def spell(text: str, spelling: Spelling) -> str:
    """Return a command or settings in the words of an older version."""
    for today, older in spelling.words.items():
        text = re.sub(rf"(?<![\w/-]){today}(?![\w/-])", older, text)
    return text


def modernize(data: bytes, spelling: Spelling) -> bytes:
    """Return an output of an older version in today's names."""
    for older, today in spelling.outputs.items():
        data = re.sub(older.encode(), today.encode(), data)
    return data


def prepare(folder: Path, spelling: Spelling) -> None:
    """Make a folder with the files that all commands start from."""
    folder.mkdir(parents=True)
    for side in ("en", "fr"):
        with gzip.open(EXAMPLE / f"train.{side}.gz") as packed:
            (folder / f"train.{side}").write_bytes(packed.read())
    with gzip.open(EXAMPLE / "phrase-table.gz") as packed:
        lines = [packed.readline() for _ in range(4000)]
    sources = dict.fromkeys(line.split(b" ||| ")[0] for line in lines)
    (folder / "phrases").write_bytes(b"\n".join(list(sources)[:40]) + b"\n")
    for name in ("phrase-table.gz", "lm.fr.arpa.gz"):  # moses.ini has paths from here
        (folder / name).symlink_to(EXAMPLE / name)
    for path in EXAMPLE.glob("reordering-table*"):
        (folder / path.name).symlink_to(path)
    (folder / "letters.arpa").write_text(ARPA, "utf-8")
    for name in ("CSLM", "Joint"):
        kind = name.lower()
        (folder / f"{kind}.search").write_text(f"{name}0= 0.1\n")
        search = f'search = [{{ model = "{kind}", unnormalized = true }}]'
        (folder / f"{kind}.toml").write_text(
            f'moses_ini = "{EXAMPLE}/moses.ini"\nweights = "{kind}.search"\n{search}\n', "utf-8"
        )
    short = (EXAMPLE / "test.en").read_bytes().split(b"\n")[:30]
    (folder / "short.en").write_bytes(b"\n".join(short) + b"\n")
    text = spell(EXPERIMENT, spelling).format(x=EXAMPLE)
    (folder / "experiment.toml").write_text(text, "utf-8")


def compare(name: str, old: Side, new: Side) -> Iterator[str]:
    """Run one command on both sides; yield what differs."""
    before = [_times(side) for side in (old, new)]
    results = [side.run(COMMANDS[name]) for side in (old, new)]
    codes = [code for code, _, _ in results]
    if codes != [0, 0]:
        said = [error.decode()[-300:] for _, _, error in results]
        yield f"{name}: exit codes {codes}: {json.dumps(said)}"
    ours, theirs = (side.plain(result[1]) for side, result in zip((old, new), results, strict=True))
    if ours != theirs:
        yield f"{name}: stdout differs"
    made = [
        {path for path, time in _times(side).items() if earlier.get(path) != time}
        for side, earlier in zip((old, new), before, strict=True)
    ]
    if not made[0] and not ours:
        yield f"{name}: no output"
    for path in sorted(made[0] ^ made[1]):
        yield f"{name}: only one side has {path}"
    for path in sorted(made[0] & made[1]):
        one, other = old.files()[path], new.files()[path]
        if old.plain(one.read_bytes()) != new.plain(other.read_bytes()):
            yield f"{name}: {path} differs"
            shutil.copyfile(one, other)  # what follows has the same inputs


def _times(side: Side) -> dict[str, int]:
    return {name: path.stat().st_mtime_ns for name, path in side.files().items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=REPOSITORY)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], choices=list(COMMANDS))
    given = parser.parse_args()
    old, new = (
        Side(tree.resolve(), given.output.resolve() / name, spelling_of(tree))
        for name, tree in (("old", given.old), ("new", given.new))
    )
    for side in (old, new):
        if not side.folder.exists():
            prepare(side.folder, side.spelling)
    different = []
    for name in given.only or COMMANDS:
        found = list(compare(name, old, new))
        print(f"{'DIFFERENT' if found else 'same':9} {name}", flush=True)
        different += found
    print("\n".join(different) or "every output is the same")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
