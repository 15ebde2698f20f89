"""From the wanted rows to the steps that make them: networks, tables, weights, translations."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from moses_integration.ini_text import named_files, with_paths_from
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import write_weights
from phrasescore.errors import ConfigError
from phrasescore.features.column_spec import ColumnSpec, column_name
from phrasescore.io.resumable import work_files
from phrasescore.workflows.experiment import actions
from phrasescore.workflows.experiment.checks import check_inputs
from phrasescore.workflows.experiment.config import PREVIOUS, Experiment, TextSet
from phrasescore.workflows.experiment.runs import Run, read_report
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
    :raises PhrasescoreError: if a file that the user names is not there or not what it should be.
    """
    planner = _Planner(wanted, folder)
    check_inputs(wanted, planner.model_files, only_shown=only_shown)
    return planner.plan()


class _Planner:
    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        ini = MosesIni.read(str(wanted.moses_ini))
        with_paths_from(ini, wanted.paths_from)
        self._base = folder / MOSES_INI
        self._written = {self._base: ini.to_bytes()}
        table_path = None if wanted.table is None else str(wanted.table)
        self._table_feature = ini.find_phrase_table(None, table_path)
        if self._table_feature.path is None:
            name = self._table_feature.name
            raise ConfigError(str(wanted.moses_ini), f"[feature] {name}", "expected a path=")
        self._table = wanted.table or Path(self._table_feature.path)
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
        # Rows without networks come first: what is wrong with the texts is seen before training.
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

    def _columns(self, names: tuple[str, ...]) -> tuple[ColumnSpec, ...]:
        """Return the columns that networks and other features make, by their names."""
        found = []
        for name in names:
            if name in self._wanted.models:
                found.append(ColumnSpec("model", str(self._model_folder(name))))
            elif name in FILE_FEATURES:
                found.append(ColumnSpec(FILE_FEATURES[name], str(self._wanted.feature_files[name])))
            else:
                found.append(ColumnSpec("feature", name))
        return tuple(found)

    def _cslm(self, names: tuple[str, ...]) -> tuple[str | None, bool]:
        """Return the n-gram model behind the language models of a row, and whether log Z is out."""
        models = [self._wanted.models[name] for name in names if name in self._wanted.models]
        backoff = next((str(model.backoff_lm) for model in models if model.backoff_lm), None)
        return backoff, any(model.unnormalized for model in models)

    def _inputs(self, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the files and folders that networks and other features depend on."""
        models, files = self._wanted.models, self._wanted.feature_files
        found = [self._model_folder(name) for name in names if name in models]
        found += [path for name in names if (path := files.get(name)) is not None]
        backoff = {path for name in names if name in models and (path := models[name].backoff_lm)}
        return (*found, *sorted(backoff))

    def _train(self, model: ModelPlan) -> Step:
        if model.kind == TABLE_KIND:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if self._wanted.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError("the experiment", "[data] train", problem)
            inputs = self._wanted.train[1:] if model.kind == CSLM else self._wanted.train
        output = self._model_folder(model.name)
        action = actions.TrainCall(
            kind=model.kind,
            inputs=tuple(map(str, inputs)),
            output=str(output),
            preset=model.preset,
            reverse=model.reverse,
            limits=model.limits,
            settings=model.settings,
            threads=model.threads or self._engine.threads,
        )
        work = output.with_name(f"{output.name}.work")
        return Step(f"train {model.name}", action, inputs, (output,), (work,))

    def _annotate(self) -> Iterator[Step]:
        """Yield the steps that annotate, one for each different choice of columns."""
        for names in dict.fromkeys(system.columns for system in self._wanted.systems):
            if not names:
                continue
            table, ini = self._table_of(names), self._ini_of(names)
            action = actions.AnnotateCall(
                table=str(self._table),
                columns=self._columns(names),
                output=str(table),
                moses_ini=str(self._base),
                moses_ini_out=str(ini),
                threads=self._engine.threads,
            )
            inputs = (self._table, self._base, *self._inputs(names))
            partial_files = tuple(map(Path, work_files(str(table))))
            yield Step(f"annotate {'+'.join(names)}", action, inputs, (table, ini), partial_files)

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
        """Return what scores n-best lists; with Moses, the networks of the search as well."""
        return (*(() if self._in_search(system) else system.search), *system.rescore)

    def _search(self, run: Run) -> SearchSettings:
        """Return how a row is searched."""
        names = self._in_search(run.system)
        backoff_lm, unnormalized = self._cslm(names)
        return replace(
            self._engine.search,
            features=(CSLM,) * len(names),
            models=tuple(str(self._model_folder(name)) for name in names),
            backoff_lm=backoff_lm,
            unnormalized=unnormalized,
            threads=self._engine.threads if names else None,
            processes=self._engine.processes,
        )

    def _decoder(self) -> str:
        """Return what decodes in the rounds of tuning."""
        engine = self._engine
        if engine.decoder != "moses":
            return "embedded"
        command = [str(engine.moses_bin / "moses") if engine.moses_bin else "moses"]
        command += ["-threads", str(engine.processes or "all")]
        for name, value in moses_limits(engine.search).items():
            command += [f"-{name}", value]
        return shlex.join(command)

    def _decode_inputs(self, run: Run) -> tuple[Path, ...]:
        models = self._inputs(self._in_search(run.system))
        binary = () if self._engine.moses_bin is None else (self._engine.moses_bin / "moses",)
        return (run.ini, *run.model_files, *models, *binary)

    def _tune_and_decode(self, run: Run) -> Iterator[Step]:
        yield self._tune(run)
        for text in self._wanted.tests:
            if self._in_lists(run.system):
                yield from self._decode_and_rerank(run, text)
            else:
                yield self._decode(run, text, run.output(text), None)

    def _tune(self, run: Run) -> Step:
        engine, dev, own = self._engine, self._wanted.dev, run.system
        start, work = run.folder / "start", run.folder / "tuning"
        names = self._in_lists(run.system)
        backoff_lm, unnormalized = self._cslm(names)
        action = actions.TuneCall(
            decoder=self._decoder(),
            config=str(run.ini),
            source=str(dev.source),
            references=tuple(map(str, dev.references)),
            weights=str(start),
            working_dir=str(work),
            output=str(run.weights),
            translations=str(run.output(dev)),
            report=str(run.report),
            search=self._search(run),
            columns=self._columns(names),
            backoff_lm=backoff_lm,
            unnormalized=unnormalized,
            method=self._wanted.tuning.method,
            seed=run.seed,
            nbest_size=own.nbest_size or engine.nbest_size,
            iterations=own.iterations or engine.iterations,
            patience=own.patience or engine.patience,
            threads=engine.threads,
        )
        before = [path for each in self._starts(run) for path in (each.weights, each.report)]
        inputs = (*self._decode_inputs(run), dev.source, *dev.references)
        return Step(
            _step_name("tune", "", run),
            action,
            (*inputs, *self._inputs(names), *before),
            (run.weights, run.report, run.output(dev)),
            (work,),
            partial(self._write_start, run, start),
        )

    def _decode(self, run: Run, text: TextSet, output: Path, nbest: Path | None) -> Step:
        engine = self._engine
        action = actions.DecodeCall(
            source=str(text.source),
            config=str(run.ini),
            weights=str(run.weights),
            output=str(output),
            search=self._search(run),
            moses_bin=str(engine.moses_bin) if engine.decoder == "moses" else None,
            nbest=None if nbest is None else str(nbest),
            nbest_size=run.system.nbest_size or engine.nbest_size,
        )
        inputs = (*self._decode_inputs(run), text.source, run.weights)
        outputs = (output,) if nbest is None else (output, nbest)
        return Step(_step_name("decode", text.name, run), action, inputs, outputs)

    def _decode_and_rerank(self, run: Run, text: TextSet) -> Iterator[Step]:
        """Yield the steps of a row whose networks score n-best lists."""
        lists, rescored = (run.folder / f"{text.name}.{end}" for end in ("nbest.gz", "rescored.gz"))
        yield self._decode(run, text, run.folder / f"{text.name}.decoded", lists)
        names = self._in_lists(run.system)
        backoff_lm, unnormalized = self._cslm(names)
        rescore = actions.RescoreCall(
            nbest=str(lists),
            source=str(text.source),
            columns=self._columns(names),
            output=str(rescored),
            backoff_lm=backoff_lm,
            unnormalized=unnormalized,
            threads=self._engine.threads,
        )
        inputs = (lists, text.source, *self._inputs(names))
        yield Step(_step_name("rescore", text.name, run), rescore, inputs, (rescored,))
        output = run.output(text)
        rerank = actions.RerankCall(
            nbest=str(rescored), weights=str(run.weights), output=str(output)
        )
        inputs = (rescored, run.weights)
        yield Step(_step_name("rerank", text.name, run), rerank, inputs, (output,))

    def _write_start(self, run: Run, path: Path) -> None:
        """Write the weights that tuning starts from."""
        before = None
        if starts := self._starts(run):
            # Of equally good ones the richest, and of these the latest.
            best = max(
                reversed(starts),
                key=lambda each: (read_report(each.report).reached, len(each.system.features())),
            )
            before = TunedRow(str(best.weights), self._layout(best.system))
        ini = MosesIni.read(str(run.ini))
        write_weights(str(path), start_weights(ini, self._layout(run.system), before))

    def _layout(self, system: System) -> Layout:
        models = self._wanted.models
        names = (*self._in_search(system), *self._in_lists(system))
        extra = network_names({name: models[name].kind for name in names if name in models})
        for name in names:
            if name not in models:
                extra[name] = f"{column_name(FILE_FEATURES.get(name, 'feature'), name)}0"
        of_lists = frozenset(extra[name] for name in self._in_lists(system))
        own = self._table_feature.num_features
        return Layout(self._table_feature.name, own, system.columns, extra, of_lists)

    def _notes(self) -> Iterator[str]:
        engine = self._engine
        name = "Moses" if engine.decoder == "moses" else "the embedded search"
        limits = " ".join(actions.search_options(engine.search))
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
