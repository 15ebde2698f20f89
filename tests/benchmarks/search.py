"""The search: beside Moses, with cube pruning and with a network; whole programs, in turns.

One process and thread each. Loading is left out: it is what the first sentence of a slice alone
takes, because a phrase table is read to its end for one sentence, too.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from moses_integration.source_text import read_source
from moses_integration.weight_lines import write_weights
from phrasescore.records import WeightPair
from phrasescore.systems.system import read_system
from tests.benchmarks.commands import PHRASESCORE, Cost, find_tool, measure_command
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.settings import Settings
from tuning.metrics import Bleu

Words = tuple[str, ...]

# Slices of the text: the engines take turns at them.
SLICES = 3
CUBE = "limits = { search-algorithm = 'cube', cube-pruning-pop-limit = POPS }"
# The network's weight is about the language model's weight in the real task.
CSLM = "weights = 'weights'\nsearch = [{ model = 'CSLM' }]"
# By label: the lines of system.toml after moses_ini.
VARIANTS = {
    "embedded": "",
    "cube pruning, 1000 pops": CUBE.replace("POPS", "1000"),
    "cube pruning, 200 pops": CUBE.replace("POPS", "200"),
    "CSLM": CSLM,
    "CSLM, unnormalized": CSLM.replace(" }", ", unnormalized = true }"),
}
# Updates of the network that is made where none is given.
QUICK_UPDATES = 20


class Output(NamedTuple):
    words: Words
    score: float


@dataclass
class Runs:
    """An engine's runs over slices of the text, and over the first sentence of each alone."""

    whole: list[Cost] = field(default_factory=list)
    single: list[Cost] = field(default_factory=list)
    # Of all slices, in their order.
    outputs: list[Output] = field(default_factory=list)

    def cpus(self) -> list[float]:
        """Return the seconds per slice, minus the time for loading and its first sentence."""
        return [a.cpu - b.cpu for a, b in zip(self.whole, self.single, strict=True)]

    def rows(self, who: str, sizes: Sequence[int]) -> list[Row]:
        """Return speed and memory; ``sizes`` are of the slices."""
        searched = [size - 1 for size in sizes]
        return [
            Row(f"{who}: search, processor", quotients(searched, self.cpus()), "sentences/s"),
            Row(f"{who}: loading, processor", [cost.cpu for cost in self.single], "s"),
            Row(f"{who}: peak memory", [cost.peak / 1e6 for cost in self.whole], "MB", 0),
        ]


def measure_search(settings: Settings) -> Report:
    path, source, reference = settings.translate
    ini, moses = Path(path).resolve(), find_tool("moses", settings.moses_bin)
    sentences, references = read_texts(source, reference, settings.sentences)
    slices = cut(len(sentences), SLICES)
    engines = [*VARIANTS, *([] if moses is None else ["moses"])]
    runs = {engine: Runs() for engine in engines}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = folder / "weights"
        own = read_system(ini).weights
        write_weights(str(weights), WeightPair(*({**part, "CSLM0": (0.1,)} for part in own)))
        cslm = str(Path(settings.cslm or _train(reference, folder)).resolve())

        def run(engine: str, part: Sequence[Words]) -> tuple[Cost, list[Output]]:
            text = "".join(" ".join(words) + "\n" for words in part)
            if engine == "moses":
                command = [str(moses), "-f", str(ini), "-threads", "1", "-v", "0"]
                command += ["-output-hypo-score"]
            else:
                rest = VARIANTS[engine].replace("CSLM", cslm)
                system = folder / "system.toml"
                system.write_text(f"moses_ini = '{ini}'\n{rest}\n", "utf-8")
                (folder / "source").write_text(text, "utf-8")
                command = [*PHRASESCORE, "translate", str(system), str(folder / "source")]
                command += ["--tokenized", "--nbest", str(folder / "nbest"), "--nbest-size", "1"]
                command += ["--workers", "1", "--threads", "1", "--quiet"]
            cost, output = measure_command(command, ini.parent, text, OMP_NUM_THREADS="1")
            if engine == "moses":
                return cost, [parse_scored(line) for line in output.split("\n")]
            lines = (folder / "nbest").read_text(encoding="utf-8").split("\n")[:-1]
            return cost, [parse_nbest(line) for line in lines]

        for engine in VARIANTS:
            run(engine, sentences[:1])  # the search is compiled when it first runs
        for number, part in enumerate(slices):
            chosen = sentences[part.start : part.stop]
            for engine in engines if number % 2 == 0 else reversed(engines):
                whole, outputs = run(engine, chosen)
                if len(outputs) != len(chosen):
                    raise RuntimeError(f"{engine}: {len(outputs)} of {len(chosen)} sentences")
                runs[engine].whole.append(whole)
                runs[engine].single.append(run(engine, chosen[:1])[0])
                runs[engine].outputs += outputs
    sizes = [len(part) for part in slices]
    rows = [row for engine in engines for row in runs[engine].rows(engine, sizes)]
    rows += [
        Row(f"{engine}: BLEU", [score_bleu([each.words for each in run.outputs], references)])
        for engine, run in runs.items()
    ]
    if moses is not None:
        rows += compare_runs(runs["embedded"], runs["moses"])
    what = (
        f"{len(sentences)} sentences of {source} with {path}; the network "
        f"{settings.cslm or 'of a few updates'}; one thread"
    )
    return Report("search", what, rows)


def read_texts(source: str, reference: str, count: int) -> tuple[list[Words], list[Words]]:
    """Return the first sentences that have words, and their references."""
    pairs = zip(read_source(source), read_source(reference), strict=True)
    chosen = [pair for pair in pairs if pair[0]][:count]
    return [pair[0] for pair in chosen], [pair[1] for pair in chosen]


def _train(text: str, folder: Path) -> Path:
    command = [*PHRASESCORE, "train", "cslm", str(Path(text).resolve()), "--output", "cslm"]
    command += ["--updates", str(QUICK_UPDATES), "--threads", "1", "--device", "cpu", "--quiet"]
    measure_command(command, folder)
    return folder / "cslm"


def cut(count: int, slices: int) -> list[range]:
    """Return ranges of about one size; of two sentences at least, if there are two."""
    slices = max(1, min(slices, count // 2))
    edges = [count * number // slices for number in range(slices + 1)]
    return [range(*pair) for pair in pairwise(edges)]


def compare_runs(ours: Runs, theirs: Runs) -> list[Row]:
    """Compare speed, and translations sentence by sentence.

    Totals are those that both engines print, with six digits or more.
    """
    total = [[cost.cpu for cost in runs.whole] for runs in (theirs, ours)]
    pairs = list(zip(ours.outputs, theirs.outputs, strict=True))
    # A total is not lower where rounding explains the difference.
    close = [a.score - b.score >= -(1e-4 + 1e-5 * abs(b.score)) for a, b in pairs]
    same = [a.words == b.words for a, b in pairs]
    return [
        Row(
            "times Moses' speed, search, processor (target 0.1)",
            quotients(theirs.cpus(), ours.cpus()),
        ),
        Row("  with loading, processor", quotients(*total)),
        Row("identical translations", [100 * mean(same)], "%", 1),
        Row("our total is not lower (target 98)", [100 * mean(close)], "%", 1),
    ]


def score_bleu(translations: Sequence[Words], references: Sequence[Words]) -> float:
    """Return BLEU of the words as they are, 0 to 100."""
    metric = Bleu([references])
    sums = metric.statistics(translations, range(len(translations))).sum(axis=0)
    return 100 * float(metric.score(sums))


def parse_scored(line: str) -> Output:
    """Read what Moses writes with -output-hypo-score: the total, and the words."""
    total, *words = line.split()
    return Output(tuple(words), float(total))


def parse_nbest(line: str) -> Output:
    fields = line.split(" ||| ")
    return Output(tuple(fields[1].split()), float(fields[3]))
