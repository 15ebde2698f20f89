"""Measure speed and memory: ``make bench``, or this file with the parts to run.

Every speed is a ratio of two sides that take turns in one process, because absolute figures of a
shared machine are worth little. ``--table`` takes any phrase table; without it, the one of the real
task beside the checkout is taken, or else the shipped example's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from phrasescore.arguments import PrecisionName
    from phrasescore.settings.config import Config
    from tests.benchmarks.results import Report

REPOSITORY = Path(__file__).resolve().parents[2]
TABLES = (
    REPOSITORY.parent / "shared" / "data" / "phrase-table.gz",
    REPOSITORY / "examples" / "english-french" / "phrase-table.gz",
)
RESCORING_TURNS = 3
GENERATION_TURNS = 2
GPU_TURNS = 3
# Processes that run or want to, on average over the last minute.
BUSY = 0.5
PARTS = (
    *("reading", "scoring", "training", "memory", "rescoring", "caching", "foreign"),
    *("tuning", "tuning_scale", "search", "generation", "engines", "gpu"),
)
# Not without being asked for.
OPTIONAL_PARTS = ("gpu",)
# What Moses' extractor wrote of the real task.
EXTRACTED = REPOSITORY.parent / "shared" / "data" / "mert"
# n-best lists and what they translate: the real task's, or the shipped example's.
LISTS = (
    (
        REPOSITORY.parent / "shared" / "data" / "val.1000best.gz",
        REPOSITORY.parent / "shared" / "data" / "val.en",
    ),
    (
        REPOSITORY / "examples" / "english-french" / "test.20best.gz",
        REPOSITORY / "examples" / "english-french" / "test.en",
    ),
)
# A moses.ini, a text and its translation: the real task's, or the shipped example's.
TRANSLATED = (
    ("moses.tuned.ini", "test_2016_flickr.en", "test_2016_flickr.fr"),
    ("moses.ini", "test.en", "test.fr"),
)


def _default_table() -> str:
    return str(next((path for path in TABLES if path.is_file()), TABLES[-1]))


def _default_lists() -> tuple[str, str]:
    nbest, source = next((pair for pair in LISTS if pair[0].is_file()), LISTS[-1])
    return str(nbest), str(source)


def _default_translated() -> tuple[str, ...]:
    folders = [path.parent for path in TABLES]
    choices = [
        tuple(str(folder / name) for name in names)
        for folder, names in zip(folders, TRANSLATED, strict=True)
    ]
    return next((files for files in choices if all(map(os.path.isfile, files))), choices[-1])


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS), metavar="[PART]...")
@click.option("--table", default=_default_table, show_default="the real one, or the example's")
@click.option("--lines", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--preset", default="cho2014", show_default=True, help="Sizes of the network.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change the preset.")
@click.option(
    "--slice-lines",
    type=click.IntRange(min=1),
    default=65536,
    show_default=True,
    help="scoring, engines: lines of a turn; annotate takes 16384 a thread at a time.",
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(("bfloat16", "int8")),
    multiple=True,
    show_default="what the processor has instructions for",
    help="scoring: of annotate, beside float32.",
)
@click.option("--plain-bfloat16", is_flag=True, help="scoring: plain torch in bfloat16, too.")
@click.option(
    "--peak-seconds", default=1.0, show_default=True, help="scoring: a search for the peak."
)
@click.option(
    "--training-lines",
    type=click.IntRange(min=1),
    show_default="all",
    help="training, gpu: lines to draw pairs from.",
)
@click.option(
    "--gpu-peak-size",
    type=click.IntRange(min=1),
    default=8192,
    show_default=True,
    help="gpu: rows and columns of the matrices whose product is the peak.",
)
@click.option(
    "--turns",
    type=click.IntRange(min=1),
    default=36,
    show_default=True,
    help="training, gpu: of five updates, of each side.",
)
@click.option(
    "--memory-lines",
    type=click.IntRange(min=1),
    show_default="as --lines",
    help="memory: of the smaller of the two runs.",
)
@click.option(
    "--long",
    "long_memory",
    is_flag=True,
    help="memory, engines: memory with the preset's sizes (many minutes), not those of small.",
)
@click.option(
    "--nbest",
    "nbest",
    nargs=2,
    metavar="NBEST SOURCE",
    default=_default_lists,
    show_default="the real ones, or the example's",
    help="rescoring: lists, and the text that they translate.",
)
@click.option("--lists", type=click.IntRange(min=1), default=20, show_default=True)
@click.option(
    "--sentence-preset",
    "sentence_presets",
    multiple=True,
    default=("lstm-small", "attention-small"),
    show_default=True,
    help="rescoring: sizes of a network, lstm or attention.",
)
@click.option(
    "--cache-preset", default="bahdanau2014", show_default=True, help="caching: sizes of a network."
)
@click.option("--cache-lists", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--ctranslate2", metavar="DIR", help="foreign: a model, instead of random weights.")
@click.option(
    "--foreign-size", type=click.IntRange(min=2), default=256, show_default=True, help="foreign."
)
@click.option(
    "--extracted",
    nargs=3,
    metavar="FEATURES SCORES START",
    show_default="the real ones, or made-up ones",
    help="tuning: files of Moses' extractor, and of weights as mert --ifile takes them.",
)
@click.option(
    "--extracted-test",
    nargs=2,
    metavar="FEATURES SCORES",
    help="tuning: those of another set, to try the weights on.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="tuning.")
@click.option("--starts", type=click.IntRange(min=0), default=20, show_default=True, help="tuning.")
@click.option("--no-moses", is_flag=True, help="tuning, search: not Moses' side.")
@click.option(
    "--scale",
    nargs=2,
    type=click.IntRange(min=2),
    default=(3000, 1000),
    show_default=True,
    metavar="SENTENCES HYPOTHESES",
    help="tuning_scale: how much is made of the --extracted lists.",
)
@click.option(
    "--translate",
    nargs=3,
    metavar="INI SOURCE REFERENCE",
    default=_default_translated,
    show_default="the real ones, or the example's",
    help="search, generation: a model (search), a text and its translation.",
)
@click.option(
    "--sentences",
    type=click.IntRange(min=2),
    default=150,
    show_default=True,
    help="search, generation: the first ones of the text.",
)
@click.option(
    "--cslm-sentences",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="search: of those, with a language model; a quarter of them without a buffer, too.",
)
@click.option("--cslm", metavar="DIR", help="search: its folder, instead of a quick one.")
@click.option("--joint", metavar="DIR", help="search: a joint model, beside the language model.")
@click.option(
    "--moses-bin", metavar="DIR", show_default="the PATH", help="search: where moses is, if it is."
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="DIR",
    show_default="random weights, of the first --sentence-preset",
    help="Folders of networks. generation: the first alone, and all as an ensemble. scoring: the "
    "first, an encoder-decoder.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write it there, too.")
def main(
    parts: tuple[str, ...],
    table: str,
    lines: int,
    threads: int,
    preset: str,
    overrides: tuple[str, ...],
    slice_lines: int,
    precisions: tuple[PrecisionName, ...],
    plain_bfloat16: bool,
    peak_seconds: float,
    training_lines: int | None,
    gpu_peak_size: int,
    turns: int,
    memory_lines: int | None,
    long_memory: bool,
    nbest: tuple[str, str],
    lists: int,
    sentence_presets: tuple[str, ...],
    cache_preset: str,
    cache_lists: int,
    ctranslate2: str | None,
    foreign_size: int,
    extracted: tuple[str, str, str] | None,
    extracted_test: tuple[str, str] | None,
    seeds: int,
    starts: int,
    no_moses: bool,
    scale: tuple[int, int],
    translate: tuple[str, str, str],
    sentences: int,
    cslm_sentences: int,
    cslm: str | None,
    joint: str | None,
    moses_bin: str | None,
    networks: tuple[str, ...],
    json_file: str | None,
) -> None:
    """Run the benchmarks: all, or the PARTS reading, scoring, training, memory, rescoring,
    caching, foreign, tuning, tuning_scale, search, generation and engines; gpu, if it is named.

    Figures are medians, with their range behind them.
    """
    from phrasescore.settings.config import Config
    from tests.benchmarks.machine import describe_machine

    config = Config.preset(preset).override(overrides)
    machine = describe_machine()
    for name, value in {**machine, "table": table, "preset": preset}.items():
        click.echo(f"{name}: {value}")
    if os.getloadavg()[0] > BUSY:
        # Threads that wait for one another lose most: the plain side's, and so the ratio is
        # better than it should be.
        click.echo("the machine is busy with something else: take no figure seriously", err=True)
    reports: list[Report] = []
    wanted = parts or [part for part in PARTS if part not in OPTIONAL_PARTS]
    for part in [part for part in PARTS if part in wanted]:
        click.echo(f"measuring {part} ...", err=True)
        match part:
            case "reading":
                report = _reading(table, lines)
            case "scoring":
                from tests.benchmarks.scoring import ScoringOptions, measure_scoring

                report = measure_scoring(
                    ScoringOptions(
                        table,
                        config,
                        lines,
                        slice_lines,
                        threads,
                        plain_bfloat16,
                        peak_seconds,
                        networks[0] if networks else None,
                        precisions,
                    )
                )
            case "training":
                from tests.benchmarks.training import TrainingOptions, measure_training

                report = measure_training(
                    TrainingOptions(table, config, training_lines, threads, turns)
                )
            case "rescoring":
                from tests.benchmarks.rescoring import RescoringOptions, measure_rescoring

                configs = [Config.preset(name) for name in sentence_presets]
                report = measure_rescoring(
                    RescoringOptions(*nbest, configs, lists, threads, turns=RESCORING_TURNS)
                )
            case "caching":
                from tests.benchmarks.caching import CachingOptions, measure_caching

                report = measure_caching(
                    CachingOptions(*nbest, Config.preset(cache_preset), cache_lists, threads)
                )
            case "foreign":
                from tests.benchmarks.foreign import ForeignOptions, measure_foreign

                report = measure_foreign(
                    ForeignOptions(
                        *(*nbest, ctranslate2, foreign_size, lists, threads),
                        turns=RESCORING_TURNS,
                    )
                )
            case "tuning":
                from tests.benchmarks.tuning import (
                    Extracted,
                    TuningOptions,
                    default_files,
                    measure_tuning,
                )

                files = Extracted(*extracted) if extracted else default_files(EXTRACTED)
                report = measure_tuning(
                    TuningOptions(
                        files, seeds, starts, threads, moses=not no_moses, test=extracted_test
                    )
                )
            case "tuning_scale":
                from tests.benchmarks.tuning import Extracted, default_files
                from tests.benchmarks.tuning_scale import ScaleOptions, measure_tuning_scale

                files = Extracted(*extracted) if extracted else default_files(EXTRACTED)
                report = measure_tuning_scale(ScaleOptions(files, *scale, starts, threads))
            case "search":
                from tests.benchmarks.search import SearchOptions, measure_search

                moses = None if no_moses else shutil.which("moses", path=moses_bin)
                report = measure_search(
                    SearchOptions(*translate, sentences, cslm_sentences, moses, cslm, joint)
                )
            case "generation":
                from tests.benchmarks.generation import GenerationOptions, measure_generation

                random = Config.preset(sentence_presets[0])
                report = measure_generation(
                    GenerationOptions(*translate[1:], sentences, networks, random, GENERATION_TURNS)
                )
            case "engines":
                from tests.benchmarks.engines import EngineOptions, measure_engines

                sizes = config if long_memory else Config.preset("small").override(overrides)
                report = measure_engines(
                    EngineOptions(table, config, lines, slice_lines, threads, sizes)
                )
            case "gpu":
                from tests.benchmarks.gpu import GpuOptions, measure_gpu

                report = measure_gpu(
                    GpuOptions(
                        *(table, config, lines, threads, GPU_TURNS, turns, training_lines),
                        peak_size=gpu_peak_size,
                    )
                )
            case _:
                sizes = config if long_memory else Config.preset("small").override(overrides)
                report = _memory(table, sizes, memory_lines or lines, threads)
        click.echo(f"\n{report.text()}")
        reports.append(report)
    if json_file is not None:
        found = {"machine": machine, "reports": [report.to_dict() for report in reports]}
        Path(json_file).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _reading(table: str, lines: int) -> Report:
    from tests.benchmarks.reading import ReadingOptions, measure_reading

    return measure_reading(ReadingOptions(table, lines))


def _memory(table: str, config: Config, lines: int, threads: int) -> Report:
    from tests.benchmarks.memory import MemoryOptions, measure_memory

    return measure_memory(MemoryOptions(table, config, lines, threads))


if __name__ == "__main__":
    # Started as a file, Python looks for modules in its folder and not in the repository.
    sys.path[0] = str(REPOSITORY)
    main()
