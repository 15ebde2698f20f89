"""Plan the steps of an experiment's rows: networks, tables, tuning, translations."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from moses_integration.ini_text import named_files, path_problem
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.features.columns import Column, load_kind, number_names
from phrasescore.features.model import Network, network_name
from phrasescore.features.named import NamedFeature
from phrasescore.io.journal import digest_text
from phrasescore.io.resumable import work_files
from phrasescore.report.tuning import TuneReport
from phrasescore.settings.compute import Compute
from phrasescore.settings.toml_file import unknown
from phrasescore.settings.training import ListTraining, NewNetwork
from phrasescore.settings.tuning import RoundTuning
from phrasescore.systems.folder import INI, WEIGHTS, write_system
from phrasescore.workflows.experiment import functions
from phrasescore.workflows.experiment.config import Experiment, TextSet, check_inputs
from phrasescore.workflows.experiment.functions import EarlierRow, Layout, Parts
from phrasescore.workflows.experiment.rows import FILE_FEATURES, ModelPlan, Row, XbleuPlan
from phrasescore.workflows.experiment.steps import STATE, TABLE_FILES, FileNames, Step

_NOTHING = 1e-3  # a feature with a smaller share, from 0 to 1, hardly changes any model score


@dataclass(frozen=True)
class Run:
    """A row of the table, with weights tuned with one seed."""

    row: Row
    seed: int
    folder: Path
    parts: Parts
    layout: Layout
    inputs: tuple[Path, ...]  # everything that its translations depend on, except the weights
    earlier: tuple["Run", ...] = ()  # runs of rows with the same seed and a subset of features

    @property
    def weights(self) -> Path:
        """The path of the tuned weights."""
        return self.folder / WEIGHTS

    @property
    def report(self) -> Path:
        """The path of the tuning report, as JSON."""
        return self.folder / functions.REPORT

    @property
    def added(self) -> dict[str, str]:
        """The features that the row adds to moses.ini, by their labels in tuning reports."""
        layout = self.layout
        columns = enumerate(layout.columns, layout.num_scores)
        return {f"{name}_0": model for model, name in layout.extra.items()} | {
            f"{layout.table}_{place}": column for place, column in columns
        }

    def output(self, text: TextSet) -> Path:
        """Return the path of a text's translation."""
        return self.folder / f"{text.name}.out"

    def remarks(self, report: TuneReport) -> Iterator[str]:
        """Yield remarks for readers of the table, based on the tuning report."""
        idle = [
            self.added[row.name]
            for row in report.features
            if row.name in self.added and row.share is not None and row.share < _NOTHING
        ]
        if idle:
            yield f"tuning found no use for {', '.join(idle)} (weight 0, or nearly)"
        yield from report.warnings


@dataclass(frozen=True)
class Plan:
    """All steps of an experiment, in order."""

    steps: tuple[Step, ...]
    written: dict[Path, bytes]  # files that the experiment writes itself, before any step
    runs: tuple[Run, ...]  # ordered by replica, then by row
    names: FileNames
    notes: tuple[str, ...] = ()
    links: dict[Path, Path] = field(default_factory=dict)  # our links to the user's folders

    def make_links(self) -> None:
        """Make the links, unless they exist."""
        for folder, link in self.links.items():
            if not link.is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.relpath(folder, link.parent))

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
        write_system(run.parts.tuned(run.folder, self.names.absolute), run.folder)


def build_plan(
    wanted: Experiment, folder: Path, *, only_shown: bool = False, is_checked: bool = False
) -> Plan:
    """Return all steps, including finished ones.

    :param only_shown: whether models may be in training.
    :param is_checked: whether the inputs have been checked.
    """
    planner = _Planner(wanted, folder)
    if not is_checked:
        check_inputs(wanted, planner.model_files, only_shown=only_shown)
    return planner.plan()


class _Planner:
    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted, self._folder, self._engine = wanted, folder, wanted.engine
        data = wanted.data
        start = data.paths_from or data.moses_ini
        ini = MosesIni.read(str(data.moses_ini), data.paths_from or start.parent)
        self._files = tuple(Path(os.path.normpath(path)) for path in named_files(ini))
        absolute = wanted.absolute
        if str(start) in absolute:
            absolute |= frozenset(map(str, self._files))
        self._names = FileNames(folder, absolute)
        feature = ini.find_phrase_table(None if data.table is None else str(data.table))
        if feature.path is None:
            raise ConfigError(str(data.moses_ini), f"[feature] {feature.name}", "expected a path=")
        self._table_feature = feature
        self._old_table = _file(ini, feature.path)
        self._table = data.table or self._old_table
        # Links to folders whose names a moses.ini cannot hold, by folder.
        self._links: dict[Path, Path] = {}
        ini.rename_files(lambda path: self._name(path, _file(ini, path)))
        ini.folder = str(folder)
        self._ini = ini
        self._written = {folder / INI: ini.to_bytes()}

    def _name(self, written: str, path: Path) -> str:
        """Return the name of a file in our moses.ini, given its name in the user's."""
        name = written if os.path.isabs(written) else self._names.of(path)
        if path_problem(name) and path_problem(name := os.path.relpath(path, self._folder)):
            link = self._folder / "moses" / f"files{len(self._links)}"
            link = self._links.setdefault(path.parent, link)
            name = os.path.relpath(link / path.name, self._folder)
        return name

    @property
    def model_files(self) -> tuple[Path, ...]:
        """The phrase table, and the files that moses.ini names."""
        return (self._table, *self._files)

    def plan(self) -> Plan:
        rows = self._wanted.systems
        named = {name for row in rows for _, name in row.features()}
        models = [model for name, model in self._wanted.models.items() if name in named]
        runs = list(self._runs())
        # Rows without networks come first: errors in the texts are seen before training.
        plain = [run for run in runs if not run.row.features()]
        steps = [step for run in plain for step in self._tune_and_translate(run)]
        steps += [self._train(model) for model in models if not (model.path or model.xbleu)]
        # A network that is fine-tuned with the weights of a row comes after that row.
        late = [row for row in rows if self._fine_tuned(row)]
        for row in rows:
            steps += self._annotate(row) if row not in late else ()
        for run in runs:
            if run.row in late:
                steps += self._fine_tune(run.row, runs)
                steps += self._annotate(run.row)
            steps += self._tune_and_translate(run) if run not in plain else ()
        # Rows and replicas share the steps of their inputs.
        unique: dict[str, Step] = {}
        for step in steps:
            unique.setdefault(step.name, step)
        return Plan(
            tuple(unique.values()),
            self._written,
            tuple(runs),
            self._names,
            tuple(self._notes()),
            self._links,
        )

    def _runs(self) -> Iterator[Run]:
        rows, seeds = self._wanted.systems, self._wanted.tuning.seeds
        clean = (re.sub(r"[^\w.+-]", "_", row.name).lstrip(".") or "_" for row in rows)
        files = (INI, STATE, *TABLE_FILES)
        names = unique_names((*files, *clean))[len(files) :]
        common = [(row, self._parts(row), self._layout(row), self._inputs(row)) for row in rows]
        for seed in seeds:
            runs: list[Run] = []
            for name, (row, *own) in zip(names, common, strict=True):
                folder = self._folder / name / (f"seed{seed}" if len(seeds) > 1 else "")
                earlier = (each for each in runs if each.row.features() <= row.features())
                runs.append(Run(row, seed, folder, *own, tuple(earlier)))
            yield from runs

    def _parts(self, row: Row) -> Parts:
        engine, feature = self._engine, self._table_feature
        table = self._table_of(row.columns)
        ini = self._folder / INI
        if table is not None:
            ini = table.with_name(INI)
            self._written[ini] = self._ini_with_columns(table, len(row.columns))
        columns = (
            replace(self._column(name), name=f"{feature.name}_{place}")
            for place, name in enumerate(row.columns, feature.num_features)
        )
        return Parts(
            moses_ini=ini,
            search=tuple(map(self._column, self._in_search(row))),
            lists=tuple(map(self._column, self._in_lists(row))),
            columns=tuple(columns),
            nbest_size=row.nbest_size or engine.nbest_size,
            limits=engine.search,
            moses_bin=engine.moses_bin if engine.decoder == "moses" else None,
            text=self._wanted.text,
        )

    def _layout(self, row: Row) -> Layout:
        names = (*self._in_search(row), *self._in_lists(row))
        models = self._wanted.models
        prefixes = [
            network_name(models[name].kind, **models[name].directions)
            if name in models
            else self._column(name).label
            for name in names
        ]
        extra = dict(zip(names, number_names(prefixes), strict=True))
        of_lists = tuple(extra[name] for name in self._in_lists(row))
        feature = self._table_feature
        return Layout(feature.name, feature.num_features, row.columns, extra, of_lists)

    def _inputs(self, row: Row) -> tuple[Path, ...]:
        table = self._table_of(row.columns)
        ini = self._folder / INI
        files = self._files
        if table is not None:
            ini = table.with_name(INI)
            files = (table, *(path for path in files if path != self._old_table))
        read = self._columns_read((*self._in_search(row), *self._in_lists(row)))
        binary = self._engine.moses_bin
        return (ini, *files, *read, *(() if binary is None else (binary / "moses",)))

    def _in_search(self, row: Row) -> tuple[str, ...]:
        """Return the networks that a row uses in its search."""
        return row.search if self._engine.decoder == "embedded" else ()

    def _in_lists(self, row: Row) -> tuple[str, ...]:
        """Return the features of the lists, such as networks that the search cannot use."""
        return (*(() if self._in_search(row) else row.search), *row.lists)

    def _model_folder(self, name: str) -> Path:
        return self._wanted.models[name].path or self._folder / "models" / name

    def _column(self, name: str) -> Column:
        """Return the column that a name in a row stands for."""
        if (model := self._wanted.models.get(name)) is not None:
            backoff = None if model.backoff_lm is None else str(model.backoff_lm)
            folder, unnormalized = str(self._model_folder(name)), model.unnormalized
            return Network(folder, unnormalized=unnormalized, backoff_lm=backoff)
        files = self._wanted.data.feature_files
        if name in FILE_FEATURES and name in files:
            return load_kind(name).of(str(files[name]))
        return self._wanted.features.get(name) or NamedFeature(name)

    def _columns_read(self, names: Iterable[str]) -> tuple[Path, ...]:
        """Return the files and folders that networks and other features depend on."""
        paths = (path for name in names for path in self._column(name).inputs())
        return tuple(map(Path, dict.fromkeys(paths)))

    def _train(self, model: ModelPlan) -> Step:
        """Return the step that trains a network on the table or text."""
        data, kind = self._wanted.data, model.network
        if kind.scores_phrases:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if data.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError(self._wanted.path, "[data] train", problem)
            inputs = data.train[0 if kind.reads_source else 1 :]
        aligned = data.alignments if kind.is_aligned else None
        if aligned is None and kind.is_aligned:
            problem = f"is missing: expected the alignment that {model.name} is trained on"
            raise ConfigError(self._wanted.path, "[data] alignments", problem)
        network = NewNetwork(preset=model.preset, **model.directions, **model.changes)
        settings = {"inputs": inputs, "alignments": aligned, "settings": network}
        read = inputs if aligned is None else (*inputs, aligned)
        return self._training(model, "train", settings, read)

    def _fine_tuned(self, row: Row) -> dict[str, XbleuPlan]:
        """Return, by name, how a row's networks are fine-tuned from other networks."""
        models = self._wanted.models
        networks = [models[name] for _, name in sorted(row.features()) if name in models]
        return {model.name: model.xbleu for model in networks if model.xbleu is not None}

    def _fine_tune(self, row: Row, runs: Sequence[Run]) -> Iterator[Step]:
        """Yield the steps that fine-tune networks from earlier rows, with these rows' weights."""
        for name, xbleu in self._fine_tuned(row).items():
            start, model = self._model_folder(xbleu.model), self._wanted.models[name]
            run = next(run for run in runs if run.row.name == xbleu.row)
            feature = next(label for label, own in run.added.items() if own == xbleu.model)
            if xbleu.model in run.layout.extra:
                feature = run.layout.extra[xbleu.model]
            settings = {
                "model": start,
                "lists": xbleu.lists,
                "source": xbleu.source,
                "references": xbleu.references,
                "alignments": xbleu.alignments,
                "weights": run.weights,
                "settings": ListTraining(feature=feature, **model.changes),
            }
            read = (start, *xbleu.lists, xbleu.source, *xbleu.parallel, run.weights)
            yield self._training(model, "fine_tune", settings, read)

    def _training(
        self, model: ModelPlan, function: str, settings: dict[str, Any], read: tuple[Path, ...]
    ) -> Step:
        output = self._model_folder(model.name)
        compute = Compute(threads=model.threads or self._engine.threads)
        limits = (f"{value} {name}" for name, value in model.limits.items() if name != "seed")
        return Step(
            f"train {model.name}",
            function,
            {"kind": model.kind, **settings, "output": output, "compute": compute},
            read,
            (output,),
            (output.with_name(f"{output.name}.work"),),
            ", ".join([f"{model.kind} from {_shown(read)}", *limits]),
        )

    def _table_of(self, columns: tuple[str, ...]) -> Path | None:
        """Return the path of a table with columns; None without columns."""
        return (
            self._folder / "tables" / _folder_name(columns) / "phrase-table.gz" if columns else None
        )

    def _annotate(self, row: Row) -> Iterator[Step]:
        """Yield the step that writes a row's table, if it has columns."""
        if (table := self._table_of(row.columns)) is not None:
            settings = {
                "table": self._table,
                "columns": tuple(map(self._column, row.columns)),
                "output": table,
                "compute": Compute(threads=self._engine.threads),
            }
            yield Step(
                f"annotate {'+'.join(row.columns)}",
                "annotate",
                settings,
                (self._table, *self._columns_read(row.columns)),
                (table,),
                tuple(map(Path, work_files(str(table)))),
                f"columns in {self._names.of(table)}",
            )

    def _ini_with_columns(self, table: Path, count: int) -> bytes:
        ini = MosesIni(str(self._folder / INI), self._ini.to_bytes(), self._folder)
        old = None if self._wanted.data.table is None else str(self._wanted.data.table)
        ini.add_scores(count, os.path.relpath(table, self._folder), old_table_path=old)
        ini.move(table.parent)
        return ini.to_bytes()

    def _tune_and_translate(self, run: Run) -> Iterator[Step]:
        yield self._tune(run)
        for text in self._wanted.data.tests:
            yield self._translate(run, text)

    def _tune(self, run: Run) -> Step:
        engine, dev, row = self._engine, self._wanted.data.dev, run.row
        tuning = self._wanted.tuning
        earlier = (
            EarlierRow(each.folder, each.layout, len(each.row.features())) for each in run.earlier
        )
        settings = {
            "parts": run.parts,
            "source": dev.source,
            "references": dev.references,
            "output": run.folder,
            "translations": run.output(dev),
            "layout": run.layout,
            "earlier": tuple(earlier),
            "settings": RoundTuning(
                method=tuning.method,
                metrics=tuning.metrics or None,
                seed=run.seed,
                iterations=row.iterations or engine.iterations,
                patience=row.patience or engine.patience,
            ),
            "compute": self._compute(),
        }
        before = [path for each in run.earlier for path in (each.weights, each.report)]
        return Step(
            f"tune {row.name} seed {run.seed}",
            "tune",
            settings,
            (*run.inputs, dev.source, *dev.references, *before),
            (run.weights, run.report, run.output(dev)),
            (run.folder / functions.WORK,),
            "; ".join(filter(None, [f"weights on {_shown([dev.source])}", row.describe()])),
        )

    def _translate(self, run: Run, text: TextSet) -> Step:
        output = run.output(text)
        settings = {
            "parts": run.parts,
            "system": run.folder,
            "source": text.source,
            "output": output,
            "compute": self._compute(),
        }
        return Step(
            f"translate {text.name} {run.row.name} seed {run.seed}",
            "translate",
            settings,
            (*run.inputs, text.source, run.weights),
            (output,),
            description=f"{_shown([text.source])} to {self._names.of(output)}",
        )

    def _compute(self) -> Compute:
        return Compute(workers=self._engine.processes, threads=self._engine.threads)

    def _notes(self) -> Iterator[str]:
        engine = self._engine
        name = "Moses" if engine.decoder == "moses" else "the embedded search"
        limits = ", ".join(f"{name} {value}" for name, value in engine.search.items())
        yield f"Decoded by {name}{f' ({limits})' if limits else ''}."
        tuning, rows = self._wanted.tuning, self._wanted.systems
        own = [f"{row.name}: {row.iterations}" for row in rows if row.iterations is not None]
        others = f" ({', '.join(own)})" if own else ""
        metric = f" for {', '.join(tuning.metric)}" if tuning.metric else ""
        yield (
            f"Weights of each row tuned on dev by {tuning.method}{metric}, seeds "
            f"{', '.join(map(str, tuning.seeds))}; lists of {engine.nbest_size}, "
            f"{engine.iterations} rounds at most{others}."
        )
        if len(rows) > 1:
            yield (
                "A row's tuning starts from the weights of the best earlier row on dev with a "
                "subset of its features."
            )
        if engine.decoder == "moses" and any(row.search for row in rows):
            yield "CSLM scores Moses' n-best lists, because Moses' search does not support it."


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names, with underscores appended to repeated names."""
    unique: list[str] = []
    for name in names:
        while name in unique:
            name += "_"
        unique.append(name)
    return unique


def _shown(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _file(ini: MosesIni, path: str) -> Path:
    return Path(os.path.normpath(ini.resolve(path)))


def _folder_name(names: tuple[str, ...]) -> str:
    """Return the name of a folder for columns; plug-ins' arguments may have slashes."""
    name = "+".join(names)
    clean = re.sub(r"[^\w.+-]", "_", name)
    return name if clean == name else f"{clean[:40]}-{digest_text(name)[:8]}"
