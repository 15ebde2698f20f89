"""What is measured, and how much of it: each field is an option of run.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from phrasescore.settings.config import Config
from tests.benchmarks.same_bytes import EXAMPLE, REPOSITORY

# The real task beside the checkout, or else the shipped example.
REAL = REPOSITORY.parent / "shared" / "data"


def _option(default: object, text: str, **more: Any) -> Any:
    """Return a field; a default that can be called is called for each run."""
    kind = {"default_factory": default} if callable(default) else {"default": default}
    return field(**kind, metadata={"help": text, "default": default, **more})


def _count(default: int | None, text: str, least: int = 1) -> Any:
    return _option(default, text, type=click.IntRange(min=least))


def _files(real: str, example: str) -> Callable[[], tuple[str, ...]]:
    def choose() -> tuple[str, ...]:
        folder, names = (REAL, real) if REAL.is_dir() else (EXAMPLE, example)
        return tuple(str(folder / name) for name in names.split())

    return choose


@dataclass(frozen=True)
class Settings:
    """The options of run.py, with their defaults."""

    table: str = _option(
        lambda: _files("phrase-table.gz", "phrase-table.gz")()[0],
        "A phrase table.",
        show_default="the real one, or the example's",
    )
    nbest: tuple[str, str] = _option(
        _files("val.1000best.gz val.en", "test.20best.gz test.en"),
        "Lists and their source; the reference ends in .fr, and moses.ini is beside it.",
        nargs=2,
        metavar="NBEST SOURCE",
    )
    translate: tuple[str, str, str] = _option(
        _files(
            "moses.tuned.ini test_2016_flickr.en test_2016_flickr.fr", "moses.ini test.en test.fr"
        ),
        "search: a model, a text and its translation.",
        nargs=3,
        metavar="INI SOURCE REFERENCE",
    )
    bitext: tuple[str, str, str] = _option(
        _files(
            "train.en train.fr aligned.grow-diag-final-and",
            "train.en.gz train.fr.gz train.align.gz",
        ),
        "building, language_models: parallel text and its word alignment.",
        nargs=3,
        metavar="SOURCE TARGET ALIGNMENT",
    )
    preset: str = _option("cho2014", "scoring, training, gpu: sizes of the network.")
    overrides: tuple[str, ...] = _option((), "of the preset", multiple=True, metavar="KEY=VALUE")
    lines: int = _count(98_304, "scoring, gpu: lines of the table.")
    slice_lines: int = _count(32_768, "scoring: lines of a turn.")
    training_lines: int = _count(200_000, "training, gpu: lines of the table.")
    turns: int = _count(12, "training, gpu: of five updates, of each side.")
    threads: int = _count(2, "Threads, or workers, of each side.")
    lists: int = _count(12, "rescoring, transformer: lists of the file.")
    tuning_lists: int = _count(250, "tuning: lists of the file.")
    starts: int = _count(20, "tuning: random starts.", least=0)
    sentences: int = _count(100, "search: the first ones of the text.", least=6)
    cslm: str | None = _option(None, "search: a model, instead of a quick one.", metavar="DIR")
    pairs: int | None = _count(None, "building: the first sentence pairs; default: all.")
    repeats: int = _count(2, "Runs of each command.")
    moses_bin: str | None = _option(
        None, "Moses' and KenLM's programs; default: the PATH.", metavar="DIR"
    )
    old: str | None = _option(None, "versions: an older one.", metavar="CHECKOUT")
    updates: int = _count(20, "versions: of training.")
    version_lists: int = _count(85, "versions: lists of the file.")
    minutes: float = _option(11.0, "versions: after which no command begins.")
    only: tuple[str, ...] = _option((), "versions: a command.", multiple=True, metavar="COMMAND")

    def config(self) -> Config:
        return Config.preset(self.preset).override(self.overrides)
