"""What ``make demo`` runs, with the commands a user would type.

Each step is a ``phrasescore`` command, shown before it runs. First the phrase table: a network is
trained on it and scores it, and the demo prints what the network prefers against what the table
prefers, as table 2 of Cho et al. (2014) does. Then n-best lists: a network is trained on the
sentences and scores the lists; the even average chooses from them, and weights tuned on the dev set
do. Everything goes to ``demo-output/``; what is there from an earlier run is used again.

Each command runs in a process of its own: names of the grammar's modules, such as ``phrases``,
cannot stand in for others.
"""

import argparse
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import preferences
import results

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TABLE = FOLDER / "phrase-table.gz"
SENTENCES = (FOLDER / "train.en.gz", FOLDER / "train.fr.gz")
SETS = ("dev", "test")

MINUTES = 0.8  # of training on the table; what is not training takes 40 seconds on two cores
SENTENCE_MINUTES = 1.0  # of training the network that reads sentences
# Smaller than the preset, for a minute's training on few sentences; with one thread, since two that
# wait for one another on a busy machine are several times slower.
SENTENCE_OPTIONS = (
    "--preset", "attention-small", "--set", "model.hidden_size=128",
    "--set", "model.embedding_size=96", "--set", "model.alignment_size=128",
    "--set", "training.learning_rate=3e-3", "--threads", "1",
)  # fmt: skip
# By dev alone: tuned on four fifths of it and measured on the other one (--cross-validate 5), it
# had BLEU 75.15 where mert had 74.97, with one run's network; means of seeds 1 to 3.
METHOD = "xbleu"
SHOWN_PHRASES = 5  # frequent ones, and as many rare ones


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


def train(model: Path, inputs: tuple[Path, ...], *options: str) -> None:
    """Make a model folder, or show that it is there and whole.

    :param inputs: the phrase table, or the two sides of the sentences.
    :param options: the rest of the command line, the kind of network first.
    """
    if is_made_from(model / "training.json", *inputs):
        say(f"\n{from_root(model)} is there from an earlier run and is used again (demo.py --fresh")
        say("trains it anew). The next command also checks that it is whole.")
        if run("show", from_root(model)) == 0:
            return
        say("\nIt is not whole, so it is trained anew.")
    shutil.rmtree(model, ignore_errors=True)
    resume = (model.with_name(f"{model.name}.work") / "run.json").is_file()
    if resume:
        say("\nAn earlier run was stopped while it trained: --resume goes on from there.")
    kind, *more = options
    run_or_exit(
        "train", kind, *map(from_root, inputs), "-o", from_root(model), *more,
        *(["--resume"] if resume else []),
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
    targets = preferences.read_targets(str(path))
    words, several = preferences.MIN_WORDS, preferences.MIN_TARGETS
    say(f"""
What the network prefers against what the table prefers, for source phrases of {words} words or
more with {several} targets or more (as Cho et al., 2014, table 2). The network has seen each
pair as often as any other and knows no counts: it prefers what fits all the pairs it has seen.""")
    for title, sources in (
        ("FREQUENT: extracted most often", preferences.frequent_sources(targets, SHOWN_PHRASES)),
        ("RARE: each target extracted once, so the table cannot tell", preferences.rare_sources(
            targets, SHOWN_PHRASES)),
    ):  # fmt: skip
        say(f"\n{title}\n\n{preferences.preference_table(targets, sources)}")
    say(f"\n{preferences.agreement(targets)}")


def choose(output: Path) -> None:
    """Rescore Moses' n-best lists, choose from them in three ways, and say what each gives."""
    say("""
Now the n-best lists that Moses made of the dev and the test set, at most 20 different translations
a sentence. The network that reads sentences scores each of them.""")
    for name in SETS:
        run_or_exit(
            "rescore", from_root(FOLDER / f"{name}.20best.gz"),
            "--source", from_root(FOLDER / f"{name}.en"),
            "--model", from_root(output / "attention"),
            "-o", from_root(output / f"{name}.rescored.gz"),
        )  # fmt: skip
    say("""
What is its score worth beside Moses' own? The even average of both (Sutskever et al., 2014) needs
no tuning; here the weights of all features, the network's with them, are tuned on dev:""")
    weights = output / "weights"
    run_or_exit(
        "tune", from_root(output / "dev.rescored.gz"),
        "--references", from_root(FOLDER / "dev.fr"),
        "--moses-ini", from_root(FOLDER / "moses.ini"),
        "--method", METHOD, "-o", from_root(weights),
    )  # fmt: skip
    for name in SETS:
        say(f"\nThree ways to choose on {name}: Moses' own, the even average, the tuned weights.")
        evaluate_choices(output, name, weights)
    ways = ("Moses' own choice", "even average", f"tuned on dev ({METHOD})")
    written = {name: output / f"{name}.evaluation.json" for name in SETS}
    say(f"\n{results.results_table(written, ways)}")
    say("The weights have seen dev: what they are worth is what they give on test.")


def evaluate_choices(output: Path, name: str, weights: Path) -> None:
    """Choose from the lists of a set in three ways, and measure the choices.

    :param weights: the file with the tuned weights.
    """
    rescored = from_root(output / f"{name}.rescored.gz")
    ways: dict[str, tuple[str | Path, ...]] = {
        # Moses' weights, and none for the network.
        "moses": ("--weights", from_root(FOLDER / "moses.ini"), "--ignore-unweighted"),
        "average": ("--average", "Attention0"),
        "tuned": ("--weights", from_root(weights)),
    }
    chosen = [from_root(output / f"{name}.{way}.fr") for way in ways]
    for path, how in zip(chosen, ways.values(), strict=True):
        run_or_exit("rerank", rescored, *how, "-o", path)
    run_or_exit(
        "evaluate", *chosen, "--references", from_root(FOLDER / f"{name}.fr"),
        "--paired", "bootstrap", "--nbest", rescored,
        "--format", "json", "-o", from_root(output / f"{name}.evaluation.json"),
    )  # fmt: skip


def say_what_next(output: Path, base: Path) -> None:
    """Print what to do with what was made."""
    example, made = from_root(FOLDER), from_root(output)
    working = made / "mert" if base.is_absolute() else Path(".")
    say(f"""
What next, with Moses in $MOSES, from {ROOT}:
  translate:       $MOSES/bin/moses -f {made}/moses.ini < {example}/test.en
  tune weights:    $MOSES/scripts/training/mert-moses.pl {example}/dev.en {example}/dev.fr \
$MOSES/bin/moses {made}/moses.ini --mertdir $MOSES/bin --working-dir {working}
  your own table:  the commands above with its name, and --preset cho2014 on a GPU
  your own lists:  moses -n-best-list NBEST 1000, and the commands above with your names
  the whole loop:  phrasescore tune --decoder, in place of mert-moses.pl: docs/tuning.md""")


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Train on the example, annotate it, and compare.")
    parser.add_argument("--fresh", action="store_true", help="remove what an earlier run made")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="of training on the table (%(default)s)"
    )
    parser.add_argument(
        "--sentence-minutes",
        type=float,
        default=SENTENCE_MINUTES,
        help="of training on the sentences (%(default)s)",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="a folder")
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # French, whatever the locale
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        for name in ("model", "attention"):
            shutil.rmtree(output / name, ignore_errors=True)
            shutil.rmtree(output / f"{name}.work", ignore_errors=True)
    # moses.ini cannot hold a path with blanks or '#'; then it is for Moses run at the root.
    base = Path() if re.search(r"[\s#]", str(ROOT)) else ROOT
    say(f"The English-French example; what is made goes to {from_root(output)}.")
    say(f"\nTraining on the phrase table for at most {options.minutes:g} minutes, and later on the")
    say(f"sentences for at most {options.sentence_minutes:g}; all the rest takes 40 seconds.")
    train(
        output / "model", (TABLE,),
        "encoder-decoder", "--preset", "small", "--minutes", f"{options.minutes:g}",
    )  # fmt: skip
    annotate(output, base)
    compare(output / "phrase-table.rnn.gz")
    train(
        output / "attention", SENTENCES,
        "attention", *SENTENCE_OPTIONS, "--minutes", f"{options.sentence_minutes:g}",
    )  # fmt: skip
    choose(output)
    say_what_next(output, base)


if __name__ == "__main__":
    main()
