"""The files that are damaged: a part of the shipped example, and networks of random weights."""

import gzip
import itertools
import json
import os
import random
import re
import shutil
import xmlrpc.client
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import torch

from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, empty_network, save_checkpoint
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import TransformerConfig
from phrasescore.vocabulary import SubwordVocabulary, Vocabulary
from phrasescore.workflows.work_folder import WorkFolder
from tests.command_line import run
from tests.conftest import REPOSITORY
from tests.doubles import RandomCslm, RandomJoint, RandomModel
from tests.random_networks import RandomNetwork
from tests.tiny_bitext import sentence_pairs
from tests.tiny_generator import TinyGenerator
from tests.tiny_runs import write_table
from tests.tiny_translator import tiny_translator

_EXAMPLE = REPOSITORY / "examples" / "english-french"
SENTENCES, HYPOTHESES, PAIRS = 4, 5, 60

# Moses wants it in one line, of more letters than a line has here.
_TYPE = "wbe-msd-bidirectional-fe-allff"
_INI = """\
[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
3

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=table
LexicalReordering name=LexicalReordering0 num-features=6 path=reordering type={TYPE}
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
""".replace("{TYPE}", _TYPE)

_EXPERIMENT = """\
systems = ["Baseline", "+RNN", {name = "+mine", columns = ["encoder-decoder"], lists = ["lstm"]}]
[data]
moses_ini = "moses.ini"
train = ["source", "references"]
dev = { source = "source", references = "references" }
test.held = { source = "source", references = ["references"] }
[engine]
jobs = 1
search = { stack = 10 }
[tuning]
method = "mert"
replicas = 2
[models.encoder-decoder]
minutes = 1
set.model.hidden_size = 8
[models.lstm]
epochs = 2.5
"""

_DECODER = """\
#!/bin/sh
cat > /dev/null
while [ $# -gt 0 ]; do
    [ "$1" = -n-best-list ] && cp decoded.nbest "$2"
    shift
done
"""

_TABLE = """\
best = "+RNN"
metric = "bleu"
notes = ["BLEU."]
[[text]]
name = "dev"
source = "source"
references = ["references"]
tuned = true
[[row]]
name = "Baseline"
rounds = ["2+"]
system = "Baseline"
scores."dev" = { mean = 30.0, replicas = [30.0], length_ratio = 1.0 }
scores."held" = { mean = 31.0, replicas = [31.0] }
[[row]]
name = "+RNN"
system = "+RNN"
features = "columns encoder-decoder"
outputs."dev" = ["dev.out"]
scores."dev" = { replicas = [31.9, 32.1], difference = 2, p_value = 0.04, interval = [1, 3] }
scores."held" = { replicas = [31.5] }
"""


def make_material(folder: Path) -> None:
    folder.mkdir(parents=True)
    sources = _text("dev.en")[:SENTENCES]
    references = _text("dev.fr")[:SENTENCES]
    _write(folder / "source", sources)
    _write(folder / "references", references)
    nbest = [
        line
        for _, lines in itertools.groupby(_lists(), key=lambda line: line.split(b" ")[0])
        for line in itertools.islice(lines, HYPOTHESES)
    ]
    _write(folder / "nbest", nbest)
    _write(folder / "aligned.nbest", [line + b" ||| 0-0" for line in nbest])
    _write(folder / "alignments", [b"0-0 1-1"] * SENTENCES)
    _write(folder / "numbers", [b"-%d.5" % number for number in range(len(nbest))])
    _write(folder / "weights", _INI[_INI.index("[weight]") :].encode().split(b"\n")[2:-1])
    known = {word for line in sources for word in line.split()}
    pairs = [line for line in _pairs("phrase-table.gz") if known >= set(_fields(line)[0].split())]
    pairs = sorted(random.Random(1).sample(pairs, PAIRS))
    _write(folder / "table", pairs)
    _write(folder / "table.numbers", [b"%d" % number for number in range(PAIRS)])
    keys = {tuple(_fields(line)[:2]) for line in pairs}
    reordering = _pairs("reordering-table.wbe-msd-bidirectional-fe.gz")
    _write(folder / "reordering", [line for line in reordering if tuple(_fields(line)[:2]) in keys])
    french = sorted({word for line in [*references, *nbest] for word in line.split()[2:12]})
    english = sorted(known)
    _write(folder / "lm.arpa", _arpa(french))
    _write(folder / "general.arpa", _arpa(english))
    (folder / "lm.arpa.gz").write_bytes(gzip.compress((folder / "lm.arpa").read_bytes(), mtime=0))
    words = list(zip(french, english, strict=False))
    _write(folder / "f2e", [b"%b %b 0.25" % pair for pair in words])
    _write(folder / "e2f", [b"%b %b 0.25" % pair[::-1] for pair in words])
    (folder / "moses.ini").write_text(_INI)
    (folder / "experiment.toml").write_text(_EXPERIMENT)
    preset = (
        REPOSITORY / "phrasescore" / "settings" / "presets" / "encoder-decoder-small.toml"
    ).read_text()
    small = re.sub(r"(?m)^(hidden|embedding|maxout)_size = .*", r"\1_size = 6", preset)
    (folder / "settings.toml").write_text(small.replace("output_rank = 64", "output_rank = 4"))
    _write(folder / "mixed", references[:2])
    # As Moses is called: its last option names the file of the lists.
    script = folder / "decoder.sh"
    script.write_text(_DECODER)
    script.chmod(0o755)
    shutil.copy(folder / "nbest", folder / "decoded.nbest")
    columns = ['model = "cslm"', 'lm = "general.arpa"', 'lexicon = "f2e"']
    columns += ['reverse_lexicon = "e2f"', 'feature = "length_ratio"']
    rows = ", ".join(f"{{ {column} }}" for column in columns)
    (folder / "lists.toml").write_text(f'moses_ini = "moses.ini"\nlists = [{rows}]\n')
    (folder / "made.experiment").mkdir()
    (folder / "made.experiment" / "table.toml").write_text(_TABLE)
    sides = [w.decode() for w in english], [w.decode() for w in french]
    _write_networks(folder, *sides)
    _write_more(folder, nbest, sides)
    write_table(folder / "made.table")
    before = Path.cwd()
    os.chdir(folder)
    try:
        _run("rescore nbest --source source --model lstm --cache cache -o made")
        _run(
            "train joint source references --alignments alignments --updates 1 -o joined "
            "--keep-work --device cpu"
        )
        shutil.rmtree("joined")
        _run(
            "train encoder-decoder made.table --updates 1 -o worked --keep-work --device cpu "
            "--set model.hidden_size=8"
        )
        shutil.rmtree("worked")
        # Nobody waits in vain for what is compiled: that is done here.
        _run("translate moses.ini source --tokenized --workers 1 --set limits.stack=5 -o made")
        _stop("rescore nbest --source source --model lstm -o begun")
        _stop("annotate table --model rnn -o scored --engine here")
        _run_more()
        _run(
            "tune moses.ini --decoder ./decoder.sh --source source --references references "
            "--iterations 1 --method xbleu --working-dir loop -o tuned --report report.json"
        )
    finally:
        os.chdir(before)
    (folder / "made").unlink()


def _run(command: str) -> None:
    result = run(*command.split(), "--threads", "1")
    assert result.exit_code == 0, result.output


def _stop(command: str) -> None:
    """Run a command that is stopped when all is done but the last: its output has no name yet."""
    output = os.path.realpath(command.split(" -o ")[1].split()[0])

    def replace(old: str, new: str) -> None:
        if new == output:
            raise KeyboardInterrupt
        os.rename(old, new)

    with mock.patch("phrasescore.io.resumable.os.replace", replace):
        result = run(*command.split(), "--threads", "1")
    assert isinstance(result.exception, SystemExit | KeyboardInterrupt), result.output
    assert Path(f"{output}.part.json").exists()


def _write_networks(folder: Path, english: list[str], french: list[str]) -> None:
    sides = english[:-2], french[:-2]
    RandomModel(folder / "rnn", *sides)
    RandomModel(folder / "reverse", *sides, reverse=True)
    RandomCslm(sides[1], path=folder / "cslm", self_normalization=0.1)
    RandomJoint(*sides, path=folder / "joint")
    for kind in ("rnnsearch", "grconv", "lstm"):
        save_checkpoint(folder / kind, RandomNetwork(kind, *sides).checkpoint)
    pieces = [SubwordVocabulary.from_counts(dict.fromkeys(words, 1.0), 100) for words in sides]
    save_checkpoint(folder / "subwords", RandomNetwork("lstm", *pieces).checkpoint)


def _arpa(words: list[bytes]) -> Iterator[bytes]:
    yield from (b"\\data\\", b"ngram 1=%d" % (len(words) + 3), b"ngram 2=2", b"", b"\\1-grams:")
    yield from (b"-3\t<unk>\t0", b"-99\t<s>\t-0.2", b"-1\t</s>\t0")
    yield from (b"-2\t%b\t-0.1" % word for word in words)
    yield from (b"", b"\\2-grams:", b"-0.2\t<s> %b" % words[0], b"-0.3\t%b </s>" % words[1])
    yield from (b"", b"\\end\\")


def _text(name: str) -> list[bytes]:
    return (_EXAMPLE / name).read_bytes().split(b"\n")[:-1]


def _lists() -> Iterator[bytes]:
    for line in gzip.decompress((_EXAMPLE / "dev.20best.gz").read_bytes()).split(b"\n")[:-1]:
        if int(line.split(b" ")[0]) < SENTENCES:
            yield line


def _pairs(name: str) -> list[bytes]:
    return gzip.decompress((_EXAMPLE / name).read_bytes()).split(b"\n")[:-1]


def _fields(line: bytes) -> list[bytes]:
    return [field.strip() for field in line.split(b"|||")]


def _write(path: Path, lines: Iterable[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


_PROGRAMS = {
    # Answers each line with the next line of a file.
    "program.sh": """\
#!/bin/sh
while IFS= read -r line && IFS= read -r answer <&3; do printf '%s\\n' "$answer"; done 3< answers
""",
    "length.sh": """\
#!/bin/sh
while IFS= read -r line; do echo ${#line}; done
""",
}

_SYSTEM = """\
moses_ini = "two.ini"
weights = "system.weights"
nbest_size = 4
confidence = { scale = 0.5, slope = 2, offset = -1.0 }
search_models = ["cslm"]
backoff_lm = "general.arpa"
[search]
stack = 5
[[rescore]]
model = "rnnsearch"
[[rescore]]
feature = "length_ratio"
[[rescore]]
lexicon = "f2e"
[[rescore]]
command = "./length.sh"
"""
_LISTS = {"CSLM0": 0.1, "RNNsearch0": 0.2, "LengthRatio0": 0.1, "Lexicon0": 0.1, "Program0": 0.1}

# All that a user can write into a folder.
_FOLDER = """\
moses_ini = "moses.ini"
weights = "weights"
search = [{ model = "../cslm", backoff_lm = "../general.arpa" }, { model = "../joint" }]
columns = [{ model = "../rnn" }]
nbest_size = 4
limits = { stack = 5, beam-threshold = 0 }
confidence = { scale = 0.5, slope = 2, offset = -1.0 }
lists = [{ model = "../rnnsearch" }, { feature = "length_ratio" }, { lexicon = "../f2e" },
    { command = "./length.sh", timeout = 60 }]
[text]
tokenize = "en fr"
truecase_source = "../truecaser"
"""
_ROW = """\
moses_ini = "moses.ini"
weights = "weights"
search = [{ model = "../../cslm" }, { model = "../../joint" }]
limits.stack = 5
"""

_TEXT_SYSTEM = """\
moses_ini = "moses.ini"
[search]
stack = 5
[text]
tokenize = "en fr"
truecase_source = "truecaser"
truecase_target = "truecaser"
"""

_OUTSIDE = """\
systems = ["Baseline", {name = "+all", columns = ["lexicon"], lists = ["qe", "gpt", "lm"]}]
[data]
moses_ini = "moses.ini"
train = ["source", "references"]
dev = { source = "source", references = "references" }
test.held = { source = "source", references = ["references"] }
[text]
tokenize = "en fr"
truecase_source = "truecaser"
[features]
lm.lm = "general.arpa"
lexicon.lexicon = "f2e"
reverse_lexicon.reverse_lexicon = "e2f"
[features.qe]
command = "./program.sh"
[features.gpt]
ctranslate2 = "gpt"
prompt = "{source}="
"""

_PARAMETERS = {"text": "the {} is", "align": True, "nbest": 2, "add-score-breakdown": True}


def _write_more(folder: Path, nbest: Sequence[bytes], words: tuple[list[str], list[str]]) -> None:
    """Write the files into the folder of the others.

    :param nbest: n-best lists in Moses' format.
    :param words: of the source and of the target.
    """
    _write_lists(folder, nbest)
    _write_systems(folder, words[0])
    _write_folders(folder)
    _write_requests(folder, words[0][:5])
    TinyGenerator(folder / "gpt")
    tiny_translator(folder / "marian", positions=400)
    for name, text in _PROGRAMS.items():
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    (folder / "answers").write_text("".join(f"-{number}.5\n" for number in range(99)))
    source, target = (Vocabulary(side[:-2]) for side in words)
    config = Config(kind="transformer", model=TransformerConfig(1, 8, 2, 12))
    network = empty_network(config, len(source), len(target)).to_empty(device="cpu").eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.25, generator=generator)
    checkpoint = Checkpoint(network, config, source, target, TrainingRecord())
    save_checkpoint(folder / "transformer", checkpoint)


def _write_lists(folder: Path, nbest: Sequence[bytes]) -> None:
    # A TinyGenerator reads few words.
    text = (folder / "source").read_bytes().split(b"\n")[:-1]
    short = [b" ".join(line.split()[:3]) + b"\n" for line in text]
    (folder / "short.source").write_bytes(b"".join(short))
    lines = [line.split(b"|||") for line in nbest]
    lists = [
        b"|||".join([which, b" ".join(words.split()[:3]), *rest]) for which, words, *rest in lines
    ]
    (folder / "short.nbest").write_bytes(b"".join(line + b"\n" for line in lists))
    made: dict[str, list[bytes]] = {"joshua": [], "old": [], "sparse": []}
    for number, line in enumerate(nbest):
        which, words, _, total = (field.strip() for field in line.split(b"|||")[:4])
        values = number % 3, number % 5
        features = {
            "joshua": b"lm_0=-%d.5 WordPenalty=-%d" % values,
            "old": b"lm: -%d.5 tm: -%d -1" % values,
            "sparse": b"LM0= -%d.5 Edit0= -%d" % values + b" Edit0_a= 1" * (number % 2),
        }
        for name, field in features.items():
            made[name].append(b" ||| ".join([which, words, field, total]) + b"\n")
    for name, each in made.items():
        (folder / f"{name}.nbest").write_bytes(b"".join(each))
    (folder / "joshua.weights").write_text("lm_0 0.5\nWordPenalty= -0.5\n")
    (folder / "sparse.weights").write_text("LM0= 0.5\nEdit0= 0.5\nEdit0_a 0.25\nEdit0_b -1\n")
    (folder / "sparse.part").write_text("Edit0_a 0.25\nEdit0_b -1\n")
    ini = (folder / "moses.ini").read_text()
    ini = ini.replace("[weight]", "[weight-file]\nsparse.part\n\n[weight]\nEdit0= 0.5")
    (folder / "sparse.ini").write_text(ini.replace("PhrasePenalty\n", "PhrasePenalty\nEdit0\n"))


def _write_systems(folder: Path, english: list[str]) -> None:
    ini = (folder / "moses.ini").read_text()
    more = "KENLM name=LM1 factor=0 path=general.arpa order=2\n"
    two = ini.replace("\n[weight]", f"{more}\n[weight]") + "LM1= 0.1\n"
    (folder / "two.ini").write_text(two)
    weights = two[two.index("[weight]") + len("[weight]\n") :]
    weights = weights.replace("UnknownWordPenalty0= 1\n", "")
    added = [f"{name}= {value}" for name, value in _LISTS.items()]
    lines = ["[search]", weights.rstrip(), added[0], "[lists]", weights.rstrip(), *added]
    (folder / "system.weights").write_text("\n".join(lines) + "\n")
    (folder / "system.toml").write_text(_SYSTEM)
    (folder / "text.toml").write_text(_TEXT_SYSTEM)
    (folder / "networks.toml").write_text(
        'moses_ini = "moses.ini"\nweights = "networks.weights"\n'
        'search = [{ model = "cslm" }, { model = "joint" }]\n'
    )
    own = ini[ini.index("[weight]") + len("[weight]\n") :].replace("UnknownWordPenalty0= 1\n", "")
    (folder / "networks.weights").write_text(f"{own.rstrip()}\nCSLM0= 0.1\nJoint0= 0.1\n")
    cases = [f"{word} (3/4) {word.capitalize()} (1/4)" for word in english]
    (folder / "truecaser").write_text("\n".join(cases) + "\n")
    (folder / "raw").write_text(f'The (big) {english[0]}\'s red.\n\nIs "it"?\n')
    (folder / "outside.toml").write_text(_OUTSIDE)
    pairs = sentence_pairs(12)
    for side, name in enumerate(("raw.source", "raw.target")):
        lines = [f"{pair[side].capitalize()}." for pair in pairs]
        (folder / name).write_text("\n".join(lines) + "\n")


def _write_folders(folder: Path) -> None:
    """Write systems as folders: one by hand, and one that is a row of an experiment."""
    row = folder / "made.experiment" / "+RNN"
    ini = re.sub(r"path=(?=\w)", "path=../../", (folder / "moses.ini").read_text())
    for system, text in ((folder / "system", _FOLDER), (row, _ROW)):
        system.mkdir()
        above = "../" if system != row else "../../"
        (system / "system.toml").write_text(text)
        (system / "moses.ini").write_text(ini.replace("../../", above))
        shutil.copy(folder / "networks.weights", system / "weights")
    added = "".join(f"{name}= {value}\n" for name, value in _LISTS.items() if name != "CSLM0")
    with (folder / "system" / "weights").open("a") as file:
        file.write(added)
    plan = (folder / "experiment.toml").read_text()
    plan = plan.replace("[engine]", 'monolingual = ["mixed"]\n[engine]')
    (folder / "monolingual.toml").write_text(plan)


def _write_requests(folder: Path, words: list[str]) -> None:
    text = " ".join(words)
    (folder / "one.json").write_text(json.dumps({"text": text, "tokenized": True}))
    many = {"text": [text, "", words[0]], "nbest": 2, "explain": True}
    (folder / "many.json").write_text(json.dumps(many))
    call = xmlrpc.client.dumps(({**_PARAMETERS, "text": text},), "translate")
    (folder / "call.xml").write_text(call)


def _run_more() -> None:
    """Run what leaves the state of unfinished work; the working folder has the other files."""
    for name, step, given in STOPPED_BUILDS:
        _stop_build(f"build {given} --workers 1 -o {name}", step)
        assert Path(f"{name}.work").is_dir()
    _run(f"train lstm source references {AVERAGED} --updates 2 --keep-work")
    shutil.rmtree("averaged")


# The folders of builds that were stopped, the last finished steps, and what is built.
STOPPED_BUILDS = (
    ("prepared", "prepare", "raw.source raw.target --aligner fast-align --tokenize en fr"),
    ("tabled", "tables", "source references --alignments alignments --lm-text mixed --lm-order 2"),
    ("configured", "configure", "source references --alignments alignments --lm-order 2"),
)
AVERAGED = (
    "-o averaged --set model.hidden_size=4 --set model.embedding_size=3 "
    "--set training.average_checkpoints=2 --set training.validation_updates=1 "
    "--set training.validation_share=0.25 --device cpu"
)


def _stop_build(command: str, last: str) -> None:
    finish = WorkFolder.finish_step

    def stop(folder: WorkFolder, name: str, **counts: int) -> None:
        finish(folder, name, **counts)
        if name == last:
            raise KeyboardInterrupt

    with mock.patch.object(WorkFolder, "finish_step", stop):
        result = run(*command.split())
    assert isinstance(result.exception, SystemExit | KeyboardInterrupt), result.output
