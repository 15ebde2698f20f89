"""The rows of an experiment: their runs, shared inputs and start weights."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from moses_integration.ini_text import named_files, path_problem
from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.errors import ConfigError
from phrasescore.evaluation.tune_report import TuneReport
from phrasescore.features.columns import Column, load_kind, number_names
from phrasescore.features.model import Network, network_name
from phrasescore.features.named import NamedFeature
from phrasescore.io.journal import digest_text
from phrasescore.io.resumable import work_files
from phrasescore.records import WeightPair, Weights
from phrasescore.workflows.experiment.commands import FileNames, options
from phrasescore.workflows.experiment.config import Experiment, TextSet
from phrasescore.workflows.experiment.steps import Step
from phrasescore.workflows.experiment.systems import FILE_FEATURES, ModelPlan, System, XbleuPlan

MOSES_INI = "moses.ini"
_NOTHING = 1e-3  # a feature with a smaller share, from 0 to 1, hardly changes any model score


@dataclass(frozen=True)
class Run:
    """A row of the table, with weights tuned with one seed."""

    system: System
    seed: int
    folder: Path
    ini: Path
    model_files: tuple[Path, ...]  # what the search reads, except moses.ini and models
    parts: tuple["Run", ...] = ()  # earlier rows' runs with the same seed and a subset of features
    # The names of the added features, by their labels in the tuning report.
    added: dict[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Path:
        """The path of the tuned weights."""
        return self.folder / "weights"

    @property
    def report(self) -> Path:
        """The path of the tuning report, as JSON."""
        return self.folder / "report.json"

    @property
    def system_file(self) -> Path:
        """The path of the file with which ``phrasescore translate`` uses this row."""
        return self.folder / "system.toml"

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


class Layout(NamedTuple):
    """The features that a row has weights for."""

    # The phrase table that is annotated, and its original number of scores.
    table: str
    num_scores: int
    columns: tuple[str, ...]  # the added scores, in order
    extra: dict[str, str]  # features that moses.ini lacks: their names in n-best lists, by model
    of_lists: frozenset[str] = frozenset()  # the names in ``extra`` that only n-best lists have


class Preparation:
    """The files that rows need before tuning, and the steps that write them."""

    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        start = wanted.data.paths_from or wanted.data.moses_ini
        ini = MosesIni.read(str(wanted.data.moses_ini), wanted.data.paths_from or start.parent)
        self._files = tuple(Path(os.path.normpath(path)) for path in named_files(ini))
        absolute = wanted.absolute
        if str(start) in absolute:
            absolute |= frozenset(map(str, self._files))
        self.names = FileNames(folder, absolute)
        table_path = None if wanted.data.table is None else str(wanted.data.table)
        self._table_feature = ini.find_phrase_table(table_path)
        if self._table_feature.path is None:
            name = self._table_feature.name
            raise ConfigError(str(wanted.data.moses_ini), f"[feature] {name}", "expected a path=")
        self._old_table = _file(ini, self._table_feature.path)
        self._table = wanted.data.table or self._old_table
        self._base = folder / MOSES_INI
        # Links to folders whose names a moses.ini cannot hold.
        self.links: dict[Path, Path] = {}  # by folder
        ini.rename_files(lambda path: self._name(path, _file(ini, path)))
        ini.folder = str(folder)
        self._ini = ini
        # The files that no step writes.
        self.written = {self._base: ini.to_bytes()}
        self._engine = wanted.engine

    def _name(self, written: str, path: Path) -> str:
        """Return the name of a file in our moses.ini, given its name in the user's."""
        name = written if os.path.isabs(written) else self.names.of(path)
        if path_problem(name) and path_problem(name := os.path.relpath(path, self.names.folder)):
            link = self._folder / "moses" / f"files{len(self.links)}"
            link = self.links.setdefault(path.parent, link)
            name = os.path.relpath(link / path.name, self._folder)
        return name

    @property
    def model_files(self) -> tuple[Path, ...]:
        """The phrase table, and the files that moses.ini names."""
        return (self._table, *self._files)

    def model_folder(self, name: str) -> Path:
        """Return the folder of a network that exists or will be trained."""
        return self._wanted.models[name].path or self._folder / "models" / name

    def column_options(self, names: tuple[str, ...], prefix: str = "") -> Iterator[str]:
        """Yield the options that add columns. ``phrasescore tune`` has them with a prefix."""
        for name in names:
            yield from self.column(name).options(prefix)

    def column(self, name: str) -> Column:
        """Return the column that a name in a row stands for."""
        if (model := self._wanted.models.get(name)) is not None:
            backoff = None if model.backoff_lm is None else str(model.backoff_lm)
            folder, unnormalized = str(self.model_folder(name)), model.unnormalized
            return Network(folder, unnormalized=unnormalized, backoff_lm=backoff)
        files = self._wanted.data.feature_files
        for kind in FILE_FEATURES:
            if name == kind and name in files:
                return load_kind(kind).of(str(files[name]))
        return self._wanted.features.get(name) or NamedFeature(name)

    def cslm(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the options for a row's language models: ``backoff_lm`` and ``unnormalized``."""
        models = [self._wanted.models[name] for name in names if name in self._wanted.models]
        backoff = next((str(model.backoff_lm) for model in models if model.backoff_lm), None)
        return {"backoff_lm": backoff, "unnormalized": any(each.unnormalized for each in models)}

    def inputs(self, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the files and folders that networks and other features depend on."""
        paths = (path for name in names for path in self.column(name).inputs())
        return tuple(map(Path, dict.fromkeys(paths)))

    def train(self, model: ModelPlan) -> Step:
        """Return the step that trains a network on the table or text."""
        if model.network.scores_phrases:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if self._wanted.data.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError(self._wanted.path, "[data] train", problem)
            inputs = self._wanted.data.train[0 if model.network.reads_source else 1 :]
        aligned = self._wanted.data.alignments if model.network.is_aligned else None
        if aligned is None and model.network.is_aligned:
            problem = f"is missing: expected the alignment that {model.name} is trained on"
            raise ConfigError(self._wanted.path, "[data] alignments", problem)
        words = options(
            output=self.model_folder(model.name),
            alignments=aligned,
            preset=model.preset,
            reverse=model.reverse,
            right_to_left=model.right_to_left,
        )
        read = inputs if aligned is None else (*inputs, aligned)
        return self._training(model, (*map(str, inputs), *words), read)

    def trained_on(self, system: System) -> dict[str, XbleuPlan]:
        """Return, by name, how a row's networks are fine-tuned from other networks."""
        models = self._wanted.models
        networks = [models[name] for _, name in sorted(system.features()) if name in models]
        return {model.name: model.xbleu for model in networks if model.xbleu is not None}

    def train_on(self, system: System, runs: list[Run]) -> Iterator[Step]:
        """Yield the steps that fine-tune networks from earlier rows, with these rows' weights."""
        for name, xbleu in self.trained_on(system).items():
            start = self.model_folder(xbleu.model)
            run = next(run for run in runs if run.system.name == xbleu.row)
            model = self._wanted.models[name]
            words = options(
                objective="xbleu",
                **{"from": start},
                output=self.model_folder(name),
                lists=xbleu.lists,
                source=xbleu.source,
                references=xbleu.references,
                alignments=xbleu.alignments,
                weights=run.weights,
                feature=self._feature_of(xbleu, run.system),
            )
            files = (*xbleu.lists, xbleu.source, *xbleu.parallel)
            yield self._training(model, tuple(words), (start, *files, run.weights))

    def _feature_of(self, xbleu: XbleuPlan, system: System) -> str:
        layout = self.layout(system)
        if xbleu.model in layout.columns:
            return f"{layout.table}_{layout.num_scores + layout.columns.index(xbleu.model)}"
        return layout.extra[xbleu.model]

    def _training(self, model: ModelPlan, words: tuple[str, ...], read: tuple[Path, ...]) -> Step:
        output, threads = self.model_folder(model.name), model.threads or self._engine.threads
        work = output.with_name(f"{output.name}.work")
        limits = options(**model.limits, set=model.settings, threads=threads)
        words = ("train", model.kind, *words, *limits)
        return Step(f"train {model.name}", words, read, (output,), (work,))

    def prepare(self, system: System) -> Iterator[Step]:
        """Yield the step that writes a row's table, if it has columns."""
        if names := system.columns:
            table = self._folder / "tables" / _folder_name(names) / "phrase-table.gz"
            threads = self._engine.threads
            self.written[table.with_name(MOSES_INI)] = self._ini_with_columns(table, len(names))
            words = options(output=table, threads=threads)
            yield Step(
                f"annotate {'+'.join(names)}",
                ("annotate", str(self._table), *self.column_options(names), *words),
                (self._table, *self.inputs(names)),
                (table,),
                tuple(map(Path, work_files(str(table)))),
            )

    def _ini_with_columns(self, table: Path, count: int) -> bytes:
        ini = MosesIni(str(self._base), self._ini.to_bytes(), self._folder)
        old = None if self._wanted.data.table is None else str(self._wanted.data.table)
        ini.add_scores(count, os.path.relpath(table, self._folder), old_table_path=old)
        ini.move(table.parent)
        return ini.to_bytes()

    def files_of(self, system: System) -> tuple[Path, ...]:
        """Return a row's moses.ini, and the files that it names."""
        ini, files = self._base, self._files
        for step in self.prepare(system):
            (table,) = step.outputs
            files = (table, *(path for path in files if path != self._old_table))
            ini = table.with_name(MOSES_INI)
        return (ini, *files)

    def in_search(self, system: System) -> tuple[str, ...]:
        """Return the networks that a row uses in its search."""
        return system.search if self._engine.decoder == "embedded" else ()

    def in_lists(self, system: System) -> tuple[str, ...]:
        """Return the features that rescoring adds, such as networks that the search cannot use."""
        return (*(() if self.in_search(system) else system.search), *system.rescore)

    def layout(self, system: System) -> Layout:
        """Return the features that a row has weights for."""
        models = self._wanted.models
        names = (*self.in_search(system), *self.in_lists(system))
        prefixes = [
            network_name(model.kind, reverse=model.reverse, right_to_left=model.right_to_left)
            if (model := models.get(name)) is not None
            else self.column(name).label
            for name in names
        ]
        extra = dict(zip(names, number_names(prefixes), strict=True))
        of_lists = frozenset(extra[name] for name in self.in_lists(system))
        own = self._table_feature.num_features
        return Layout(self._table_feature.name, own, system.columns, extra, of_lists)


def _file(ini: MosesIni, path: str) -> Path:
    return Path(os.path.normpath(ini.resolve(path)))


def _folder_name(names: tuple[str, ...]) -> str:
    """Return the name of a folder for columns; plug-ins' arguments may have slashes."""
    name = "+".join(names)
    clean = re.sub(r"[^\w.+-]", "_", name)
    return name if clean == name else f"{clean[:40]}-{digest_text(name)[:8]}"


def start_weights(ini: MosesIni, new: Layout, before: tuple[Path, Layout] | None) -> WeightPair:
    """Return a row's start weights for its search and its lists, from moses.ini or earlier ones."""
    if before is None:
        search = lists = _start_weights(ini, new, {}, None)
    else:
        path, old = before
        search, lists = (
            _start_weights(ini, new, weights, old) for weights in load_weights(str(path))
        )
    known = {name: values for name, values in search.items() if name not in new.of_lists}
    return WeightPair(known, lists)


def _start_weights(ini: MosesIni, new: Layout, earlier: Weights, old: Layout | None) -> Weights:
    weights = dict(ini.tuneable_weights())
    weights |= dict.fromkeys(new.extra.values(), (0.0,))
    if old is not None:
        renamed = {name: new.extra[model] for model, name in old.extra.items()}
        for name, values in earlier.items():
            if name == old.table:
                columns = dict(zip(old.columns, values[old.num_scores :], strict=True))
                added = (columns.get(column, 0.0) for column in new.columns)
                weights[name] = (*values[: old.num_scores], *added)
            else:
                weights[renamed.get(name, name)] = values
    return weights
