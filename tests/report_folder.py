"""A folder in which ``phrasescore report`` is tried: a table, texts and models."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork

WORDS = ["la", "maison", "est", "bleue", "rue", "grande"]
TARGET_WORDS = ["the", "house", "is", "blue", "street", "big"]
SOURCE = "la maison est bleue\nla rue est grande\nla maison\n"
REFERENCE = "the house is blue\nthe street is big\nthe house\n"
BASELINE = "the house blue\nthe street is big\nhouse\n"
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "english-french"


def table_lines() -> list[str]:
    """Return 12 sources of four words, of three targets each; scores and counts by hand."""
    lines = []
    for number in range(12):
        source = " ".join(WORDS[(number + place) % 6] for place in range(4)) + f" x{number:02}"
        for place, probability in enumerate((0.5, 0.375, 0.125)):
            target = " ".join(TARGET_WORDS[(number + place + step) % 6] for step in range(3))
            counts = "1 3 1" if number % 2 else "9 9 3"
            scores = f"0.25 0.5 {probability} 0.5"
            lines.append(f"{source} ||| {target} ||| {scores} ||| 0-0 ||| {counts} ||| |||\n")
    return lines


class Folder:
    """A folder with a table, texts and models, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("table", "".join(table_lines()))
        self.write("src", SOURCE)
        self.write("ref", REFERENCE)
        self.write("base", BASELINE)
        RandomModel(path / "rnn", WORDS, TARGET_WORDS)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def save(self, name: str, kind: str, **options: Any) -> RandomNetwork:
        sides = (TARGET_WORDS, WORDS) if options.get("reverse") else (WORDS, TARGET_WORDS)
        network = RandomNetwork(kind, *sides, **options)
        save_checkpoint(self.path / name, network.checkpoint)
        return network

    def run(self, *arguments: object, quiet: bool = True) -> Result:
        words = ["report", *map(str, arguments), "-o", "out"]
        return CliRunner().invoke(main, ["-q", *words] if quiet else words)

    def made(self, *arguments: object) -> dict[str, Any]:
        """Run the command; return report.json."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
        return self.report()

    def report(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.path / "out" / "report.json").read_text("utf-8"))
        return values


def keys(report: dict[str, Any]) -> list[str]:
    return [section["key"] for section in report["sections"]]


def block(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (
        block for section in report["sections"] for block in section["blocks"]
        if block["name"] == name
    )  # fmt: skip
    assert isinstance(found, dict)
    return found


def facts(report: dict[str, Any]) -> dict[str, str]:
    return dict(report["facts"])


def nbest(*lists: tuple[str, ...]) -> str:
    return "".join(
        f"{number} ||| {text} ||| LM0= -1 ||| -1\n"
        for number, found in enumerate(lists)
        for text in found
    )
