"""A folder in which reports are made: a table, texts, and models beside it."""

import json
from pathlib import Path
from typing import Any

from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.report.make_report import ReportSummary, make_report
from tests.doubles import RandomCslm, RandomModel
from tests.random_networks import RandomNetwork

WORDS = ["la", "maison", "est", "bleue", "rue", "grande"]
TARGET_WORDS = ["the", "house", "is", "blue", "street", "big"]
SOURCE = "la maison est bleue\nla rue est grande\nla maison\n"
REFERENCE = "the house is blue\nthe street is big\nthe house\n"
BASELINE = "the house blue\nthe street is big\nhouse\n"
# The kinds of sentence networks, by the names of models.
_KINDS = {"att": "rnnsearch", "gr": "grconv", "deep": "lstm"}


def save_models(path: Path) -> None:
    """Save a model of each kind: rnn, att, gr, deep and lm; and reverse-rnn, -gr and -deep."""
    RandomModel(path / "rnn", WORDS, TARGET_WORDS)
    RandomModel(path / "reverse-rnn", WORDS, TARGET_WORDS, reverse=True)
    RandomCslm(WORDS, path=path / "lm")
    for name, kind in _KINDS.items():
        network = RandomNetwork(kind, WORDS, TARGET_WORDS)
        save_checkpoint(path / name, network.checkpoint)
        network = RandomNetwork(kind, TARGET_WORDS, WORDS, reverse=True)
        save_checkpoint(path / f"reverse-{name}", network.checkpoint)


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
    """A folder with a table and texts, in which reports are made.

    :param models: the folder of `save_models`.
    """

    def __init__(self, path: Path, models: Path) -> None:
        self.path = path
        self.models = models
        self.write("table", "".join(table_lines()))
        self.write("src", SOURCE)
        self.write("ref", REFERENCE)
        self.write("base", BASELINE)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def model(self, name: str) -> str:
        return str(self.models / name)

    def summary(
        self, table: str | Path | None = None, models: str = "", **options: Any
    ) -> ReportSummary:
        """Make a report with the models of these names; return its summary."""
        paths = [self.model(name) for name in models.split()]
        return make_report("out", table, models=paths, **options)

    def make(
        self, table: str | Path | None = None, models: str = "", **options: Any
    ) -> dict[str, Any]:
        """Make a report with the models of these names; return report.json."""
        self.summary(table, models, **options)
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


def left_out(report: dict[str, Any]) -> dict[str, str]:
    return dict(report["left_out"])
