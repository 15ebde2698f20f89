"""N-gram models against KenLM: estimation against ``lmplz``, perplexity against ``query``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from xopen import xopen

from tests.benchmarks.commands import PHRASESCORE, compare_commands, find_tool
from tests.benchmarks.results import Report, Row


@dataclass(frozen=True)
class LanguageModelOptions:
    text: str
    order: int
    turns: int
    moses_bin: str | None


def measure_language_models(options: LanguageModelOptions) -> Report:
    lmplz, query = (find_tool(name, options.moses_bin) for name in ("lmplz", "query"))
    order, turns = str(options.order), options.turns
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with xopen(options.text, "rb") as lines:
            text = lines.read()
        (folder / "text").write_bytes(text)
        ours = [*PHRASESCORE, "build-lm", "text", "--order", order, "--discount-fallback"]
        ours += ["--output", "lm.arpa", "--quiet"]
        theirs = None
        if lmplz is not None:
            theirs = [lmplz, "--order", order, "--discount_fallback", "-S", "1G", "-T", "."]
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
    what = f"order {order}, {num_lines:,} sentences of {options.text}"
    left_out = [
        f"KenLM's {name} was not run: no such program in --moses-bin or on the PATH"
        for name, tool in (("lmplz", lmplz), ("query", query))
        if tool is None
    ]
    return Report("language_models", what, rows, left_out)
