"""Tuning: MERT and MIRA on lists against Moses' programs.

Both sides read the same lists and references, and start from the same weights with as many random
starts; seconds are of whole commands: ``tune``, and Moses' ``extractor`` with ``mert`` or
``kbmira``.
"""

from __future__ import annotations

import re
import tempfile
from itertools import islice
from pathlib import Path

from xopen import xopen

from moses_integration.nbest import read_nbest
from tests.benchmarks.commands import PHRASESCORE, compare_commands, find_tool, measure_command
from tests.benchmarks.results import Report, Row
from tests.benchmarks.search import Words, score_bleu
from tests.benchmarks.settings import Settings

# $1 is extractor, $2 mert or kbmira, with its arguments behind.
SCRIPT = """
set -e
"$1" --sctype BLEU --scconfig case:true --nbest lists --reference references \
    --ffile features.dat --scfile scores.dat
shift; exec "$@" --ffile features.dat --scfile scores.dat
"""
SEED = "1"


def measure_tuning(settings: Settings) -> Report:
    rows: list[Row] = []
    left_out: list[str] = []
    starts, extractor = str(settings.starts), find_tool("extractor", settings.moses_bin)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = _Lists(settings, folder)
        for method, program in (("mert", "mert"), ("mira", "kbmira")):
            ours = [*PHRASESCORE, "tune", "--lists", "lists", "--references", "references"]
            ours += ["--weights", "moses.ini"]
            ours += ["--method", method, "--seed", SEED, "--threads", "1", "--quiet"]
            ours += ["--output", "weights"] + ["--starts", starts] * (method == "mert")
            tool = find_tool(program, settings.moses_bin)
            theirs = None
            if extractor is None or tool is None:
                left_out.append(f"Moses' {program} was not run: it or extractor is missing")
            else:
                theirs = ["bash", "-c", SCRIPT, "bash", extractor, tool, *bench.options(method)]
                theirs += ["-n", starts] * (method == "mert")
            names = (f"tune, {method}", f"Moses' {program}")
            rows += compare_commands(ours, theirs, folder, settings.repeats, names=names)
            rows.append(Row(f"{names[0]}: BLEU reached", [bench.bleu("weights")]))
            if theirs is not None:
                bench.write_weights(method)
                rows.append(Row(f"{names[1]}: BLEU reached", [bench.bleu("found")]))
    rows.append(Row("sentences", [bench.sentences], digits=0))
    rows.append(Row("distinct hypotheses", [bench.hypotheses], digits=0))
    what = (
        f"{bench.sentences} lists of {settings.nbest[0]}, {len(bench.start)} features, "
        f"{starts} random starts, one thread"
    )
    return Report("tuning", what, rows, left_out)


class _Lists:
    """Lists in a folder, with their references, start weights and moses.ini."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        nbest, source = settings.nbest
        self._folder = folder
        with (folder / "lists").open("wb") as file:
            items = [item for item in read_nbest(nbest) if item.id < settings.tuning_lists]
            file.writelines(raw + b"\n" for item in items for raw in item.raws)
        self.sentences = len(items)
        self.hypotheses = sum(len(set(item.hypotheses)) for item in items)
        with xopen(Path(source).with_suffix(".fr"), "rb") as file:
            lines = list(islice(file, self.sentences))
        (folder / "references").write_bytes(b"".join(lines))
        self._references: list[Words] = [tuple(line.decode().split()) for line in lines]
        ini = Path(source).with_name("moses.ini").read_text(encoding="utf-8")
        (folder / "moses.ini").write_text(ini, encoding="utf-8")
        # The weights of each feature of the lists, in their order there.
        known = dict(re.findall(r"^(\w+)= (.+)$", ini.partition("[weight]")[2], re.MULTILINE))
        fields = items[0].raws[0].split(b" ||| ")[2].decode()
        self._names = re.findall(r"(\w+)=", fields)
        self.start = [float(each) for name in self._names for each in known[name].split()]
        self._sizes = [len(known[name].split()) for name in self._names]
        rows = (self.start, [0] * len(self.start), [1] * len(self.start))
        text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        (folder / "init.opt").write_text(text, encoding="ascii")

    def options(self, method: str) -> list[str]:
        """Return the arguments of Moses' program, as mert-moses.pl gives them."""
        if method == "mira":
            return ["-J", "60", "-r", SEED, "--dense-init", "init.opt", "-o", "mira.weights"]
        options = ["-d", str(len(self.start)), "--sctype", "BLEU", "--scconfig", "case:true"]
        return [*options, "-r", SEED, "--threads", "1", "--ifile", "init.opt"]

    def write_weights(self, method: str) -> None:
        """Write what Moses' program found as a file of weights, ``found``."""
        name = "weights.txt" if method == "mert" else "mira.weights"
        text = (self._folder / name).read_text(encoding="ascii")
        values = iter(read_weights(text))
        lines = [
            f"{name}= {' '.join(islice(values, size))}\n"
            for name, size in zip(self._names, self._sizes, strict=True)
        ]
        (self._folder / "found").write_text("".join(lines), encoding="ascii")

    def bleu(self, weights: str) -> float:
        """Return BLEU of the lists' best hypotheses with these weights."""
        command = [*PHRASESCORE, "rerank", "lists", "--weights", weights, "-o", "best", "--quiet"]
        measure_command(command, self._folder)
        lines = (self._folder / "best").read_text(encoding="utf-8").split("\n")[:-1]
        return score_bleu([tuple(line.split()) for line in lines], self._references)


def read_weights(text: str) -> list[str]:
    """Return the weights that mert writes in one line, or kbmira with a name in each line."""
    return re.findall(r"(?:^F\d+ )?(\S+)(?: |$)", text.strip(), re.MULTILINE)
