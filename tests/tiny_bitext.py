"""A small parallel text that a word aligner can align: noun phrases, in English and French."""

import random
from collections.abc import Sequence
from pathlib import Path

from tests.command_line import run, succeeded

LINKS = "0-0 1-2 2-1 3-3 4-4 5-6 6-5"  # the word alignment of each pair

_NOUNS = {
    "house": "maison",
    "car": "voiture",
    "table": "table",
    "key": "clé",
    "door": "porte",
    "street": "rue",
    "city": "ville",
    "flower": "fleur",
}
_ADJECTIVES = {"red": "rouge", "green": "verte", "white": "blanche", "black": "noire"}
_VERBS = {"sees": "voit", "has": "a", "wants": "veut", "likes": "aime"}


def sentence_pairs(count: int) -> list[tuple[str, str]]:
    """Adjectives come after their nouns in the target; all else is in the same order."""
    chance = random.Random(1)

    def phrase() -> tuple[str, str]:
        noun, adjective = chance.choice(list(_NOUNS)), chance.choice(list(_ADJECTIVES))
        return f"the {adjective} {noun}", f"la {_NOUNS[noun]} {_ADJECTIVES[adjective]}"

    pairs = []
    for _ in range(count):
        verb = chance.choice(list(_VERBS))
        parts = phrase(), (verb, _VERBS[verb]), phrase()
        pairs.append((" ".join(part[0] for part in parts), " ".join(part[1] for part in parts)))
    return pairs


def write_bitext(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write the files ``s``, ``t`` and ``links`` of a text whose pairs may have one more word."""
    for side, name in enumerate("st"):
        lines = (f"{pair[side]}\n" for pair in pairs)
        (folder / name).write_text("".join(lines), encoding="utf-8")
    more = (" 7-7" * (len(source.split()) > 7) for source, _ in pairs)
    (folder / "links").write_text("".join(f"{LINKS}{link}\n" for link in more))


def build_bitext(folder: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    """Write the files of `write_bitext`, build the system ``model``, and return ``folder``."""
    write_bitext(folder, pairs)
    words = ("--alignments", folder / "links", "--lm-order", "2", "--workers", "1")
    succeeded(run("build", folder / "s", folder / "t", "-o", folder / "model", *words))
    return folder
