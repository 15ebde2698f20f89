"""Measure speed and memory: ``make bench``, or this file with the parts to run.

Every speed is a ratio of two sides that take turns in one process, because absolute figures of a
shared machine are worth little. ``--table`` takes any phrase table; without it, the one of the real
task beside the checkout is taken, or else the shipped example's.
"""

import importlib
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Sequence
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
from tests.benchmarks.commands import find_tool  # noqa: E402
from tests.benchmarks.machine import describe_machine  # noqa: E402
from tests.benchmarks.results import Book, Report  # noqa: E402

TABLES = (
    REPOSITORY.parent / "shared" / "data" / "phrase-table.gz",
    REPOSITORY / "examples" / "english-french" / "phrase-table.gz",
)
RESCORING_TURNS = 3
GENERATION_TURNS = 2
GPU_TURNS = 3
ORDER = 4  # of n-gram models
# Processes that run or want to, on average over the last minute.
BUSY = 0.5
PARTS = (
    *("scoring", "training", "memory", "rescoring", "caching", "transformer", "marian"),
    *("tuning", "tuning_scale", "search", "generation", "building", "language_models"),
    *("evaluation", "versions", "reading", "engines", "gpu"),
)
# Not without being asked for.
OPTIONAL_PARTS = ("versions", "reading", "engines", "gpu")
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
# Parallel text and its word alignment: the real task's, or the shipped example's.
BITEXT = (
    ("train.en", "train.fr", "aligned.grow-diag-final-and"),
    ("train.en.gz", "train.fr.gz", "train.align.gz"),
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


def _first(names: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    folders = [path.parent for path in TABLES]
    choices = [
        tuple(str(folder / name) for name in each)
        for folder, each in zip(folders, names, strict=True)
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
    _count("lines", 98_304, "Lines of the table."),
    _count("threads", 2, "Threads, or workers, of each side."),
    _word("preset", "cho2014", "Sizes of the network."),
    click.Option(["--set", "overrides"], multiple=True, metavar="KEY=VALUE", help="of the preset"),
    _count("slice-lines", 32_768, "scoring, engines: lines of a turn; annotate takes 16384 each."),
    click.Option(
        ["--precision", "precisions"],
        type=click.Choice(("bfloat16", "int8")),
        multiple=True,
        help="scoring: beside float32; default: what the processor has instructions for.",
    ),
    _count("training-lines", 200_000, "training, gpu: lines to draw pairs from."),
    _count("gpu-peak-size", 8192, "gpu: rows and columns of the matrices that give the peak."),
    _count("turns", 12, "training, transformer, gpu: of five updates, of each side."),
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
    _count("lists", 12, "rescoring, transformer, marian: lists of the file."),
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
    _count("tuning-lists", 250, "tuning: the first lists of the files."),
    _count("seeds", 1, "tuning: runs of each side."),
    _count("starts", 20, "tuning: random starts.", least=0),
    click.Option(["--no-moses"], is_flag=True, help="Without Moses and KenLM."),
    click.Option(
        ["--scale"],
        nargs=2,
        type=click.IntRange(min=2),
        default=(1000, 500),
        metavar="SENTENCES HYPOTHESES",
        help="tuning_scale: how much is made of the --extracted lists.",
    ),
    _files(
        "--translate",
        "INI SOURCE REFERENCE",
        lambda: _first(TRANSLATED),
        _REAL,
        "search, generation, transformer: a model (search), a text and its translation.",
    ),
    _count("sentences", 100, "search, generation: the first ones of the text.", least=2),
    _count("cslm-sentences", 8, "search: of those, with a language model."),
    _word("cslm", None, "search: its folder, instead of a quick one.", "DIR"),
    _word("joint", None, "search: a joint model, beside the language model.", "DIR"),
    _word("moses-bin", None, "Moses' and KenLM's programs; default: the PATH.", "DIR"),
    _files(
        "--bitext",
        "SOURCE TARGET ALIGNMENT",
        lambda: _first(BITEXT),
        _REAL,
        "building, language_models: parallel text and its word alignment.",
    ),
    _count("pairs", None, "building: the first sentence pairs; default: all."),
    _count("repeats", 2, "Runs of each command: building, language_models, and so on."),
    _word("old", None, "versions: another version of this repository.", "CHECKOUT"),
    _count("updates", 20, "versions: of training."),
    _count("version-lists", 85, "versions: lists of the file."),
    _count("minutes", 11, "versions: after which no command begins."),
    click.Option(["--only"], multiple=True, metavar="COMMAND", help="versions: only this one."),
    click.Option(
        ["--network", "networks"],
        multiple=True,
        metavar="DIR",
        help="Folders of networks, instead of random weights. generation: the first alone, and all "
        "as an ensemble. scoring: the first, an encoder-decoder. transformer: the first.",
    ),
    _word("json", None, "Add the figures to this file, and write a table beside it.", "FILE"),
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
    book = Book(Path(given.json) if given.json else None, machine)
    wanted = parts or [part for part in PARTS if part not in OPTIONAL_PARTS]
    failed = []
    for part in [part for part in PARTS if part in wanted]:
        click.echo(f"{time.strftime('%H:%M:%S')} measuring {part} ...", err=True)
        start = time.perf_counter()
        try:
            report = _measure(part, given, config)
        except Exception:  # the other parts are worth having
            traceback.print_exc()
            failed.append(part)
            continue
        # Paths are from the checkout.
        what = report.what.replace(f"{REPOSITORY}/", "").replace(f"{REPOSITORY.parent}/", "../")
        report = report._replace(what=what)
        click.echo(f"\n{report.text()}")
        book.add(
            report,
            command=_command(part, parts),
            seconds=round(time.perf_counter() - start),
            load=machine["load before (1, 5, 15 minutes)"],
        )
    click.echo(f"{time.strftime('%H:%M:%S')} finished", err=True)
    if failed:
        raise click.ClickException(f"these parts failed: {', '.join(failed)}")


def _command(part: str, parts: Sequence[str]) -> str:
    """Return the command that repeats a part, without what is only for this machine."""
    words = [word for word in sys.argv[1:] if word not in parts]
    for option in ("--json", "--moses-bin", "--old"):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    return shlex.join(["python", "tests/benchmarks/run.py", part, *words])


def _measure(part: str, given: SimpleNamespace, config: Config) -> Report:
    """Measure a part; its module is imported here alone, as some need what is not installed."""
    module = importlib.import_module(f"tests.benchmarks.{part}")
    measure: Callable[[Any], Report] = getattr(module, f"measure_{part}")
    table, lines, threads = given.table, given.lines, given.threads
    sizes = config if given.long_memory else Config.preset("small").override(given.overrides)
    moses = "" if given.no_moses else given.moses_bin  # the empty path has no programs
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
                programs = (find_tool("mert", moses), find_tool("kbmira", moses))
                more = (*programs, given.tuning_lists, given.extracted_test)
                options = module.TuningOptions(files, given.seeds, given.starts, 1, *more)
            else:
                options = module.ScaleOptions(files, *given.scale, given.starts, threads)
        case "search":
            counts = (given.sentences, given.cslm_sentences)
            program = find_tool("moses", moses)
            options = module.SearchOptions(
                *given.translate, *counts, program, given.cslm, given.joint
            )
        case "generation":
            random = Config.preset(given.sentence_presets[0])
            options = module.GenerationOptions(
                *given.translate[1:], given.sentences, given.networks, random, GENERATION_TURNS
            )
        case "transformer" | "marian":
            model = given.networks[0] if given.networks else None
            sizes = Config.preset("transformer-small")
            texts = (*given.translate[1:], *given.nbest)
            repeats = given.repeats if part == "marian" else RESCORING_TURNS
            options = module.TransformerOptions(
                *texts, given.lists, model, sizes, given.turns, repeats
            )
        case "building":
            lm = os.path.join(os.path.dirname(given.translate[0]), "lm.fr.arpa.gz")
            options = module.BuildingOptions(
                *given.bitext, lm, given.pairs, threads, given.repeats, moses
            )
        case "language_models":
            options = module.LanguageModelOptions(given.bitext[1], ORDER, given.repeats, moses)
        case "evaluation":
            reference = str(Path(given.nbest[1]).with_suffix(".fr"))
            options = module.EvaluationOptions(given.nbest[0], reference, given.repeats)
        case "versions":
            if given.old is None:
                raise click.UsageError("versions needs --old")
            limits = (given.version_lists, given.updates, given.repeats, given.minutes)
            options = module.VersionOptions(given.old, *given.nbest, *limits, given.only)
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
