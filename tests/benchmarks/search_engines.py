"""The embedded search and Moses as whole programs, one process and thread each, in turns."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tests.benchmarks.commands import PHRASESCORE, Cost, measure_command
from tests.benchmarks.results import Row, quotients
from tuning.metrics import Bleu

Words = tuple[str, ...]

# Slices of the text: the engines take turns at them.
SLICES = 3


class Task(NamedTuple):
    """What is translated, by which model."""

    # Its paths begin at its folder.
    ini: Path
    sentences: Sequence[Words]
    references: Sequence[Words]


class Output(NamedTuple):
    words: Words
    score: float


class Agreement(NamedTuple):
    """How the translations of one engine are beside those of another; shares are 0 to 1."""

    identical: float
    # Totals that are not lower, but for rounding, and those that are higher by more than that.
    not_lower: float
    higher: float
    # By how much a total is lower at most; 0 if none is.
    worst: float


@dataclass
class Runs:
    """An engine's runs over slices of the text, and over the first sentence of each alone.

    The latter are what loading costs: a phrase table is read to its end for one sentence, too.
    """

    whole: list[Cost] = field(default_factory=list)
    single: list[Cost] = field(default_factory=list)
    # Of all slices, in their order.
    outputs: list[Output] = field(default_factory=list)

    def walls(self) -> list[float]:
        """Return the seconds by slice, without those of its first sentence and of loading."""
        return [a.wall - b.wall for a, b in zip(self.whole, self.single, strict=True)]

    def cpus(self) -> list[float]:
        return [a.cpu - b.cpu for a, b in zip(self.whole, self.single, strict=True)]

    def rows(self, who: str, sizes: Sequence[int]) -> list[Row]:
        """Return speed and memory.

        :param sizes: of the slices.
        """
        searched = [size - 1 for size in sizes]
        return [
            Row(f"{who}: search, processor", quotients(searched, self.cpus()), "sentences/s"),
            Row(f"{who}: search, wall", quotients(searched, self.walls()), "sentences/s"),
            Row(f"{who}: loading, processor", [cost.cpu for cost in self.single], "s"),
            Row(f"{who}: loading, wall", [cost.wall for cost in self.single], "s"),
            Row(f"{who}: peak memory", [cost.peak / 1e6 for cost in self.whole], "MB", 0),
        ]


def measure_engines(task: Task, moses: str | None) -> list[Row]:
    slices = cut(len(task.sentences), SLICES)
    engines = ["embedded"] if moses is None else ["embedded", "moses"]
    runs = {engine: Runs() for engine in engines}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The search is compiled when it first runs.
        _run("embedded", moses, task.ini, task.sentences[:1], folder)
        for number, part in enumerate(slices):
            sentences = task.sentences[part.start : part.stop]
            for engine in engines if number % 2 == 0 else reversed(engines):
                whole, outputs = _run(engine, moses, task.ini, sentences, folder)
                single, _ = _run(engine, moses, task.ini, sentences[:1], folder)
                runs[engine].whole.append(whole)
                runs[engine].single.append(single)
                runs[engine].outputs += outputs
    sizes = [len(part) for part in slices]
    rows = [row for engine in engines for row in runs[engine].rows(engine, sizes)]
    rows += [
        Row(f"{engine}: BLEU", [score_bleu([o.words for o in run.outputs], task.references)])
        for engine, run in runs.items()
    ]
    if moses is not None:
        rows += compare_runs(runs["embedded"], runs["moses"])
    return rows


def cut(count: int, slices: int) -> list[range]:
    """Return ranges of about one size; of two sentences at least, if there are two."""
    slices = max(1, min(slices, count // 2))
    edges = [count * number // slices for number in range(slices + 1)]
    return [range(*pair) for pair in pairwise(edges)]


def compare_runs(ours: Runs, theirs: Runs) -> list[Row]:
    found = compare(ours.outputs, theirs.outputs)
    total = [[cost.cpu for cost in runs.whole] for runs in (theirs, ours)]
    return [
        Row(
            "times Moses' speed, search, processor (target 0.1)",
            quotients(theirs.cpus(), ours.cpus()),
        ),
        Row("  the same, wall", quotients(theirs.walls(), ours.walls())),
        Row("  with loading, processor", quotients(*total)),
        Row(
            "Moses' memory / ours",
            [mean(a.peak / b.peak for a, b in zip(theirs.whole, ours.whole, strict=True))],
        ),
        Row("identical translations", [100 * found.identical], "%", 1),
        Row("our total is not lower (target 98)", [100 * found.not_lower], "%", 1),
        Row("  of them higher", [100 * found.higher], "%", 1),
        Row("  lower by at most", [found.worst], digits=4),
    ]


def compare(ours: Sequence[Output], theirs: Sequence[Output]) -> Agreement:
    """Compare translations, sentence by sentence.

    Totals are those that both engines print, with six digits or more.
    """
    pairs = list(zip(ours, theirs, strict=True))
    # What we have more, and what rounding leaves open.
    more = [(a.score - b.score, 1e-4 + 1e-5 * abs(b.score)) for a, b in pairs]
    return Agreement(
        mean(a.words == b.words for a, b in pairs),
        mean(gain >= -slack for gain, slack in more),
        mean(gain > slack for gain, slack in more),
        max(0.0, *(-gain for gain, slack in more if gain < -slack), 0.0),
    )


def score_bleu(translations: Sequence[Words], references: Sequence[Words]) -> float:
    """Return BLEU of the words as they are, 0 to 100."""
    metric = Bleu([references])
    sums = metric.statistics(translations, range(len(translations))).sum(axis=0)
    return 100 * float(metric.score(sums))


def _run(
    engine: str, moses: str | None, ini: Path, sentences: Sequence[Words], folder: Path
) -> tuple[Cost, list[Output]]:
    nbest = folder / "nbest"
    if engine == "moses":
        assert moses is not None
        command = [moses, "-f", str(ini), "-threads", "1", "-v", "0", "-output-hypo-score"]
    else:
        command = [*PHRASESCORE, "decode", "-", "--config", str(ini)]
        command += ["--nbest", str(nbest), "1", "--processes", "1", "--threads", "1", "--quiet"]
    text = "".join(" ".join(words) + "\n" for words in sentences)
    cost, output = measure_command(command, ini.parent, text, OMP_NUM_THREADS="1")
    read = parse_scored if engine == "moses" else parse_nbest
    lines = output.split("\n")
    if engine != "moses":
        lines = nbest.read_text(encoding="utf-8").split("\n")[:-1]
    outputs = [read(line) for line in lines]
    if len(outputs) != len(sentences):
        raise RuntimeError(f"{engine}: {len(outputs)} translations of {len(sentences)} sentences")
    return cost, outputs


def parse_scored(line: str) -> Output:
    """Read what Moses writes with -output-hypo-score: the total, and the words."""
    total, *words = line.split()
    return Output(tuple(words), float(total))


def parse_nbest(line: str) -> Output:
    fields = line.split(" ||| ")
    return Output(tuple(fields[1].split()), float(fields[3]))
