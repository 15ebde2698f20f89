"""Random n-best lists, and how tests of ``phrasescore rescore`` run it on them."""

import random
from pathlib import Path

from click.testing import Result

from moses_integration.nbest_lines import parse_features
from tests.command_line import run

SOURCE_WORDS = ["the", "house", "street", "!", "x"]
TARGET_WORDS = ["la", "maison", "rue", "!", "l'", "hôpital"]


class Lists:
    """An n-best list of a few random sentences, many of its hypotheses the same."""

    def __init__(self, folder: Path, *, sentences: int = 6, size: int = 30, seed: int = 3) -> None:
        generator = random.Random(seed)
        self.sources = [self._words(generator, SOURCE_WORDS) for _ in range(sentences)]
        self.hypotheses = [
            (number, self._words(generator, TARGET_WORDS))
            for number in range(sentences)
            for _ in range(size)
        ]
        self.path, self.source = str(folder / "nbest"), str(folder / "source")
        Path(self.source).write_text("".join(f"{' '.join(w)}\n" for w in self.sources))
        lines = [
            f"{number} ||| {' '.join(words)}  ||| LM0= -{place} 0 ||| -{place} ||| 0-0 ||| 1-1\n"
            for place, (number, words) in enumerate(self.hypotheses)
        ]
        Path(self.path).write_text("".join(lines), encoding="utf-8")

    def _words(self, generator: random.Random, shortlist: list[str]) -> list[str]:
        return generator.choices([*shortlist, "rare"], k=generator.randint(0, 4))


def rescore(lists: Lists | None, *arguments: object) -> Result:
    start = [] if lists is None else [lists.path, "--source", lists.source]
    return run("rescore", *start, *arguments)


def features(path: Path) -> list[dict[str, tuple[float, ...]]]:
    return [parse_features(raw) for raw in path.read_bytes().split(b"\n")[:-1]]
