"""Measure speed and memory: ``make bench``, or this file with the parts to run.

Every speed is a ratio of two sides that take turns in one process, because absolute figures of a
shared machine are worth little. ``--table`` takes any phrase table; without it, the one of the real
task beside the checkout is taken, or else the shipped example's.
"""

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

REPOSITORY = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # Started as a file, Python looks for modules in its folder and not in the repository.
    sys.path[0] = str(REPOSITORY)

from phrasescore.settings.config import Config  # noqa: E402
from tests.benchmarks import tuning  # noqa: E402
from tests.benchmarks.machine import describe_machine  # noqa: E402
from tests.benchmarks.results import Report  # noqa: E402

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
    *("reading", "scoring", "training", "memory", "rescoring", "caching"),
    *("tuning", "tuning_scale", "search", "generation", "transformer", "engines", "gpu"),
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


_REAL = "the real one, or the example's"


def _count(name: str, default: int | None, text: str, *, least: int = 1) -> click.Option:
    kind = click.IntRange(min=least)
    return click.Option([f"--{name}"], type=kind, default=default, show_default=True, help=text)


def _files(
    names: str, words: str, default: Callable[[], object] | None, shown: str, text: str
) -> click.Option:
    return click.Option(
        names.split(),
        nargs=len(words.split()),
        metavar=words,
        default=default,
        show_default=shown,
        help=text,
    )


def _word(name: str, default: str | None, text: str, metavar: str | None = None) -> click.Option:
    return click.Option([f"--{name}"], default=default, help=text, metavar=metavar)


PARAMETERS: list[click.Parameter] = [
    click.Argument(["parts"], nargs=-1, type=click.Choice(PARTS), metavar="[PART]..."),
    click.Option(["--table"], default=_default_table, show_default=_REAL, help="A phrase table."),
    _count("lines", 200_000, "Lines of the table."),
    _count("threads", 2, "Threads, or workers, of each side."),
    _word("preset", "cho2014", "Sizes of the network."),
    click.Option(["--set", "overrides"], multiple=True, metavar="KEY=VALUE", help="of the preset"),
    _count("slice-lines", 65536, "scoring, engines: lines of a turn; annotate takes 16384 each."),
    click.Option(
        ["--precision", "precisions"],
        type=click.Choice(("bfloat16", "int8")),
        multiple=True,
        help="scoring: beside float32; default: what the processor has instructions for.",
    ),
    _count("training-lines", None, "training, gpu: lines to draw pairs from; default: all."),
    _count("gpu-peak-size", 8192, "gpu: rows and columns of the matrices that give the peak."),
    _count("turns", 36, "training, transformer, gpu: of five updates, of each side."),
    _count("memory-lines", None, "memory: of the smaller of the two runs; default: --lines."),
    click.Option(
        ["--long", "long_memory"],
        is_flag=True,
        help="memory: with the preset's sizes (many minutes), not those of small.",
    ),
    _files(
        "--nbest",
        "NBEST SOURCE",
        _default_lists,
        _REAL,
        "rescoring, transformer: lists and their source.",
    ),
    _count("lists", 20, "rescoring, transformer: lists of the file."),
    click.Option(
        ["--sentence-preset", "sentence_presets"],
        multiple=True,
        default=("lstm-small", "attention-small"),
        help="rescoring: sizes of a network, lstm or attention.",
    ),
    _word("cache-preset", "bahdanau2014", "caching: sizes of a network."),
    _count("cache-lists", 200, "caching: lists of the file."),
    _files(
        "--extracted",
        "FEATURES SCORES START",
        None,
        "the real ones, or made-up ones",
        "tuning: files of Moses' extractor, and of weights as mert --ifile takes them.",
    ),
    _files("--extracted-test", "FEATURES SCORES", None, "", "tuning: those of another set."),
    _count("seeds", 5, "tuning: runs of each side."),
    _count("starts", 20, "tuning: random starts.", least=0),
    click.Option(["--no-moses"], is_flag=True, help="tuning, search: not Moses' side."),
    click.Option(
        ["--scale"],
        nargs=2,
        type=click.IntRange(min=2),
        default=(3000, 1000),
        metavar="SENTENCES HYPOTHESES",
        help="tuning_scale: how much is made of the --extracted lists.",
    ),
    _files(
        "--translate",
        "INI SOURCE REFERENCE",
        _default_translated,
        _REAL,
        "search, generation, transformer: a model (search), a text and its translation.",
    ),
    _count("sentences", 150, "search, generation: the first ones of the text.", least=2),
    _count("cslm-sentences", 8, "search: of those, with a language model."),
    _word("cslm", None, "search: its folder, instead of a quick one.", "DIR"),
    _word("joint", None, "search: a joint model, beside the language model.", "DIR"),
    _word("moses-bin", None, "search: where moses is; default: the PATH.", "DIR"),
    click.Option(
        ["--network", "networks"],
        multiple=True,
        metavar="DIR",
        help="Folders of networks, instead of random weights. generation: the first alone, and all "
        "as an ensemble. scoring: the first, an encoder-decoder. transformer: the first.",
    ),
    _word("json", None, "Write the figures to this file, too."),
]


def _run(parts: tuple[str, ...], **values: Any) -> None:
    """Run the benchmarks: all but gpu, or the PARTS that are named.

    Figures are medians, with their range behind them.
    """
    given = SimpleNamespace(**values)
    config = Config.preset(given.preset).override(given.overrides)
    machine = describe_machine()
    for name, value in {**machine, "table": given.table, "preset": given.preset}.items():
        click.echo(f"{name}: {value}")
    if os.getloadavg()[0] > BUSY:
        # Threads that wait for one another lose most: the plain side's, and so the ratio is
        # better than it should be.
        click.echo("the machine is busy with something else: take no figure seriously", err=True)
    reports: list[Report] = []
    wanted = parts or [part for part in PARTS if part not in OPTIONAL_PARTS]
    for part in [part for part in PARTS if part in wanted]:
        click.echo(f"measuring {part} ...", err=True)
        report = _measure(part, given, config)
        click.echo(f"\n{report.text()}")
        reports.append(report)
    if given.json is not None:
        found = {"machine": machine, "reports": [report.to_dict() for report in reports]}
        Path(given.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _measure(part: str, given: SimpleNamespace, config: Config) -> Report:
    """Measure a part; its module is imported here alone, as some need what is not installed."""
    module = importlib.import_module(f"tests.benchmarks.{part}")
    measure: Callable[[Any], Report] = getattr(module, f"measure_{part}")
    table, lines, threads = given.table, given.lines, given.threads
    sizes = config if given.long_memory else Config.preset("small").override(given.overrides)
    options: Any
    match part:
        case "reading":
            options = module.ReadingOptions(table, lines)
        case "scoring":
            network = given.networks[0] if given.networks else None
            parts = (given.slice_lines, threads, network, given.precisions)
            options = module.ScoringOptions(table, config, lines, *parts)
        case "training":
            options = module.TrainingOptions(
                table, config, given.training_lines, threads, given.turns
            )
        case "memory":
            options = module.MemoryOptions(table, sizes, given.memory_lines or lines, threads)
        case "rescoring":
            configs = [Config.preset(name) for name in given.sentence_presets]
            options = module.RescoringOptions(
                *given.nbest, configs, given.lists, threads, turns=RESCORING_TURNS
            )
        case "caching":
            preset = Config.preset(given.cache_preset)
            options = module.CachingOptions(*given.nbest, preset, given.cache_lists, threads)
        case "tuning" | "tuning_scale":
            chosen = given.extracted
            files = tuning.Extracted(*chosen) if chosen else tuning.default_files(EXTRACTED)
            if part == "tuning":
                both = {"moses": not given.no_moses, "test": given.extracted_test}
                options = module.TuningOptions(files, given.seeds, given.starts, threads, **both)
            else:
                options = module.ScaleOptions(files, *given.scale, given.starts, threads)
        case "search":
            moses = None if given.no_moses else shutil.which("moses", path=given.moses_bin)
            counts = (given.sentences, given.cslm_sentences)
            options = module.SearchOptions(
                *given.translate, *counts, moses, given.cslm, given.joint
            )
        case "generation":
            random = Config.preset(given.sentence_presets[0])
            options = module.GenerationOptions(
                *given.translate[1:], given.sentences, given.networks, random, GENERATION_TURNS
            )
        case "transformer":
            model = given.networks[0] if given.networks else None
            sizes = Config.preset("transformer-small")
            texts = (*given.translate[1:], *given.nbest)
            options = module.TransformerOptions(
                *texts, given.lists, model, sizes, given.turns, RESCORING_TURNS
            )
        case "engines":
            options = module.EngineOptions(table, config, lines, given.slice_lines, threads)
        case _:
            turns = (GPU_TURNS, given.turns, given.training_lines)
            options = module.GpuOptions(
                table, config, lines, threads, *turns, peak_size=given.gpu_peak_size
            )
    return measure(options)


main = click.Command("run.py", params=PARAMETERS, callback=_run, help=_run.__doc__)

if __name__ == "__main__":
    main()
