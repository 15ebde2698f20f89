"""Random phrase tables, and a model whose shortlists go with them."""

import random
from pathlib import Path

from tests.doubles import RandomModel

SOURCE_WORDS = ["la", "maison", "rue", "!", "l'", "hôpital", "x"]
TARGET_WORDS = ["the", "house", "home", "street", "!", "hospital", "a"]


def make_model(path: Path, seed: int = 0) -> RandomModel:
    """Return a model of random weights that knows all words of :func:`make_table` but one."""
    return RandomModel(path, SOURCE_WORDS, TARGET_WORDS, seed=seed)


def make_table(path: Path, num_lines: int) -> Path:
    generator = random.Random(5)

    def phrase(shortlist: list[str]) -> str:
        return " ".join(generator.choices([*shortlist, "rare"], k=generator.randint(1, 6)))

    lines = [
        f"{phrase(SOURCE_WORDS)} ||| {phrase(TARGET_WORDS)} ||| 0.5 1 ||| 0-0 ||| 1 1 1 ||| |||\n"
        for _ in range(num_lines)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path
