"""Rescoring with a Transformer against Marian's scorer, which pymarian has; whole commands."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

from moses_integration.nbest import read_nbest
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.settings.kinds import TransformerConfig
from phrasescore.vocabulary import Vocabulary
from tests.benchmarks.commands import PHRASESCORE, compare_commands, measure_command
from tests.benchmarks.results import Report, Row
from tests.benchmarks.transformer import TransformerOptions, random_transformer

# One sentence pair is trained on once: a model of random weights is written.
RUN = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
BATCH = ("--mini-batch", "64", "--maxi-batch", "100", "--workspace", "500", "--cpu-threads", "1")


def measure_marian(options: TransformerOptions) -> Report:
    if importlib.util.find_spec("_pymarian") is None:
        return Report("marian", "nothing", [], ["pymarian is not installed"])
    checkpoint = random_transformer(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_checkpoint(folder / "model", checkpoint)
        counts = _write_lists(options, folder)
        vocabularies = ("source.yml", "target.yml")
        for path, vocabulary in zip(
            vocabularies, (checkpoint.source_vocabulary, checkpoint.target_vocabulary), strict=True
        ):
            _write_vocabulary(folder / path, vocabulary)
        sizes = checkpoint.config.model
        assert isinstance(sizes, TransformerConfig)
        marian = [sys.executable, "-c", RUN]
        files = ["--vocabs", *vocabularies, "--model", "model.npz"]
        depth = str(sizes.layers)
        train = [*marian, "train", *files, "--type", "transformer", "--train-sets"]
        train += ["source", "source", "--after", "1u", "--tied-embeddings"]
        train += ["--enc-depth", depth, "--dec-depth", depth, "--dim-emb", str(sizes.hidden_size)]
        train += ["--transformer-heads", str(sizes.heads), "--transformer-dim-ffn"]
        train += [str(sizes.feed_forward_size), "--transformer-ffn-activation", "relu"]
        train += ["--transformer-preprocess", "n", "--transformer-postprocess", "da"]
        measure_command([*train, "--transformer-postprocess-top", "n", *BATCH], folder)
        rows: list[Row] = []
        for lists in counts:
            ours = [*PHRASESCORE, "rescore", lists, "--source", "source", "--model", "model"]
            ours += ["--output", "rescored", "--threads", "1", "--device", "cpu", "--quiet"]
            theirs = [*marian, "score", *files, "--train-sets", "source", lists, "--n-best"]
            names = (f"rescore, {lists}", f"Marian, {lists}")
            rows += compare_commands(
                ours, [*theirs, "--quiet", *BATCH], folder, options.scoring_turns, names=names
            )
    lines, different = counts.values()
    what = (
        f"{lines:,} lines of {options.nbest} with {different:,} different hypotheses, alone in "
        f"'different'; random weights of {sizes.layers} layers of {sizes.hidden_size} units, "
        f"{len(checkpoint.target_vocabulary):,} words; whole commands, one thread"
    )
    return Report("marian", what, rows)


def _write_lists(options: TransformerOptions, folder: Path) -> dict[str, int]:
    """Write the first lists with all lines and with only the different hypotheses; count lines."""
    sources = list(read_lines(options.nbest_source))[: options.lists]
    (folder / "source").write_bytes(b"".join(line + b"\n" for line in sources))
    every: list[bytes] = []
    different: list[bytes] = []
    for item in read_nbest(options.nbest):
        if item.id >= options.lists:
            break
        every += item.raws
        first: dict[bytes, bytes] = {}
        for hypothesis, raw in zip(item.hypotheses, item.raws, strict=True):
            first.setdefault(hypothesis, raw)
        different += first.values()
    for name, lines in (("every line", every), ("different", different)):
        (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return {"every line": len(every), "different": len(different)}


def _write_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """Write the words as Marian reads them: its first two are its own."""
    words = ["</s>", "<unk>", *(vocabulary.word(number) for number in range(2, len(vocabulary)))]
    lines = (f"{json.dumps(word)}: {number}\n" for number, word in enumerate(words))
    path.write_text("".join(lines), encoding="utf-8")
