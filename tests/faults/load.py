"""``python -m tests.faults.load``: a table and lists much larger than those of the shipped example.

The real lines of a table are repeated, with other source phrases in each copy, and so are those of
lists, with other numbers; or they make one list of many hypotheses, and a few hypotheses of many
words. Each command also takes a tenth of the lines: seconds of the processor should be at most ten
times as many, because work is in proportion to the lines, and memory should stay the same, except
that of ``tune``, which holds its pool.
"""

import argparse
import gzip
import itertools
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.benchmarks.commands import PHRASESCORE, measure_command
from tests.benchmarks.settings import REAL
from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "english-french"
_LONG_HYPOTHESES = 10
_SMALLEST = "--updates 1 --set model.hidden_size=8 --set model.embedding_size=8 --threads 1"
# Commands, of which {0} is the number of lines.
_TABLE = ("annotate table.{0}.gz --model rnn --threads 1 --engine here -o out.gz",)
_LISTS = (
    "rescore lists.{0}.gz --source source --model cslm --threads 1 --engine here -o rescored.{0}",
    "rerank rescored.{0} --weights weights -o out",
    *(
        f"tune --lists rescored.{{0}} --references references --weights weights --method {method} "
        "--starts 2 --threads 1 -o out"
        for method in ("mert", "mira", "xbleu")
    ),
)
_LONG = (
    "rescore lists.{0}.gz --source source --model lstm --threads 1 --engine here -o out",
    *_LISTS[:-1],
    "evaluate references --references references --lists rescored.{0} -o out",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=20_000_000, help="of the table")
    parser.add_argument("--hypotheses", type=int, default=5_000_000, help="of the lists")
    parser.add_argument("--longest", type=int, default=100_000, help="hypotheses of a list, words")
    parser.add_argument("--only", choices=("table", "lists", "long"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "table"):
            _load_table(folder, options.lines)
        if options.only in (None, "lists"):
            _load_lists(folder, options.hypotheses)
        if options.only in (None, "long"):
            _load_long(folder, options.longest)


def _load_table(folder: Path, size: int) -> None:
    real = next(path / "phrase-table.gz" for path in (REAL, EXAMPLE) if path.is_dir())
    for count in (size // 10, size):
        _write(folder / f"table.{count}.gz", itertools.islice(_renamed(real), count))
    _run(f"train encoder-decoder {EXAMPLE}/phrase-table.gz -o rnn {_SMALLEST}", folder)
    _compare(_TABLE, "lines", size, folder)


def _real_lists(folder: Path) -> tuple[Path, list[Path]]:
    """Write weights and a small cslm; return the real lists, and their source and references."""
    names = ("val.1000best.gz", "val.en", "val.fr", "moses.tuned.ini")
    paths = [REAL / name for name in names]
    if not REAL.is_dir():
        paths = [EXAMPLE / name for name in ("dev.20best.gz", "dev.en", "dev.fr", "moses.ini")]
    lists, *texts, ini = paths
    weights = ini.read_text().partition("[weight]")[2].split("\n")
    kept = [line for line in weights if "=" in line and not line.startswith("Unknown")]
    (folder / "weights").write_text("\n".join([*kept, "CSLM0= 0.1", ""]))
    _run(f"train cslm {EXAMPLE}/train.fr.gz -o cslm {_SMALLEST}", folder)
    return lists, texts


def _load_lists(folder: Path, size: int) -> None:
    lists, texts = _real_lists(folder)
    for count in (size // 10, size):
        lines = itertools.islice(_renumbered(lists, texts[0]), count)
        last = _write(folder / f"lists.{count}.gz", lines)
        # tune wants a list for each reference.
        for text, name in zip(texts, ("source", "references"), strict=True):
            repeated = itertools.cycle(text.read_bytes().splitlines(keepends=True))
            _write(folder / f"{name}.{count}", itertools.islice(repeated, int(last) + 1))
    commands = [
        each.replace("--source source", "--source source.{0}").replace(
            "--references references", "--references references.{0}"
        )
        for each in _LISTS
    ]
    _compare(commands, "lines", size, folder)


def _load_long(folder: Path, size: int) -> None:
    """Compare commands on a list of so many hypotheses, and hypotheses of so many words."""
    lists, texts = _real_lists(folder)
    train = f"{EXAMPLE}/train.en.gz {EXAMPLE}/train.fr.gz"
    _run(f"train lstm {train} -o lstm {_SMALLEST}", folder)
    for text, name in zip(texts, ("source", "references"), strict=True):
        (folder / name).write_bytes(text.read_bytes().partition(b"\n")[0] + b"\n")
    for what in ("hypotheses", "words"):
        for count in (size // 10, size):
            lines = _in_one_list(lists) if what == "hypotheses" else _joined(lists, count)
            number = count if what == "hypotheses" else _LONG_HYPOTHESES
            _write(folder / f"lists.{count}.gz", itertools.islice(lines, number))
        _compare(_LONG, what, size, folder)


def _compare(commands: Iterable[str], what: str, size: int, folder: Path) -> None:
    for command in commands:
        few, many = (_run(command.format(count), folder) for count in (size // 10, size))
        print(f"{command.partition(' -o')[0].format(what)}, {size // 10:,} and {size:,} {what}:")
        print(f"    {few[0]:,.1f} and {many[0]:,.1f} s, {many[0] / few[0]:.1f} times;", end="")
        print(f" {few[1]:,.0f} and {many[1]:,.0f} MB", flush=True)


def _run(command: str, folder: Path) -> tuple[float, float]:
    """Return the seconds of the processor, and the memory in MB."""
    cost, _ = measure_command([*PHRASESCORE, *shlex.split(command)], folder)
    return cost.cpu, cost.peak / 1e6


def _in_one_list(path: Path) -> Iterator[bytes]:
    while True:
        with gzip.open(path) as file:
            yield from (b"0 " + line.partition(b" ")[2] for line in file)


def _joined(path: Path, size: int) -> Iterator[bytes]:
    fields = (line.split(b" ||| ") for line in _in_one_list(path))
    while True:
        words: list[bytes] = []
        while len(words) < size:
            number, text, *rest = next(fields)
            words += text.split()
        yield b" ||| ".join([number, b" ".join(words[:size]), *rest])


def _renamed(path: Path) -> Iterator[bytes]:
    for copy in itertools.count():
        with gzip.open(path) as file:
            for line in file:
                source, _, rest = line.partition(b" ||| ")
                yield b"%b~%d ||| %b" % (source, copy, rest) if copy else line


def _renumbered(path: Path, text: Path) -> Iterator[bytes]:
    sentences = text.read_bytes().count(b"\n")
    for copy in itertools.count():
        with gzip.open(path) as file:
            for line in file:
                number, _, rest = line.partition(b" ")
                yield b"%d %b" % (int(number) + copy * sentences, rest)


def _write(path: Path, lines: Iterator[bytes]) -> bytes:
    """Write lines; return the first word of the last one."""
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        last = b""
        for block in iter(lambda: list(itertools.islice(lines, 10_000)), []):
            file.write(b"".join(block))
            last = block[-1]
    return last.split(b" ", 1)[0]


if __name__ == "__main__":
    main()
