"""Train, annotate and compare: what ``make demo`` runs, with the commands a user would type.

Each step is a ``phrasescore`` command, shown before it runs. In the end the demo prints what the
network prefers against what the phrase table prefers, as table 2 of Cho et al. (2014) does.
Everything goes to ``demo-output/``; what is there from an earlier run is used again.

Nothing of this folder is imported here, and each command runs in a process of its own: names of
the grammar's modules, such as ``phrases``, cannot stand in for others.
"""

import argparse
import html
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moses_integration.phrase_table import joint_count, read_phrase_table

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TABLE = FOLDER / "phrase-table.gz"

MINUTES = 1.5  # of training; the rest takes half a minute on two cores
MIN_WORDS = 4  # of a source phrase in the comparison: long ones, as in the paper
MIN_TARGETS = 3
TOP = 3
SHOWN_PHRASES = 5  # frequent ones, and as many rare ones
TARGET_SCORE = 2  # p(e|f) in Moses' order: p(f|e) lex(f|e) p(e|f) lex(e|f)


class Target(NamedTuple):
    """One target phrase of a source phrase."""

    text: str
    # p(target | source) of the phrase table: counted.
    table: float
    # p(target | source) of the network, its ``</s>`` counted.
    network: float
    # How often the pair was extracted.
    times: float


Targets = Mapping[str, Sequence[Target]]


def read_targets(path: str) -> dict[str, list[Target]]:
    """Return the targets of each source phrase of at least 4 words, in the table's order.

    :param path: a phrase table with Moses' four scores and the network's as the last one.
    """
    found = defaultdict(list)
    for line in read_phrase_table(path):
        if len(line.pair.source) >= MIN_WORDS:
            scores = [float(score) for score in line.raw.split(b"|||")[2].split()]
            found[" ".join(line.pair.source)].append(
                Target(
                    " ".join(line.pair.target),
                    scores[TARGET_SCORE],
                    scores[-1],
                    joint_count(line.raw),
                )
            )
    return dict(found)


def frequent_sources(targets: Targets, how_many: int) -> list[str]:
    """Return the sources of at least 3 targets that were extracted most often.

    One that holds another one, or is held by it, is left out: it would say the same again.
    """
    chosen: list[str] = []
    for source in sorted(_contested(targets), key=lambda name: _rank(name, targets[name])):
        words = f" {source} "
        if not any(f" {other} " in words or words in f" {other} " for other in chosen):
            chosen.append(source)
    return chosen[:how_many]


def rare_sources(targets: Targets, how_many: int) -> list[str]:
    """Return sources of at least 3 targets of which each was extracted once.

    They are taken at equal distances from all there are, in the order of the alphabet.
    """
    once = sorted(
        source
        for source in _contested(targets)
        if all(target.times == 1 for target in targets[source])
    )
    num = min(how_many, len(once))
    return [once[(2 * place + 1) * len(once) // (2 * num)] for place in range(num)]


def _contested(targets: Targets) -> list[str]:
    return [source for source, found in targets.items() if len(found) >= MIN_TARGETS]


def _rank(source: str, found: Sequence[Target]) -> tuple[float, int, str]:
    # Of equally frequent ones the shortest, which the longer ones hold.
    return -_count(found), len(source.split(" ")), source


def _count(found: Sequence[Target]) -> float:
    return sum(target.times for target in found)


def preference_table(targets: Targets, sources: Sequence[str]) -> str:
    """Return, for each source, the table's 3 best targets beside the network's 3 best.

    Equal ones stay in the order of the phrase table. Moses' escapes, such as ``&apos;``, are
    shown as the characters they stand for.
    """
    rows = []
    for source in sources:
        found = targets[source]
        head = f"{html.unescape(source)}  (seen {_count(found):g} times, {len(found)} targets)"
        by_table = sorted(found, key=lambda target: -target.table)[:TOP]
        by_network = sorted(found, key=lambda target: -target.network)[:TOP]
        cells = [
            (_probability(one.table), html.unescape(one.text),
             _probability(other.network), html.unescape(other.text))
            for one, other in zip(by_table, by_network, strict=True)
        ]  # fmt: skip
        rows.append((head, cells))
    header = ("p(e|f)", "the table prefers", "p(e|f)", "the network prefers")
    width = max(len(cell[1]) for _, cells in rows for cell in [header, *cells])
    lines = [_row(header, width)]
    for head, cells in rows:
        lines += ["", head, *(_row(cell, width) for cell in cells)]
    return "\n".join(lines)


def _row(cells: tuple[str, str, str, str], width: int) -> str:
    return f"  {cells[0]:>6}  {cells[1]:<{width}}  {cells[2]:>6}  {cells[3]}"


def _probability(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def agreement(targets: Targets) -> str:
    """Return how often the two have the same first choice, and how often chance would.

    Over the sources of several targets of which the table prefers one alone.
    """
    same = chance = 0.0
    num = 0
    for found in targets.values():
        best = max(target.table for target in found)
        first = [target for target in found if target.table == best]
        if len(found) > 1 and len(first) == 1:
            num += 1
            same += max(found, key=lambda target: target.network) == first[0]
            chance += 1 / len(found)
    if not num:
        return "The table prefers one target of several nowhere."
    return (
        f"Of {num:,} source phrases of {MIN_WORDS} words or more where the table prefers one of "
        f"several targets,\nthe network has the same first choice for {same / num:.0%}; "
        f"by chance it would be {chance / num:.0%}."
    )


def absolute_paths(ini: str, folder: Path) -> str:
    """Return the text of the example's moses.ini with its paths made to begin with a folder."""
    ini = ini.replace(" Run Moses in this folder: paths are relative.", "")
    return re.sub(r"(?<= path=)(?!/)", lambda _: f"{folder}/", ini)


def say(text: str = "") -> None:
    """Print at once: the commands write to the same stream."""
    print(text, flush=True)


def run(*arguments: str | Path) -> int:
    """Show a ``phrasescore`` command, run it at the root of the checkout, return its exit code."""
    words = [str(argument) for argument in arguments]
    say(f"\n$ phrasescore {shlex.join(words)}")
    with subprocess.Popen([sys.executable, "-m", "phrasescore.cli", *words], cwd=ROOT) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the command has got it as well, and saves what it has done


def run_or_exit(*arguments: str | Path) -> None:
    """Run a command; end the demo where it fails, with its exit code."""
    code = run(*arguments)
    if code:
        say("\nThe demo ends here. Run it again to go on, or with --fresh to begin anew.")
        sys.exit(code)


def from_root(path: Path) -> Path:
    """Return a path relative to the root of the checkout, if it is in there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def is_made_from(made: Path, *sources: Path) -> bool:
    """Whether a file is there and not older than what it was made from."""
    return made.is_file() and all(
        made.stat().st_mtime >= source.stat().st_mtime for source in sources
    )


def train(output: Path, minutes: float) -> None:
    """Make ``model`` in the output folder, or show that it is there and whole."""
    model = output / "model"
    if is_made_from(model / "training.json", TABLE):
        say(f"\n{from_root(model)} is there from an earlier run and is used again (demo.py --fresh")
        say("trains it anew). The next command also checks that it is whole.")
        if run("show", from_root(model)) == 0:
            return
        say("\nIt is not whole, so it is trained anew.")
    shutil.rmtree(model, ignore_errors=True)
    resume = (output / "model.work" / "run.json").is_file()
    if resume:
        say("\nAn earlier run was stopped while it trained: --resume goes on from there.")
    say(f"\nTraining for at most {minutes:g} minutes; all the rest takes half a minute.")
    run_or_exit(
        "train", "encoder-decoder", from_root(TABLE), "-o", from_root(model), "--preset", "small",
        "--minutes", f"{minutes:g}", *(["--resume"] if resume else []),
    )  # fmt: skip
    run_or_exit("show", from_root(model))


def annotate(output: Path, base: Path) -> None:
    """Make the annotated table and its moses.ini in the output folder, if they are not there.

    :param base: what paths in moses.ini begin with: the root of the checkout, or nothing.
    """
    table, ini, before = (
        output / name for name in ("phrase-table.rnn.gz", "moses.ini", "moses.before.ini")
    )
    is_there = is_made_from(table, output / "model" / "training.json") and is_made_from(ini, table)
    # The checkout may have moved since.
    if is_there and f" path={base / from_root(table)} " in ini.read_text(encoding="utf-8"):
        say(f"\n{from_root(table)} and {from_root(ini)} are there from an earlier run, too.")
    else:
        text = (FOLDER / "moses.ini").read_text(encoding="utf-8")
        before.write_text(absolute_paths(text, base / from_root(FOLDER)), encoding="utf-8")
        say(f"\n{from_root(before)} is the example's moses.ini with absolute paths: Moses takes")
        say("relative ones from where it runs, and mert-moses.pl runs it in a folder of its own.")
        run_or_exit(
            "annotate", from_root(TABLE), "--model", from_root(output / "model"),
            "-o", base / from_root(table),
            "--moses-ini", from_root(before), "--moses-ini-out", from_root(ini),
        )  # fmt: skip
    run_or_exit("show", from_root(table), "--model", from_root(output / "model"))


def compare(path: Path) -> None:
    """Print what the network prefers against what the table prefers."""
    targets = read_targets(str(path))
    say(f"""
What the network prefers against what the table prefers, for source phrases of {MIN_WORDS} words or
more with {MIN_TARGETS} targets or more (as Cho et al., 2014, table 2). The network has seen each
pair as often as any other and knows no counts: it prefers what fits all the pairs it has seen.""")
    for title, sources in (
        ("FREQUENT: extracted most often", frequent_sources(targets, SHOWN_PHRASES)),
        ("RARE: each target extracted once, so the table cannot tell", rare_sources(
            targets, SHOWN_PHRASES)),
    ):  # fmt: skip
        say(f"\n{title}\n\n{preference_table(targets, sources)}")
    say(f"\n{agreement(targets)}")


def say_what_next(output: Path, base: Path) -> None:
    """Print what to do with what was made."""
    example, made = from_root(FOLDER), from_root(output)
    working = made / "mert" if base.is_absolute() else Path(".")
    say(f"""
What next, with Moses in $MOSES, from {ROOT}:
  translate:       $MOSES/bin/moses -f {made}/moses.ini < {example}/test.en
  tune weights:    $MOSES/scripts/training/mert-moses.pl {example}/dev.en {example}/dev.fr \
$MOSES/bin/moses {made}/moses.ini --mertdir $MOSES/bin --working-dir {working}
  your own table:  the commands above with its name, and --preset cho2014 on a GPU""")


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Train on the example, annotate it, and compare.")
    parser.add_argument("--fresh", action="store_true", help="remove what an earlier run made")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of training (%(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="a folder")
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # French, whatever the locale
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        for name in ("model", "model.work"):
            shutil.rmtree(output / name, ignore_errors=True)
    # moses.ini cannot hold a path with blanks or '#'; then it is for Moses run at the root.
    base = Path() if re.search(r"[\s#]", str(ROOT)) else ROOT
    say(f"The English-French example; what is made goes to {from_root(output)}.")
    train(output, options.minutes)
    annotate(output, base)
    compare(output / "phrase-table.rnn.gz")
    say_what_next(output, base)


if __name__ == "__main__":
    main()
