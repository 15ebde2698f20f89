"""Word alignments: which word of which side a link names."""

import gzip
import random
from pathlib import Path

import pytest

from phrasescore.settings.building import AlignerName
from phrasescore.workflows.building.aligner import align


@pytest.mark.parametrize("kind", ["eflomal", "fast-align", "hmm"])
def test_links_name_the_source_word_first(kind: AlignerName, tmp_path: Path) -> None:
    chance = random.Random(1)
    sentences = [chance.sample("abcdefgh", chance.randint(2, 5)) for _ in range(400)]
    texts = sentences, [["the", *map(str.upper, words)] for words in sentences]
    paths = tmp_path / "source.gz", tmp_path / "target.gz"
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress("".join(" ".join(words) + "\n" for words in text).encode()))
    work = tmp_path / "work"
    work.mkdir()
    for found in align(kind, *paths, work, 1, lambda _: None):
        lines = found.read_text().split("\n")[:-1]
        assert len(lines) == len(sentences)
        wanted = {
            (n, f"{i}-{i + 1}") for n, words in enumerate(sentences) for i in range(len(words))
        }
        links = {(n, link) for n, line in enumerate(lines) for link in line.split()}
        assert len(wanted & links) > 0.9 * len(wanted)
