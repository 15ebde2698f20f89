"""Plan the steps of an experiment's rows: networks, tables, tuning, translations."""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moses_integration.ini_text import named_files, path_problem
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.features.columns import Column, number_names
from phrasescore.features.model import network_name
from phrasescore.features.program import Command
from phrasescore.io.journal import digest_text
from phrasescore.io.resumable import work_files
from phrasescore.settings.compute import Compute
from phrasescore.settings.toml_file import unknown
from phrasescore.settings.training import RoundTuning
from phrasescore.systems.folder import INI, SYSTEM, write_system
from phrasescore.workflows.experiment import functions
from phrasescore.workflows.experiment.config import Experiment, TextSet, check_inputs
from phrasescore.workflows.experiment.functions import Parts, Run
from phrasescore.workflows.experiment.model_steps import (
    NetworkSteps,
    add_ngram_model,
    ngram_order,
)
from phrasescore.workflows.experiment.rows import Row
from phrasescore.workflows.experiment.steps import STATE, TABLE_FILES, FileNames, Step


@dataclass(frozen=True)
class Plan:
    """All steps of an experiment, in order."""

    steps: tuple[Step, ...]
    written: dict[Path, bytes]  # files that the experiment writes itself, before any step
    runs: tuple[Run, ...]  # ordered by replica, then by row
    names: FileNames

    def needed(self, rows: Collection[str]) -> list[Step]:
        """Return the steps that rows need, in order.

        :raises ArgumentError: if there is no such row.
        """
        for name in rows:
            if name not in (known := [run.row.name for run in self.runs]):
                raise ArgumentError(f"--rows: {unknown(f'row {name!r}', name, known)}")
        read = {run.folder for run in self.runs if run.row.name in rows}
        needed = []
        for step in reversed(self.steps):
            if any(path in read or path.parent in read for path in step.outputs):
                needed.append(step)
                read.update(step.inputs)
        return needed[::-1]

    def write_system(self, run: Run) -> None:
        """Write the system of a row that is tuned, with the names that its files have now."""
        write_system(run.parts.tuned(self.names.absolute), run.folder)
        if run.folder.parent != self.names.folder:  # remains of a run with a single replica
            (run.folder.parent / SYSTEM).unlink(missing_ok=True)


def build_plan(wanted: Experiment, folder: Path, *, is_checked: bool = False) -> Plan:
    """Return all steps, including finished ones, after checking the inputs unless it is done."""
    planner = _Planner(wanted, folder)
    if not is_checked:
        check_inputs(wanted, (planner.table, *planner.files))
    return planner.plan()


class _Planner:
    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted, self._folder, self._engine = wanted, folder, wanted.engine
        data = wanted.data
        start = data.paths_from or data.moses_ini
        ini = MosesIni.read(str(data.moses_ini), data.paths_from or start.parent)
        self.files = tuple(Path(os.path.normpath(path)) for path in named_files(ini))
        absolute = wanted.absolute
        if str(start) in absolute:
            absolute |= frozenset(map(str, self.files))
        self._names = FileNames(folder, absolute)
        feature = ini.find_phrase_table(None if data.table is None else str(data.table))
        if feature.path is None:
            raise ConfigError(str(data.moses_ini), f"[feature] {feature.name}", "expected a path=")
        self._table_feature, self._num_scores = feature.name, ini.num_scores(feature)
        self._old_table = _file(ini, feature.path)
        self.table = data.table or self._old_table
        texts = data.monolingual
        order = ngram_order(ini) if texts else 0
        ini.rename_files(lambda path: self._name(path, _file(ini, path)))
        ini.folder = str(folder)
        self._estimated = [add_ngram_model(ini, texts, order, folder)] if texts else []
        self._ini = ini
        self._written = {folder / INI: ini.to_bytes()}

    def _name(self, written: str, path: Path) -> str:
        """Return the name of a file in our moses.ini, given its name in the user's."""
        name = written if os.path.isabs(written) else self._names.of(path)
        return os.path.relpath(path, self._folder) if path_problem(name) else name

    def plan(self) -> Plan:
        rows = self._wanted.systems
        named = {name for row in rows for _, name in row.features()}
        models = [model for name, model in self._wanted.models.items() if name in named]
        runs = list(self._runs())
        # Rows without networks come first: errors in the texts are seen before training.
        plain = [run for run in runs if not run.row.features()]
        steps = [*self._estimated, *(step for run in plain for step in self._tuned(run))]
        feature = f"{self._table_feature}_{self._num_scores}"
        networks = NetworkSteps(self._wanted, self._folder, self.table, feature)
        steps += networks.of(models, runs[0])
        for row in rows:
            steps += self._annotate(row)
        for run in runs:
            steps += self._tuned(run) if run not in plain else ()
        # Rows and replicas share the steps of their inputs.
        unique: dict[str, Step] = {}
        for step in steps:
            unique.setdefault(step.name, step)
        steps = list(unique.values())
        return Plan(tuple(steps), self._written, tuple(runs), self._names)

    def _runs(self) -> Iterator[Run]:
        rows, seeds = self._wanted.systems, self._wanted.tuning.seeds
        clean = (re.sub(r"[^\w.+-]", "_", row.name).lstrip(".") or "_" for row in rows)
        files = (INI, STATE, *TABLE_FILES)
        names = unique_names((*files, *clean))[len(files) :]
        common = [
            (row, parts, self._inputs(row, parts))
            for row, parts in zip(rows, map(self._parts, rows), strict=True)
        ]
        for seed in seeds:
            runs: list[Run] = []
            for name, (row, parts, inputs) in zip(names, common, strict=True):
                folder = self._folder / name / (f"seed{seed}" if len(seeds) > 1 else "")
                earlier = (each for each in runs if each.row.features() <= row.features())
                own = replace(parts, folder=folder)
                runs.append(Run(row, seed, own, inputs, tuple(earlier)))
            yield from runs

    def _parts(self, row: Row) -> Parts:
        engine, table = self._engine, self._table_of(row.columns)
        ini = self._folder / INI
        if table is not None:
            ini = table.with_name(INI)
            self._written[ini] = self._ini_with_columns(table, len(row.columns))
        columns = (
            replace(column, name=f"{self._table_feature}_{place}")
            for place, column in enumerate(self._columns(row.columns), self._num_scores)
        )
        wanted = self._wanted
        prefixes = [
            network_name(model.kind, **model.directions)
            if (model := wanted.models.get(name)) is not None
            else wanted.column(name, self._folder).label
            for name in (*row.search, *row.lists)
        ]
        return Parts(
            folder=self._folder,
            moses_ini=ini,
            search=self._columns(wanted.in_search(row)),
            lists=self._columns(wanted.in_lists(row)),
            names=tuple(number_names(prefixes)),
            columns=tuple(columns),
            nbest_size=row.nbest_size or engine.nbest_size,
            limits=engine.search,
            moses_bin=engine.moses_bin if engine.decoder == "moses" else None,
            text=wanted.text,
        )

    def _columns(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(self._wanted.column(name, self._folder) for name in names)

    def _inputs(self, row: Row, parts: Parts) -> tuple[Path, ...]:
        files: tuple[Path | None, ...] = self.files
        if row.columns:
            others = (path for path in self.files if path != self._old_table)
            files = (self._table_of(row.columns), *others)
        read = _read_by((*parts.search, *parts.lists))
        program = None if parts.moses_bin is None else parts.moses_bin / "moses"
        estimated = (path for step in self._estimated for path in step.outputs)
        return (parts.moses_ini, *filter(None, (*files, *estimated, *read, program)))

    def _table_of(self, columns: tuple[str, ...]) -> Path | None:
        """Return the path of a table with columns; None without columns."""
        return (
            self._folder / "tables" / _folder_name(columns) / "phrase-table.gz" if columns else None
        )

    def _annotate(self, row: Row) -> Iterator[Step]:
        """Yield the step that writes a row's table, if it has columns."""
        if (table := self._table_of(row.columns)) is not None:
            columns = self._columns(row.columns)
            settings = {
                "table": self.table,
                "columns": columns,
                "output": table,
                "compute": Compute(threads=self._engine.threads),
            }
            yield Step(
                f"annotate {'+'.join(row.columns)}",
                "annotate",
                settings,
                (self.table, *_read_by(columns)),
                (table,),
                tuple(map(Path, work_files(str(table)))),
            )

    def _ini_with_columns(self, table: Path, count: int) -> bytes:
        ini = MosesIni(str(self._folder / INI), self._ini.to_bytes(), self._folder)
        old = None if self._wanted.data.table is None else str(self._wanted.data.table)
        ini.add_scores(count, os.path.relpath(table, self._folder), old_table_path=old)
        ini.move(table.parent)
        return ini.to_bytes()

    def _tuned(self, run: Run) -> list[Step]:
        """Return the steps that tune a row, and translate and measure the test sets."""
        tests, program = self._wanted.data.tests, self._wanted.program
        measured = [] if program is None else [self._measure(run, text, program) for text in tests]
        return [self._tune(run), *(self._translate(run, text) for text in tests), *measured]

    def _tune(self, run: Run) -> Step:
        engine, dev, row = self._engine, self._wanted.data.dev, run.row
        tuning = self._wanted.tuning
        settings = {
            "parts": run.parts,
            "source": dev.source,
            "references": dev.references,
            "translations": run.output(dev),
            "earlier": tuple(each.parts for each in run.earlier),
            "settings": RoundTuning(
                method=tuning.method,
                metric=tuning.metric,
                seed=run.seed,
                iterations=row.iterations or engine.iterations,
                patience=row.patience or engine.patience,
            ),
            "compute": self._engine.compute,
        }
        before = [path for each in run.earlier for path in (each.weights, each.report)]
        return Step(
            f"tune {row.name} seed {run.seed}",
            "tune",
            settings,
            (*run.inputs, dev.source, *dev.references, *before),
            (run.weights, run.report, run.output(dev)),
            (run.folder / functions.WORK,),
        )

    def _translate(self, run: Run, text: TextSet) -> Step:
        output = run.output(text)
        settings: dict[str, Any] = {
            "parts": run.parts,
            "source": text.source,
            "output": output,
            "compute": self._engine.compute,
        }
        if text.raw:
            settings["restored"] = run.restored(text)
        return Step(
            f"translate {text.name} {run.row.name} seed {run.seed}",
            "translate",
            settings,
            (*run.inputs, text.source, run.weights),
            tuple(dict.fromkeys((output, run.restored(text)))),
        )

    def _measure(self, run: Run, text: TextSet, program: Command) -> Step:
        source, *references = text.raw or (text.source, *text.references)
        files = {
            "source": source,
            "translations": run.restored(text),
            "references": tuple(references),
        }
        return Step(
            f"measure {text.name} {run.row.name} seed {run.seed}",
            "measure",
            {"program": program, **files, "output": run.scores(text)},
            (*_read_by((program,)), source, run.restored(text), *references),
            (run.scores(text),),
        )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names, with underscores appended to repeated names."""
    unique: list[str] = []
    for name in names:
        while name in unique:
            name += "_"
        unique.append(name)
    return unique


def _read_by(columns: Iterable[Column]) -> tuple[Path, ...]:
    """Return the files and folders that columns depend on."""
    paths = (path for column in columns for path in column.inputs())
    return tuple(map(Path, dict.fromkeys(paths)))


def _file(ini: MosesIni, path: str) -> Path:
    return Path(os.path.normpath(ini.resolve(path)))


def _folder_name(names: tuple[str, ...]) -> str:
    """Return the name of a folder for columns, whose own names may have slashes."""
    name = "+".join(names)
    clean = re.sub(r"[^\w.+-]", "_", name)
    return name if clean == name else f"{clean[:40]}-{digest_text(name)[:8]}"
