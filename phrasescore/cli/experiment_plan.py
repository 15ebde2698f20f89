"""From what is wanted to the commands that make it: networks, tables, weights, translations."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from moses_integration.ini_paths import named_files, with_paths_from
from moses_integration.moses_ini import MosesIni
from moses_integration.weights import write_both_weights
from phrasescore.cli.decode import LIMITS
from phrasescore.cli.experiment_check import check_inputs
from phrasescore.cli.experiment_commands import PHRASESCORE
from phrasescore.cli.experiment_config import PREVIOUS, Experiment, TextSet
from phrasescore.cli.experiment_features import Features
from phrasescore.cli.experiment_report import read_report
from phrasescore.cli.experiment_rows import CSLM, FILE_FEATURES, TABLE_KIND, ModelPlan, System
from phrasescore.cli.experiment_start import Given, Layout, Tuned, extra_names, start_weights
from phrasescore.cli.experiment_steps import Step
from phrasescore.errors import ConfigError
from phrasescore.features.column_spec import column_name
from phrasescore.io.resumable import work_files
from phrasescore.workflows.search_settings import SearchSettings, moses_limits

MOSES_INI = "moses.ini"


@dataclass(frozen=True)
class Run:
    """A row of the table with weights of its own, tuned from one seed."""

    system: System
    seed: int
    folder: Path
    ini: Path
    # What its search reads, but for the ini and models.
    model_files: tuple[Path, ...]
    # Earlier rows of the same seed, whose features it has.
    parts: tuple["Run", ...] = ()
    # Its features that networks and others give, by label in its report, with their names.
    added: dict[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Path:
        """The weights that tuning finds."""
        return self.folder / "weights"

    @property
    def report(self) -> Path:
        """What tuning says of itself, as JSON."""
        return self.folder / "report.json"

    def output(self, text: TextSet) -> Path:
        """Return where the translation of a text goes."""
        return self.folder / f"{text.name}.out"


@dataclass(frozen=True)
class Plan:
    """All steps in their order."""

    steps: tuple[Step, ...]
    # Files that the experiment writes itself, before any step.
    written: dict[Path, bytes]
    # By replica and then by row.
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = field(default=())


def build_plan(wanted: Experiment, folder: Path, *, only_shown: bool = False) -> Plan:
    """Return what has to be done, whether it is done already or not.

    :param folder: where everything goes; absolute.
    :param only_shown: nothing will be run: models may still be in training.
    :raises PhrasescoreError: if a file that the user names is not there or not what it should be.
    """
    planner = _Planner(wanted, folder)
    planner.check(only_shown=only_shown)
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
        self._features = Features(wanted, folder)
        self._engine = wanted.engine
        self._threads = (
            () if (given := wanted.engine.threads) is None else ("--threads", str(given))
        )

    def check(self, *, only_shown: bool) -> None:
        check_inputs(self._wanted, (self._table, *self._files), only_shown=only_shown)

    def plan(self) -> Plan:
        named = {name for system in self._wanted.systems for _, name in system.features()}
        models = [model for name, model in self._wanted.models.items() if name in named]
        runs = self._runs()
        # Rows without networks come first: what is wrong with the texts is seen before training.
        plain = [run for run in runs if not run.system.features()]
        steps = [step for run in plain for step in self._tune_and_decode(run)]
        steps += [self._train(model) for model in models if model.path is None]
        steps += self._tables()
        for run in runs:
            steps += self._tune_and_decode(run) if run not in plain else ()
        return Plan(tuple(steps), self._written, tuple(runs), tuple(self._notes()))

    # Networks and tables

    def _train(self, model: ModelPlan) -> Step:
        if model.kind == TABLE_KIND:
            inputs: tuple[Path, ...] = (self._table,)
        else:
            if self._wanted.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError("the experiment", "[data] train", problem)
            inputs = self._wanted.train[1:] if model.kind == CSLM else self._wanted.train
        output = self._features.model_folder(model.name)
        command = [PHRASESCORE, "train", model.kind, *map(str, inputs), "-o", str(output)]
        if model.preset is not None:
            command += ["--preset", model.preset]
        command += ["--reverse"] if model.reverse else []
        command += model.options
        if "--threads" not in model.options:
            command += self._threads
        work = output.with_name(f"{output.name}.work")
        return Step(
            f"train {model.name}", tuple(command), inputs, (output,), ("--resume",), (work,)
        )

    def _tables(self) -> Iterator[Step]:
        """Yield the steps that annotate, one for each different choice of columns."""
        for columns in dict.fromkeys(system.columns for system in self._wanted.systems):
            if not columns:
                continue
            table, ini = self._table_of(columns), self._ini_of(columns)
            command = [PHRASESCORE, "annotate", str(self._table)]
            command += self._features.options(columns)
            command += ["-o", str(table), "--moses-ini", str(self._base)]
            command += ["--moses-ini-out", str(ini), *self._threads]
            yield Step(
                f"annotate {'+'.join(columns)}",
                tuple(command),
                (self._table, self._base, *self._features.inputs(columns)),
                (table, ini),
                ("--resume",),
                tuple(map(Path, work_files(str(table)))),
            )

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
        """Return what a row has beyond moses.ini, by the labels of a tuning report."""
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

    def _decode(self, run: Run, source: str) -> list[str]:
        """Return the beginning of a command that decodes."""
        command = [PHRASESCORE, "decode", source, "--config", str(run.ini)]
        if self._engine.decoder == "moses":
            command += ["--decoder", "moses", "--moses-bin", str(self._engine.moses_bin)]
        return [*command, *self._search_options(run)]

    def _search_options(self, run: Run) -> list[str]:
        """Return the options of decode that say how a row is searched."""
        engine = self._engine
        command = []
        for name in self._in_search(run.system):
            command += ["--feature", CSLM, "--model", str(self._features.model_folder(name))]
        command += self._features.cslm_options(self._in_search(run.system))
        if self._in_search(run.system):
            command += self._threads
        if engine.processes is not None:
            command += ["--processes", str(engine.processes)]
        return [*command, *engine.search]

    def _tuned_decoder(self, run: Run) -> list[str]:
        """Return the options of tune that say what decodes."""
        engine = self._engine
        if engine.decoder != "moses":
            flags = shlex.join(self._search_options(run))
            return ["--decoder", "embedded", *(["--decoder-flags", flags] if flags else [])]
        limits = dict(zip(engine.search[::2], engine.search[1::2], strict=True))
        limits["--stack"] = limits.pop("--stack-size", limits.get("--stack", ""))
        given = {
            LIMITS[name][0]: LIMITS[name][1].convert(value, None, None)
            for option, value in limits.items()
            if (name := option[2:]) in LIMITS and value
        }
        command = [str(engine.moses_bin / "moses") if engine.moses_bin else "moses"]
        command += ["-threads", str(engine.processes or "all")]
        for name, value in moses_limits(SearchSettings(**given)).items():
            command += [f"-{name}", value]
        return ["--decoder", shlex.join(command)]

    def _decode_inputs(self, run: Run) -> tuple[Path, ...]:
        models = self._features.inputs(self._in_search(run.system))
        binary = () if self._engine.moses_bin is None else (self._engine.moses_bin / "moses",)
        return (run.ini, *run.model_files, *models, *binary)

    def _tune_and_decode(self, run: Run) -> Iterator[Step]:
        yield self._tune(run)
        for text in self._wanted.tests:
            if self._in_lists(run.system):
                yield from self._decode_and_rerank(run, text)
                continue
            command = self._decode(run, str(text.source))
            command += ["--weights", str(run.weights), "-o", str(run.output(text))]
            yield Step(
                _name("decode", text.name, run),
                tuple(command),
                (*self._decode_inputs(run), text.source, run.weights),
                (run.output(text),),
            )

    def _tune(self, run: Run) -> Step:
        engine, dev, own = self._engine, self._wanted.dev, run.system
        start, work = run.folder / "start", run.folder / "tuning"
        command = [PHRASESCORE, "tune", *self._tuned_decoder(run), "--config", str(run.ini)]
        command += ["--source", str(dev.source)]
        for path in dev.references:
            command += ["--references", str(path)]
        command += ["--weights", str(start), "--working-dir", str(work)]
        command += ["--method", self._wanted.tuning.method, "--seed", str(run.seed)]
        command += ["--nbest-size", str(own.nbest_size or engine.nbest_size)]
        command += ["--iterations", str(own.iterations or engine.iterations)]
        command += ["--patience", str(own.patience or engine.patience), *self._threads]
        names = self._in_lists(run.system)
        models = self._features.inputs(names)
        options = self._features.options(names)
        for flag, value in zip(options[::2], options[1::2], strict=True):
            # --rescore MODEL, --rescore-lm FILE and so on.
            command += [f"--rescore{flag[1:]}".removesuffix("-model"), value]
        command += self._features.cslm_options(names)
        command += ["--translations", str(run.output(dev)), "-o", str(run.weights)]
        command += ["--report", str(run.report), "--format", "json"]
        before = [path for each in self._starts(run) for path in (each.weights, each.report)]
        return Step(
            _name("tune", "", run),
            tuple(command),
            (*self._decode_inputs(run), dev.source, *dev.references, *models, *before),
            (run.weights, run.report, run.output(dev)),
            ("--resume",),
            (work,),
            partial(self._write_start, run, start),
        )

    def _decode_and_rerank(self, run: Run, text: TextSet) -> Iterator[Step]:
        """Yield the steps of a row whose networks score n-best lists."""
        lists, rescored = (run.folder / f"{text.name}.{end}" for end in ("nbest.gz", "rescored.gz"))
        size = run.system.nbest_size or self._engine.nbest_size
        command = self._decode(run, str(text.source))
        command += ["--weights", str(run.weights)]
        command += ["--nbest", str(lists), str(size), "--distinct"]
        first = run.folder / f"{text.name}.decoded"
        yield Step(
            _name("decode", text.name, run),
            (*command, "-o", str(first)),
            (*self._decode_inputs(run), text.source, run.weights),
            (first, lists),
        )
        names = self._in_lists(run.system)
        models = self._features.inputs(names)
        command = [PHRASESCORE, "rescore", str(lists), "--source", str(text.source)]
        command += [*self._features.options(names), *self._features.cslm_options(names)]
        yield Step(
            _name("rescore", text.name, run),
            (*command, *self._threads, "-o", str(rescored)),
            (lists, text.source, *models),
            (rescored,),
        )
        command = [PHRASESCORE, "rerank", str(rescored), "--weights", str(run.weights)]
        yield Step(
            _name("rerank", text.name, run),
            (*command, "-o", str(run.output(text))),
            (rescored, run.weights),
            (run.output(text),),
        )

    def _write_start(self, run: Run, path: Path) -> None:
        """Write the weights that tuning starts from."""
        given, before = Given(MosesIni.read(str(run.ini)), self._layout(run.system)), None
        if starts := self._starts(run):
            # Of equally good ones the richest, and of these the latest.
            best = max(
                reversed(starts),
                key=lambda each: (read_report(each.report).reached, len(each.system.features())),
            )
            before = Tuned(str(best.weights), self._layout(best.system))
        write_both_weights(str(path), start_weights(given, before))

    def _layout(self, system: System) -> Layout:
        own = self._table_feature.num_features
        models = self._wanted.models
        names = (*self._in_search(system), *self._in_lists(system))
        kinds = {name: models[name].kind for name in names if name in models}
        extra = extra_names(kinds)
        for name in names:
            if name not in models:
                extra[name] = f"{column_name(name if name in FILE_FEATURES else 'feature', name)}0"
        of_lists = frozenset(extra[name] for name in self._in_lists(system))
        return Layout(self._table_feature.name, own, system.columns, extra, of_lists)

    def _notes(self) -> Iterator[str]:
        engine = self._engine
        name = "Moses" if engine.decoder == "moses" else "the embedded search"
        limits = f" ({' '.join(engine.search)})" if engine.search else ""
        yield f"Decoded by {name}{limits}."
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


def _name(verb: str, text: str, run: Run) -> str:
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
