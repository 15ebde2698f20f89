"""Write the English-French corpus of the example.

    python make_corpus.py -o DIR [--seed 2014] [--train 9200]

The files are the same on every machine: all choices come from one seeded generator.
"""

import argparse
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import bodies
import comparisons
import constructions
import sentences
import subordinates
from lexicon import read_lexicon
from sampling import Sampler
from tokens import alignment, finish, join, unit

SEED = 2014
NUM_TRAIN, NUM_DEV, NUM_TEST, NUM_HELD_OUT = 9200, 500, 500, 1000
MAX_WORDS = 14
PATTERNS: dict[sentences.Pattern, int] = {
    sentences.transitive: 30,
    sentences.intransitive: 12,
    sentences.motion: 9,
    sentences.ditransitive: 9,
    sentences.anaphora: 9,
    sentences.questions: 9,
    sentences.commands: 7,
    sentences.nothing: 4,
    constructions.describe: 8,
    constructions.belongs: 3,
    constructions.profession: 4,
    constructions.there_is: 5,
    constructions.located: 4,
    bodies.sensation: 6,
    bodies.washing: 2,
    comparisons.comparison: 5,
    comparisons.superlative: 3,
    constructions.since: 3,
    constructions.missing: 3,
    constructions.clock: 2,
    subordinates.relative_subject: 3,
    subordinates.relative_object: 5,
    subordinates.relative_place: 2,
    subordinates.report: 5,
    subordinates.wish: 3,
    subordinates.condition: 3,
    subordinates.because: 4,
    subordinates.while_: 2,
    subordinates.passive: 4,
    subordinates.senses: 4,
}


class Example(NamedTuple):
    """One sentence pair as it is written, with "0-0 1-2" links."""

    english: str
    french: str
    links: str


# A sentence says "tu" or "vous" to the one it speaks to, not both.
FAMILIAR = frozenset(("tu", "te", "t'", "toi", "ton", "ta", "tes"))
POLITE = frozenset(("vous", "votre", "vos"))


def escape(word: str) -> str:
    """Escape a token as Moses' tokeniser does."""
    return word.replace("&", "&amp;").replace("|", "&#124;").replace("'", "&apos;")


def draw(sampler: Sampler) -> Example | None:
    """Return one random sentence pair, or None where chance made one that will not do."""
    names = {pattern.__name__: pattern for pattern in PATTERNS}
    weights = {pattern.__name__: weight for pattern, weight in PATTERNS.items()}
    pair = names[sampler.weighted(weights)](sampler)
    if sampler.chance(0.03) and pair.english[-1].text == ".":
        pair = join(sampler.fixed("interjection"), unit(",", ","), pair)
    pair = finish(pair)
    french = {token.text for token in pair.french}
    unlikely = (french & FAMILIAR and french & POLITE) or {"ils", "elles"} <= french
    if max(map(len, pair)) > MAX_WORDS or unlikely:
        return None
    return Example(
        " ".join(escape(token.text) for token in pair.english),
        " ".join(escape(token.text) for token in pair.french),
        " ".join(f"{i}-{j}" for i, j in alignment(pair)),
    )


def examples(seed: int = SEED) -> Iterator[Example]:
    """Yield sentence pairs without end; no English and no French sentence comes twice."""
    sampler = Sampler(read_lexicon(), random.Random(seed))
    seen_english: set[str] = set()
    seen_french: set[str] = set()
    while True:
        example = draw(sampler)
        if example is None or example.english in seen_english or example.french in seen_french:
            continue
        seen_english.add(example.english)
        seen_french.add(example.french)
        yield example


def write_gzip(path: Path, text: str) -> None:
    """Write a gzip file whose bytes do not depend on the time."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())


def write_corpus(folder: Path, seed: int, num_train: int) -> None:
    """Write train.{en,fr,links}.gz and {dev,test,heldout}.{en,fr}.

    The links are the grammar's own. Nothing is made from them: they measure the error rate of a
    statistical alignment.

    The first ``NUM_DEV`` pairs are the development set and the next ``NUM_TEST`` the test set, so
    that a longer training part leaves them as they are; the held-out set comes after it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stream = examples(seed)
    sizes = {"dev": NUM_DEV, "test": NUM_TEST, "train": num_train, "heldout": NUM_HELD_OUT}
    for name, size in sizes.items():
        part = [next(stream) for _ in range(size)]
        sides = {"en": [e.english for e in part], "fr": [e.french for e in part]}
        if name == "train":
            sides["links"] = [e.links for e in part]
        for suffix, lines in sides.items():
            text = "".join(line + "\n" for line in lines)
            if name == "train":
                write_gzip(folder / f"{name}.{suffix}.gz", text)
            else:
                (folder / f"{name}.{suffix}").write_bytes(text.encode())


def main() -> None:
    """Read the command line and write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--train", type=int, default=NUM_TRAIN, help="training pairs")
    options = parser.parse_args()
    write_corpus(options.output, options.seed, options.train)


if __name__ == "__main__":
    main()
