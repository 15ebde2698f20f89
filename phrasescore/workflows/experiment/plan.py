"""From the wanted rows to the steps that make them: networks, tables, weights, translations."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from moses_integration.ini_text import named_files, with_paths_from
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import write_weights
from phrasescore.errors import ConfigError
from phrasescore.features import column_name
from phrasescore.io.resumable import work_files
from phrasescore.report.tuning import read_tune_report
from phrasescore.workflows.experiment.checks import check_inputs
from phrasescore.workflows.experiment.config import PREVIOUS, Experiment, TextSet
from phrasescore.workflows.experiment.runs import Run
from phrasescore.workflows.experiment.start_weights import (
    Layout,
    TunedRow,
    network_names,
    start_weights,
)
from phrasescore.workflows.experiment.steps import Step
from phrasescore.workflows.experiment.systems import (
    CSLM,
    FILE_FEATURES,
    TABLE_KIND,
    ModelPlan,
    System,
)
from phrasescore.workflows.search_settings import SearchSettings, moses_limits

MOSES_INI = "moses.ini"


@dataclass(frozen=True)
class Plan:
    """All steps in their order."""

    steps: tuple[Step, ...]
    # Files that the experiment writes itself, before any step.
    written: dict[Path, bytes]
    # By replica and then by row.
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def build_plan(wanted: Experiment, folder: Path, *, only_shown: bool = False) -> Plan:
    """Return all steps, whether they are done already or not.

    :param folder: where everything goes; absolute.
    :param only_shown: nothing will run: models may still be in training.
    :raises PhrasescoreError: if a file that the user names is missing or wrong.
    """
    planner = _Planner(wanted, folder)
    check_inputs(wanted, planner.model_files, only_shown=only_shown)
    return planner.plan()


class _Planner:
    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        ini = MosesIni.read(str(wanted.data.moses_ini))
        with_paths_from(ini, wanted.data.paths_from or wanted.data.moses_ini.parent)
        self._base = folder / MOSES_INI
        self._written = {self._base: ini.to_bytes()}
        table_path = None if wanted.data.table is None else str(wanted.data.table)
        self._table_feature = ini.find_phrase_table(None, table_path)
        if self._table_feature.path is None:
            name = self._table_feature.name
            raise ConfigError(str(wanted.data.moses_ini), f"[feature] {name}", "expected a path=")
        self._table = wanted.data.table or Path(self._table_feature.path)
        self._files = named_files(ini)
        self._engine = wanted.engine

    @property
    def model_files(self) -> tuple[Path, ...]:
        """The phrase table, and the files that moses.ini names."""
        return (self._table, *self._files)

    def plan(self) -> Plan:
        named = {name for system in self._wanted.systems for _, name in system.features()}
        models = [model for name, model in self._wanted.models.items() if name in named]
        runs = self._runs()
        # Rows without networks come first: errors in the texts are seen before training.
        plain = [run for run in runs if not run.system.features()]
        steps = [step for run in plain for step in self._tune_and_decode(run)]
        steps += [self._train(model) for model in models if model.path is None]
        steps += self._annotate()
        for run in runs:
            steps += self._tune_and_decode(run) if run not in plain else ()
        return Plan(tuple(steps), self._written, tuple(runs), tuple(self._notes()))

    # Networks and tables

    def _model_folder(self, name: str) -> Path:
        return self._wanted.models[name].path or self._folder / "models" / name

    def _columns(self, names: tuple[str, ...], start: str = "-") -> Iterator[object]:
        """Yield the options that add the features of networks and others.

        :param start: of an option, for `tune` "--rescore".
        """
        for name in names:
            if name in self._wanted.models:
                yield from ("--model" if start == "-" else start, self._model_folder(name))
            elif name in FILE_FEATURES:
                option = f"{start}-{name.replace('_', '-')}"
                yield from (option, self._wanted.data.feature_files[name])
            else:
                yield from (f"{start}-feature", name)

    def _cslm(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return how the language models of a row score: with which n-gram model, without log Z."""
        models = [self._wanted.models[name] for name in names if name in self._wanted.models]
        backoff = next((model.backoff_lm for model in models if model.backoff_lm), None)
        return {"backoff_lm": backoff, "unnormalized": any(each.unnormalized for each in models)}

    def _inputs(self, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the files and folders that networks and other features depend on."""
        models, files = self._wanted.models, self._wanted.data.feature_files
        found = [self._model_folder(name) for name in names if name in models]
        found += [path for name in names if (path := files.get(name)) is not None]
        backoff = {path for name in names if name in models and (path := models[name].backoff_lm)}
        return (*found, *sorted(backoff))

    def _train(self, model: ModelPlan) -> Step:
        if model.kind == TABLE_KIND:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if self._wanted.data.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError("the experiment", "[data] train", problem)
            inputs = self._wanted.data.train[1:] if model.kind == CSLM else self._wanted.data.train
        output = self._model_folder(model.name)
        command = _command(
            *("train", model.kind, *inputs, "-o", output),
            *_options(preset=model.preset, reverse=model.reverse),
            *_options(right_to_left=model.right_to_left, **model.limits),
            *_options(set=model.settings, threads=model.threads or self._engine.threads),
        )
        work = output.with_name(f"{output.name}.work")
        return Step(f"train {model.name}", command, inputs, (output,), (work,))

    def _annotate(self) -> Iterator[Step]:
        """Yield the steps that annotate, one for each different choice of columns."""
        for names in dict.fromkeys(system.columns for system in self._wanted.systems):
            if not names:
                continue
            table, ini = self._table_of(names), self._ini_of(names)
            command = _command(
                *("annotate", self._table, *self._columns(names), "-o", table),
                *_options(moses_ini=self._base, moses_ini_out=ini, threads=self._engine.threads),
            )
            inputs = (self._table, self._base, *self._inputs(names))
            partial_files = tuple(map(Path, work_files(str(table))))
            yield Step(f"annotate {'+'.join(names)}", command, inputs, (table, ini), partial_files)

    def _table_of(self, columns: tuple[str, ...]) -> Path:
        return self._folder / "tables" / "+".join(columns) / "phrase-table.gz"

    def _ini_of(self, columns: tuple[str, ...]) -> Path:
        if not columns:
            return self._base
        return self._folder / "tables" / "+".join(columns) / MOSES_INI

    def _files_of(self, columns: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the files that a moses.ini names."""
        if not columns:
            return self._files
        old = Path(self._table_feature.path or "")
        return (self._table_of(columns), *(path for path in self._files if path != old))

    # Weights and translations

    def _runs(self) -> list[Run]:
        runs = []
        folders = _folder_names([system.name for system in self._wanted.systems])
        for seed in self._wanted.tuning.seeds:
            earlier: list[Run] = []
            for system in self._wanted.systems:
                run = Run(
                    system,
                    seed,
                    self._folder / "systems" / folders[system.name] / f"seed{seed}",
                    self._ini_of(system.columns),
                    self._files_of(system.columns),
                    tuple(each for each in earlier if each.system.features() <= system.features()),
                    self._added(system),
                )
                earlier.append(run)
                runs.append(run)
        return runs

    def _starts(self, run: Run) -> tuple[Run, ...]:
        """Return the runs of which the best on dev has the weights that tuning starts from."""
        return run.parts if self._wanted.tuning.start == PREVIOUS else ()

    def _added(self, system: System) -> dict[str, str]:
        """Return the features of a row beyond moses.ini, by the labels of a tuning report."""
        layout = self._layout(system)
        found = {f"{name}_0": model for model, name in layout.extra.items()}
        for place, column in enumerate(layout.columns, layout.num_scores):
            found[f"{layout.table}_{place}"] = column
        return found

    def _in_search(self, system: System) -> tuple[str, ...]:
        return system.search if self._engine.decoder == "embedded" else ()

    def _in_lists(self, system: System) -> tuple[str, ...]:
        """Return the features of n-best lists; with Moses, the networks of the search as well."""
        return (*(() if self._in_search(system) else system.search), *system.rescore)

    def _search(self, run: Run) -> Iterator[str]:
        """Yield the options of ``phrasescore decode`` for the search of a row."""
        engine, names = self._engine, self._in_search(run.system)
        for name in names:
            yield from ("--feature", CSLM, "--model", str(self._model_folder(name)))
        threads = engine.threads if names else None
        yield from _options(**self._cslm(names), threads=threads, processes=engine.processes)
        yield from _limits(engine.settings)

    def _decoder(self) -> str:
        """Return the decoder in the rounds of tuning."""
        engine = self._engine
        if engine.moses_bin is None or engine.decoder != "moses":
            return "embedded"
        command = [str(engine.moses_bin / "moses"), "-threads", str(engine.processes or "all")]
        for name, value in moses_limits(engine.settings).items():
            command += [f"-{name}", value]
        return shlex.join(command)

    def _decode_inputs(self, run: Run) -> tuple[Path, ...]:
        models = self._inputs(self._in_search(run.system))
        binary = () if self._engine.moses_bin is None else (self._engine.moses_bin / "moses",)
        return (run.ini, *run.model_files, *models, *binary)

    def _tune_and_decode(self, run: Run) -> Iterator[Step]:
        yield self._tune(run)
        for text in self._wanted.data.tests:
            if self._in_lists(run.system):
                yield from self._decode_and_rerank(run, text)
            else:
                yield self._decode(run, text, run.output(text), None)

    def _tune(self, run: Run) -> Step:
        engine, dev, own = self._engine, self._wanted.data.dev, run.system
        start, work = run.folder / "start", run.folder / "tuning"
        names = self._in_lists(run.system)
        flags = shlex.join(self._search(run)) if engine.decoder == "embedded" else ""
        command = _command(
            *("tune", "--decoder", self._decoder()),
            *_options(decoder_flags=flags or None, config=run.ini, source=dev.source),
            *_options(references=dev.references, weights=start, working_dir=work),
            *_options(method=self._wanted.tuning.method, seed=run.seed),
            *_options(nbest_size=own.nbest_size or engine.nbest_size),
            *_options(iterations=own.iterations or engine.iterations),
            *_options(patience=own.patience or engine.patience, threads=engine.threads),
            *self._columns(names, "--rescore"),
            *_options(**self._cslm(names), translations=run.output(dev)),
            *("-o", run.weights, "--report", run.report, "--format", "json"),
        )
        before = [path for each in self._starts(run) for path in (each.weights, each.report)]
        inputs = (*self._decode_inputs(run), dev.source, *dev.references)
        return Step(
            _step_name("tune", "", run),
            command,
            (*inputs, *self._inputs(names), *before),
            (run.weights, run.report, run.output(dev)),
            (work,),
            partial(self._write_start, run, start),
        )

    def _decode(self, run: Run, text: TextSet, output: Path, nbest: Path | None) -> Step:
        engine = self._engine
        size = run.system.nbest_size or engine.nbest_size
        moses = ("--decoder", "moses", "--moses-bin", engine.moses_bin)
        command = _command(
            *("decode", text.source, "--config", run.ini),
            *(moses if engine.decoder == "moses" else ()),
            *(*self._search(run), "--weights", run.weights),
            *(() if nbest is None else ("--nbest", nbest, size, "--distinct")),
            *("-o", output),
        )
        inputs = (*self._decode_inputs(run), text.source, run.weights)
        outputs = (output,) if nbest is None else (output, nbest)
        return Step(_step_name("decode", text.name, run), command, inputs, outputs)

    def _decode_and_rerank(self, run: Run, text: TextSet) -> Iterator[Step]:
        """Yield the steps of a row whose networks score n-best lists."""
        lists, rescored = (run.folder / f"{text.name}.{end}" for end in ("nbest.gz", "rescored.gz"))
        yield self._decode(run, text, run.folder / f"{text.name}.decoded", lists)
        names = self._in_lists(run.system)
        command = _command(
            *("rescore", lists, "--source", text.source, *self._columns(names)),
            *_options(**self._cslm(names), threads=self._engine.threads),
            *("-o", rescored),
        )
        inputs = (lists, text.source, *self._inputs(names))
        yield Step(_step_name("rescore", text.name, run), command, inputs, (rescored,))
        output = run.output(text)
        rerank = _command("rerank", rescored, "--weights", run.weights, "-o", output)
        inputs = (rescored, run.weights)
        yield Step(_step_name("rerank", text.name, run), rerank, inputs, (output,))

    def _write_start(self, run: Run, path: Path) -> None:
        """Write the weights that tuning starts from."""
        before = None
        if starts := self._starts(run):
            # Of equally good ones the richest, and of these the latest.
            best = max(
                reversed(starts),
                key=lambda each: (
                    read_tune_report(each.report).reached,
                    len(each.system.features()),
                ),
            )
            before = TunedRow(str(best.weights), self._layout(best.system))
        ini = MosesIni.read(str(run.ini))
        write_weights(str(path), start_weights(ini, self._layout(run.system), before))

    def _layout(self, system: System) -> Layout:
        models = self._wanted.models
        names = (*self._in_search(system), *self._in_lists(system))
        extra = network_names({name: models[name] for name in names if name in models})
        for name in names:
            if name not in models:
                kind = next((kind for kind in FILE_FEATURES if kind == name), "feature")
                extra[name] = f"{column_name(kind, name)}0"
        of_lists = frozenset(extra[name] for name in self._in_lists(system))
        own = self._table_feature.num_features
        return Layout(self._table_feature.name, own, system.columns, extra, of_lists)

    def _notes(self) -> Iterator[str]:
        engine = self._engine
        name = "Moses" if engine.decoder == "moses" else "the embedded search"
        limits = " ".join(_limits(engine.settings))
        yield f"Decoded by {name}{f' ({limits})' if limits else ''}."
        tuning = self._wanted.tuning
        yield (
            f"Weights of each row tuned on dev by {tuning.method}, seeds "
            f"{', '.join(map(str, tuning.seeds))}; lists of {engine.nbest_size}, "
            f"{engine.iterations} rounds at most."
        )
        if tuning.start == PREVIOUS and len(self._wanted.systems) > 1:
            yield (
                "A row's tuning starts from the weights of the best earlier row on dev whose "
                "features it has."
            )
        if engine.decoder == "moses" and any(system.search for system in self._wanted.systems):
            yield "CSLM scores Moses' n-best lists: Moses' search does not know it."


def _command(*words: object) -> tuple[str, ...]:
    """Return a command of phrasescore, of words and paths."""
    return ("phrasescore", *map(str, words))


def _options(**options: Any) -> Iterator[str]:
    """Yield options of the command line: None and False have none, a tuple has one per value."""
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        elif value is not None and value is not False:
            for each in value if isinstance(value, tuple) else (value,):
                yield from (flag, str(each))


def _limits(search: SearchSettings) -> Iterator[str]:
    """Yield the limits of the search as options of ``phrasescore decode``."""
    is_usual = search.buffer_size == SearchSettings().buffer_size
    limits = {**search.limits(), "buffer_size": None if is_usual else search.buffer_size}
    return _options(**limits)


def _step_name(verb: str, text: str, run: Run) -> str:
    return f"{verb} {text} {run.system.name} seed {run.seed}".replace("  ", " ")


def _folder_names(names: list[str]) -> dict[str, str]:
    """Return a name of a folder for each row, all different."""
    found: dict[str, str] = {}
    for name in names:
        folder = re.sub(r"[^\w.+-]", "_", name).lstrip(".") or "_"
        while folder in found.values():
            folder += "_"
        found[name] = folder
    return found
