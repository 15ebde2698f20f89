"""What ``make demo`` runs: ``phrasescore experiment`` on the shipped example.

The experiment trains networks, annotates the phrase table, tunes each row of its table of systems,
translates the dev and the test set with it, and measures: table 1 of Cho et al. (2014), small. It
shows each command before it runs. Then the demo prints what the network prefers among the phrases
of the annotated table against what the table prefers, as their table 2 does, and ends with
``phrasescore report``: a page of what the networks learned and the systems do. Everything goes to
``demo-output/``; what is there from an earlier run is not made again.
"""

import argparse
import io
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import preferences

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
EXPERIMENT = FOLDER / "experiment.toml"
# In the output folder: the table of the row +CSLM+RNN, whose last score is the network's.
ANNOTATED = Path("tables", "encoder-decoder", "phrase-table.gz")
SHOWN_PHRASES = 5  # frequent ones, and as many rare ones


def say(text: str = "") -> None:
    """Print at once: the commands write to the same stream."""
    print(text, flush=True)


def run(*arguments: str | Path) -> int:
    """Show a ``phrasescore`` command, run it at the root of the checkout, return its exit code."""
    words = [str(argument) for argument in arguments]
    say(f"\n$ phrasescore {shlex.join(words)}")
    with subprocess.Popen([sys.executable, "-m", "phrasescore", *words], cwd=ROOT) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the command has got it as well, and saves what it has done


def from_root(path: Path) -> Path:
    """Return a path relative to the root of the checkout, if it is in there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def compare(path: Path) -> None:
    """Print what the network prefers against what the table prefers.

    :param path: an annotated phrase table.
    """
    targets = preferences.read_targets(str(path))
    words, several = preferences.MIN_WORDS, preferences.MIN_TARGETS
    say(f"""
What the network prefers against what the phrase table prefers, for source phrases of {words} words
or more with {several} targets or more (as Cho et al., 2014, table 2). The network has seen each
pair as often as any other and knows no counts: it prefers what fits all the pairs it has seen.""")
    for title, sources in (
        ("FREQUENT: extracted most often", preferences.frequent_sources(targets, SHOWN_PHRASES)),
        ("RARE: each target extracted once, so the table cannot tell", preferences.rare_sources(
            targets, SHOWN_PHRASES)),
    ):  # fmt: skip
        say(f"\n{title}\n\n{preferences.preference_table(targets, sources)}")
    say(f"\n{preferences.agreement(targets)}")


def report(output: Path) -> int:
    """Make the page of the networks, unless there is a newer one; return the command's exit code.

    :param output: the folder that the experiment was run in.
    """
    page = output.with_name(f"{output.name}-report")
    made = from_root(output)
    index = page / "index.html"
    translated = max(path.stat().st_mtime for path in output.rglob("*.out"))
    if index.is_file() and index.stat().st_mtime >= translated:
        return 0
    # The cslm is in the search: there is nothing of it to draw but its training.
    models = [made / "models" / name for name in ("encoder-decoder", "rnnsearch", "cslm")]
    return run(
        "report",
        made / ANNOTATED,
        *(word for path in models if (ROOT / path).is_dir() for word in ("--model", path)),
        *("--experiment", made),
        *("--threads", "1"),
        *("-o", from_root(page)),
    )


def say_what_next(output: Path) -> None:
    """Print where the results are, and what to do with your own data."""
    made = from_root(output)
    say(f"""
What next, from {ROOT}:
  the results, a page:   {made}/report/index.html
  and the networks:      {made}-report/index.html
  the table again:       {made}/table.txt
  your own data:         {from_root(EXPERIMENT)} with your files (docs/experiment.md)
  what a network is:     phrasescore show {made}/models/encoder-decoder
  translate with it:     echo "the red boat ." | phrasescore translate {made}
  the same in a browser: phrasescore serve {made}""")


def end_if_failed(code: int) -> None:
    """Exit with the code of a command that did not end well."""
    if code:
        say("\nThe demo ends here. Run it again to go on, or with --fresh to begin anew.")
        sys.exit(code)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="The experiment of the shipped example.")
    parser.add_argument("--fresh", action="store_true", help="remove what an earlier run made")
    parser.add_argument(
        "--experiment",
        type=Path,
        default=EXPERIMENT,
        help="another file, with a model encoder-decoder",
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "demo-output" / "experiment", help="a folder"
    )
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # French, whatever the locale
    output = options.output.resolve()
    if options.fresh:
        shutil.rmtree(output, ignore_errors=True)
    say(f"The English-French example; what is made goes to {from_root(output)}. Every step is a")
    say(
        "command, shown before it runs; two run at a time. On two free cores all of them take three"
    )
    say("to six minutes. What is done is not repeated: Ctrl-C, and the same command goes on.")
    experiment = options.experiment.resolve()
    end_if_failed(run("experiment", from_root(experiment), "-o", from_root(output)))
    compare(output / ANNOTATED)
    end_if_failed(report(output))
    say_what_next(output)


if __name__ == "__main__":
    main()
