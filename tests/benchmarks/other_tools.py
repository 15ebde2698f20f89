"""Whole commands against other tools: building, n-gram models and evaluation."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from itertools import islice, zip_longest
from pathlib import Path

from xopen import xopen

from moses_integration.nbest import read_nbest
from phrasescore.io.text import read_lines
from tests.benchmarks.commands import PHRASESCORE, compare_commands, find_tool
from tests.benchmarks.results import Report, Row
from tests.benchmarks.settings import Settings

ORDER = "4"  # of n-gram models
PHRASES = "phrase-table.gz"
REORDERING = "reordering-table.wbe-msd-bidirectional-fe.gz"
TOOLS = ("extract", "score", "consolidate", "lexical-reordering-score")
# The steps 5 to 7 of train-model.perl, with its -parallel. The lexicons of step 4 are given.
SCRIPT = """
set -e
export LC_ALL=C
"$1" target source aligned extract 7 orientation --model wbe-msd
sort extract > extract.sorted & sort extract.inv > extract.inv.sorted &
sort extract.o > extract.o.sorted & wait
"$2" extract.sorted model/lex.f2e half.f2e &
("$2" extract.inv.sorted model/lex.e2f half.unsorted --Inverse; sort half.unsorted > half.e2f) &
"$4" extract.o.sorted 0.5 reordering-table. --model "wbe msd wbe-msd-bidirectional-fe" & wait
"$3" half.f2e half.e2f phrase-table
gzip -f phrase-table
"""


def measure_building(settings: Settings) -> Report:
    """Measure both tables against Moses' own programs, on the same aligned text."""
    tools = [tool for name in TOOLS if (tool := find_tool(name, settings.moses_bin)) is not None]
    moses = ["bash", "-c", SCRIPT, "bash", *tools] if len(tools) == len(TOOLS) else None
    lm = os.path.join(os.path.dirname(settings.translate[0]), "lm.fr.arpa.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_pairs = _copy(settings, folder)
        build = [*PHRASESCORE, "build", "source", "target", "--alignments", "aligned"]
        build += ["--lm", str(Path(lm).resolve()), "--max-sentence-length", "1000"]
        build += ["--workers", str(settings.threads), "--output", "model", "--quiet"]
        again = ["bash", "-c", 'rm -rf model; exec "$@"', "bash", *build]
        rows = compare_commands(again, moses, folder, settings.repeats, names=("build", "Moses"))
        rows.append(Row("sentence pairs", [num_pairs], digits=0))
        size = sum(1 for _ in read_lines(str(folder / "model" / PHRASES)))
        if moses is not None:
            for table in (PHRASES, REORDERING):
                different = _count_differences(folder / "model" / table, folder / table)
                rows.append(Row(f"lines of {table} that differ", [different], digits=0))
    what = (
        f"a phrase table of {size:,} pairs and a reordering table, from {num_pairs:,} sentence "
        f"pairs of {settings.bitext[0]} and their word alignment; {settings.threads} workers; "
        f"Moses' {', '.join(TOOLS)}, sort and gzip, at the same time where possible; without its "
        "lexicons"
    )
    left_out = [] if moses else [f"Moses was not run: it needs {', '.join(TOOLS)}"]
    return Report("building", what, rows, left_out)


def _copy(settings: Settings, folder: Path) -> int:
    """Write plain files with the first sentences; return the number of sentences."""
    count = 0
    for path, plain in zip(settings.bitext, ("source", "target", "aligned"), strict=True):
        with xopen(path, "rb") as lines, (folder / plain).open("wb") as copy:
            chosen = list(islice(lines, settings.pairs))
            copy.writelines(chosen)
            count = len(chosen)
    return count


def _count_differences(one: Path, other: Path) -> int:
    pairs = zip_longest(read_lines(str(one)), read_lines(str(other)))
    return sum(a != b for a, b in pairs)


def measure_language_models(settings: Settings) -> Report:
    """Measure estimation against KenLM's ``lmplz``, and perplexity against its ``query``."""
    lmplz, query = (find_tool(name, settings.moses_bin) for name in ("lmplz", "query"))
    turns = settings.repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with xopen(settings.bitext[1], "rb") as lines:
            text = lines.read()
        (folder / "text").write_bytes(text)
        ours = [*PHRASESCORE, "build-lm", "text", "--order", ORDER, "--discount-fallback"]
        ours += ["--output", "lm.arpa", "--quiet"]
        theirs = None
        if lmplz is not None:
            theirs = [lmplz, "--order", ORDER, "--discount_fallback", "-S", "1G", "-T", "."]
            theirs += ["--text", "text", "--arpa", "kenlm.arpa"]
        rows = compare_commands(ours, theirs, folder, turns, names=("build-lm", "lmplz"))
        if lmplz is not None:
            same = (folder / "lm.arpa").read_bytes() == (folder / "kenlm.arpa").read_bytes()
            rows.append(Row("build-lm: models of the same bytes", [float(same)], digits=0))
        ours = [*PHRASESCORE, "perplexity", "text", "--lm", "lm.arpa", "--quiet"]
        theirs = None
        if query is not None:
            theirs = ["bash", "-c", '"$1" -v summary lm.arpa < text', "bash", query]
        rows += compare_commands(ours, theirs, folder, turns, names=("perplexity", "query"))
    num_lines = text.count(b"\n")
    what = f"order {ORDER}, {num_lines:,} sentences of {settings.bitext[1]}"
    left_out = [
        f"KenLM's {name} was not run: no such program in --moses-bin or on the PATH"
        for name, tool in (("lmplz", lmplz), ("query", query))
        if tool is None
    ]
    return Report("language_models", what, rows, left_out)


def measure_evaluation(settings: Settings) -> Report:
    """Measure three metrics and a paired bootstrap of two systems against sacrebleu's command."""
    nbest, source = settings.nbest
    reference = Path(source).with_suffix(".fr")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lists = [[*dict.fromkeys(item.hypotheses)] for item in read_nbest(nbest)]
        for system, place in (("one", 0), ("two", 1)):
            lines = [found[min(place, len(found) - 1)] + b"\n" for found in lists]
            (folder / system).write_bytes(b"".join(lines))
        shutil.copyfile(reference, folder / "reference")
        ours = [*PHRASESCORE, "evaluate", "one", "two", "--references", "reference", "--quiet"]
        ours += ["--metric", "bleu", "--metric", "chrf", "--metric", "ter"]
        ours += ["--paired", "bootstrap"]
        theirs = [sys.executable, "-m", "sacrebleu", "reference", "-i", "one", "two"]
        theirs += ["-m", "bleu", "chrf", "ter", "--tokenize", "none", "--paired-bs", "-f", "text"]
        rows = compare_commands(
            ours, theirs, folder, settings.repeats, names=("evaluate", "sacrebleu")
        )
    what = (
        f"BLEU, chrF and TER of two systems, {len(lists):,} sentences of {reference}, with 1,000 "
        "bootstrap samples"
    )
    return Report("evaluation", what, rows)
