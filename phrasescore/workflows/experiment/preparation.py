"""The inputs that rows of an experiment share: networks, annotated tables, and moses.ini files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moses_integration.ini_text import named_files, with_paths_from
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ConfigError
from phrasescore.features import ColumnKind, ColumnSpec, column_name
from phrasescore.io.resumable import work_files
from phrasescore.workflows.experiment.calls import Call, compute_of
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.runs import Layout, Run, network_names
from phrasescore.workflows.experiment.steps import Step
from phrasescore.workflows.experiment.systems import (
    FILE_FEATURES,
    ModelPlan,
    System,
    XbleuPlan,
)

MOSES_INI = "moses.ini"


class Preparation:
    """The files that rows need before they are tuned, and the steps that make these files.

    :raises PhrasescoreError: if moses.ini is missing or wrong.
    """

    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        ini = MosesIni.read(str(wanted.data.moses_ini))
        with_paths_from(ini, wanted.data.paths_from or wanted.data.moses_ini.parent)
        self._base = folder / MOSES_INI
        self.written = {self._base: ini.to_bytes()}
        table_path = None if wanted.data.table is None else str(wanted.data.table)
        self._table_feature = ini.find_phrase_table(table_path)
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

    def model_folder(self, name: str) -> Path:
        """Return the folder of a network that exists or will be trained."""
        return self._wanted.models[name].path or self._folder / "models" / name

    def columns(self, names: tuple[str, ...]) -> tuple[ColumnSpec, ...]:
        """Return the columns of networks and other features."""
        return tuple(map(self._column, names))

    def _column(self, name: str) -> ColumnSpec:
        if name in self._wanted.models:
            return ColumnSpec("model", str(self.model_folder(name)))
        path = self._wanted.data.feature_files.get(name)
        if path is None:
            return ColumnSpec("feature", name)
        kind: ColumnKind = next((kind for kind in FILE_FEATURES if kind == name), "scores")
        return ColumnSpec(kind, str(path))

    def cslm(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the options of a row's language models: ``backoff_lm`` and ``unnormalized``."""
        models = [self._wanted.models[name] for name in names if name in self._wanted.models]
        backoff = next((str(model.backoff_lm) for model in models if model.backoff_lm), None)
        return {"backoff_lm": backoff, "unnormalized": any(each.unnormalized for each in models)}

    def inputs(self, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the files and folders that networks and other features depend on."""
        models, files = self._wanted.models, self._wanted.data.feature_files
        found = [self.model_folder(name) for name in names if name in models]
        found += [path for name in names if (path := files.get(name)) is not None]
        backoff = {path for name in names if name in models and (path := models[name].backoff_lm)}
        return (*found, *sorted(backoff))

    def train(self, model: ModelPlan) -> Step:
        """Return the step that trains a network on the table or text."""
        if model.network.scores_phrases:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if self._wanted.data.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError(self._wanted.path, "[data] train", problem)
            inputs = self._wanted.data.train[0 if model.network.reads_source else 1 :]
        read = inputs
        aligned = self._wanted.data.alignments if model.network.is_aligned else None
        if aligned is not None:
            read = (*inputs, aligned)
        elif model.network.is_aligned:
            problem = f"is missing: expected the alignment that {model.name} is trained on"
            raise ConfigError(self._wanted.path, "[data] alignments", problem)
        call = Call.of(
            "train",
            kind=model.kind,
            inputs=inputs,
            output=self.model_folder(model.name),
            alignments=aligned,
            preset=model.preset,
            reverse=model.reverse,
            right_to_left=model.right_to_left,
            **self._limits(model),
        )
        return self._training(model, call, read)

    def trained_on(self, system: System) -> dict[str, XbleuPlan]:
        """Return the networks of a row that are fine-tuned from other networks, by name."""
        models = self._wanted.models
        named = [models[name] for _, name in sorted(system.features()) if name in models]
        return {model.name: model.xbleu for model in named if model.xbleu is not None}

    def train_on(self, system: System, runs: list[Run]) -> Iterator[Step]:
        """Yield the steps that fine-tune networks of earlier rows, using those rows' weights."""
        for name, xbleu in self.trained_on(system).items():
            start = self.model_folder(xbleu.model)
            run = next(run for run in runs if run.system.name == xbleu.row)
            model = self._wanted.models[name]
            call = Call.of(
                "fine_tune",
                kind=model.kind,
                model=start,
                output=self.model_folder(name),
                lists=xbleu.lists,
                source=xbleu.source,
                references=xbleu.references,
                alignments=xbleu.alignments,
                weights=run.weights,
                feature=self._feature_of(xbleu, run.system),
                **self._limits(model),
            )
            aligned = () if xbleu.alignments is None else (xbleu.alignments,)
            files = (*xbleu.lists, xbleu.source, *xbleu.references, *aligned)
            yield self._training(model, call, (start, *files, run.weights))

    def _feature_of(self, xbleu: XbleuPlan, system: System) -> str:
        """Return the name that a network has among a row's weights."""
        layout = self.layout(system)
        if xbleu.model in layout.columns:
            return f"{layout.table}_{layout.num_scores + layout.columns.index(xbleu.model)}"
        return layout.extra[xbleu.model]

    def _threads(self, model: ModelPlan) -> int | None:
        return model.threads or self._engine.threads

    def _limits(self, model: ModelPlan) -> dict[str, Any]:
        compute = compute_of(self._threads(model))
        return {**model.limits, "changes": model.settings, "compute": compute}

    def _training(self, model: ModelPlan, call: Call, read: tuple[Path, ...]) -> Step:
        output = self.model_folder(model.name)
        work, cores = output.with_name(f"{output.name}.work"), self._threads(model)
        return Step(f"train {model.name}", call, read, (output,), (work,), cores=cores)

    def prepare(self, system: System) -> Iterator[Step]:
        """Yield the steps that make a row's table, and the networks of Moses' own search."""
        names, ini = system.columns, self._base
        if names:
            table, ini = self._table_of(names), self._tables_ini(names)
            threads = self._engine.threads
            call = Call.of(
                "annotate",
                table=self._table,
                columns=self.columns(names),
                output=table,
                moses_ini=self._base,
                moses_ini_out=ini,
                compute=compute_of(threads),
            )
            yield Step(
                f"annotate {'+'.join(names)}",
                call,
                (self._table, self._base, *self.inputs(names)),
                (table, ini),
                tuple(map(Path, work_files(str(table)))),
                cores=threads,
            )
        for name, outputs in self._exports(system).items():
            model, (network, *_, new_ini) = self.model_folder(name), outputs
            call = Call.of(
                "export",
                model=model,
                model_format="nplm",
                output=network,
                moses_ini=ini,
                moses_ini_out=new_ini,
            )
            yield Step(f"export {new_ini.parent.name}", call, (model, ini), outputs, cores=1)
            ini = new_ini

    def _exports(self, system: System) -> dict[str, tuple[Path, ...]]:
        """Return what each network of a row's search is for Moses, its moses.ini the last."""
        found = {}
        for count, name in enumerate(system.search if self._engine.nplm else (), start=1):
            folder = self._folder / "moses" / "+".join((*system.columns, *system.search[:count]))
            is_joint = self._wanted.models[name].network.is_aligned
            ends = ("nplm", *(("nplm.source_vocab", "nplm.target_vocab") if is_joint else ()))
            found[name] = (*(folder / f"{name}.{end}" for end in ends), folder / MOSES_INI)
        return found

    def _table_of(self, columns: tuple[str, ...]) -> Path:
        return self._folder / "tables" / "+".join(columns) / "phrase-table.gz"

    def _tables_ini(self, columns: tuple[str, ...]) -> Path:
        return self._table_of(columns).with_name(MOSES_INI) if columns else self._base

    def files_of(self, system: System) -> tuple[Path, ...]:
        """Return the moses.ini of a row, and the files that it names."""
        ini, files = self._tables_ini(system.columns), self._files
        if system.columns:
            old = Path(self._table_feature.path or "")
            files = (self._table_of(system.columns), *(path for path in files if path != old))
        for outputs in self._exports(system).values():
            ini, files = outputs[-1], (*files, *outputs[:-1])
        return (ini, *files)

    def in_search(self, system: System) -> tuple[str, ...]:
        """Return the networks that the search uses."""
        return system.search if self._engine.searches_with_networks else ()

    def in_lists(self, system: System) -> tuple[str, ...]:
        """Return the features that rescoring adds, networks included that the search cannot use."""
        return (*(() if self.in_search(system) else system.search), *system.rescore)

    def layout(self, system: System) -> Layout:
        """Return the features that a row's weights belong to."""
        models = self._wanted.models
        names = (*self.in_search(system), *self.in_lists(system))
        extra = network_names({name: models[name] for name in names if name in models})
        for name in names:
            if name not in models:
                kind = next((kind for kind in FILE_FEATURES if kind == name), "feature")
                extra[name] = f"{column_name(kind, name)}0"
        of_lists = frozenset(extra[name] for name in self.in_lists(system))
        own = self._table_feature.num_features
        return Layout(self._table_feature.name, own, system.columns, extra, of_lists)
