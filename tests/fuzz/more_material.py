"""More files that are damaged: of whole systems, other toolkits' models, programs, and servers."""

import json
import shutil
import xmlrpc.client
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, empty_network, save_checkpoint
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import TransformerConfig
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.building.work_folder import WorkFolder
from tests.command_line import run
from tests.tiny_bitext import sentence_pairs
from tests.tiny_generator import TinyGenerator
from tests.tiny_translator import tiny_translator

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
model = "attention"
[[rescore]]
feature = "length_ratio"
[[rescore]]
lexicon = "f2e"
[[rescore]]
command = "./length.sh"
"""
_LISTS = {"CSLM0": 0.1, "Attention0": 0.2, "LengthRatio0": 0.1, "Lexicon0": 0.1, "Program0": 0.1}

_TEXT_SYSTEM = """\
moses_ini = "moses.ini"
[search]
stack = 5
[text]
tokenize = "en fr"
truecase_source = "truecaser"
truecase_target = "truecaser"
"""

_EXPERIMENT = """\
systems = ["Baseline", {name = "+all", columns = ["lexicon"], rescore = ["qe", "gpt", "lm"]}]
[data]
moses_ini = "moses.ini"
train = ["source", "references"]
dev = { source = "source", references = "references" }
test.held = { source = "source", references = ["references"] }
lm = "general.arpa"
lexicon = "f2e"
reverse_lexicon = "e2f"
[text]
tokenize = "en fr"
truecase_source = "truecaser"
[features.qe]
command = "./program.sh"
[features.gpt]
ctranslate2 = "gpt"
text = { prompt = "{source}=" }
"""

_PARAMETERS = {"text": "the {} is", "align": True, "nbest": 2, "add-score-breakdown": True}


def write_more(folder: Path, nbest: Sequence[bytes], words: tuple[list[str], list[str]]) -> None:
    """Write the files into the folder of the others.

    :param nbest: n-best lists in Moses' format.
    :param words: of the source and of the target.
    """
    _write_lists(folder, nbest)
    _write_systems(folder, words[0])
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
    cases = [f"{word} (3/4) {word.capitalize()} (1/4)" for word in english]
    (folder / "truecaser").write_text("\n".join(cases) + "\n")
    (folder / "raw").write_text(f'The (big) {english[0]}\'s red.\n\nIs "it"?\n')
    (folder / "outside.toml").write_text(_EXPERIMENT)
    pairs = sentence_pairs(12)
    for side, name in enumerate(("raw.source", "raw.target")):
        lines = [f"{pair[side].capitalize()}." for pair in pairs]
        (folder / name).write_text("\n".join(lines) + "\n")


def _write_requests(folder: Path, words: list[str]) -> None:
    text = " ".join(words)
    (folder / "one.json").write_text(json.dumps({"text": text, "tokenized": True}))
    many = {"text": [text, "", words[0]], "nbest": 2, "explain": True}
    (folder / "many.json").write_text(json.dumps(many))
    call = xmlrpc.client.dumps(({**_PARAMETERS, "text": text},), "translate")
    (folder / "call.xml").write_text(call)


def run_more() -> None:
    """Run what leaves the state of unfinished work; the working folder has the other files."""
    for name, step, given in STOPPED_BUILDS:
        _stop_build(f"build {given} --workers 1 -o {name}", step)
        assert Path(f"{name}.work").is_dir()
    _run(f"train lstm source references {AVERAGED} --updates 2 --keep-work --threads 1")
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


def _run(command: str) -> None:
    result = run(*command.split())
    assert result.exit_code == 0, result.output


def _stop_build(command: str, last: str) -> None:
    finish = WorkFolder.finish_step

    def stop(folder: WorkFolder, name: str, **counts: int) -> None:
        finish(folder, name, **counts)
        if name == last:
            raise KeyboardInterrupt

    with mock.patch.object(WorkFolder, "finish_step", stop):
        result = run(*command.split())
    assert isinstance(result.exception, SystemExit | KeyboardInterrupt), result.output
