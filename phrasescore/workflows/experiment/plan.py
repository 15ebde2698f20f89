"""Plan the steps of an experiment's rows: networks, tables, weights, translations."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from moses_integration.moses_ini import MosesIni
from moses_integration.weight_lines import write_weights
from phrasescore.evaluation.tune_report import read_tune_report
from phrasescore.workflows.experiment.commands import FileNames, limit_options, options
from phrasescore.workflows.experiment.config import Experiment, TextSet, check_inputs
from phrasescore.workflows.experiment.rows import Preparation, Run, start_weights
from phrasescore.workflows.experiment.steps import Step
from phrasescore.workflows.experiment.systems import System
from phrasescore.workflows.search_settings import moses_limits


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


class _Planner(Preparation):
    def plan(self) -> Plan:
        named = {name for system in self._wanted.systems for _, name in system.features()}
        models = [model for name, model in self._wanted.models.items() if name in named]
        runs = self._runs()
        # Rows without networks come first: errors in the texts are seen before training.
        plain = [run for run in runs if not run.system.features()]
        steps = [step for run in plain for step in self._tune_and_decode(run)]
        steps += [self.train(model) for model in models if not (model.path or model.xbleu)]
        # A network that is fine-tuned with the weights of a row comes after that row.
        late = [system for system in self._wanted.systems if self.trained_on(system)]
        for system in self._wanted.systems:
            steps += self.prepare(system) if system not in late else ()
        for run in runs:
            if run.system in late:
                steps += self.train_on(run.system, runs)
                steps += self.prepare(run.system)
            steps += self._tune_and_decode(run) if run not in plain else ()
        # Rows and replicas share the steps of their inputs.
        unique: dict[str, Step] = {}
        for step in steps:
            unique.setdefault(step.name, step)
        notes = tuple(self._notes())
        return Plan(
            tuple(unique.values()), self.written, tuple(runs), self.names, notes, self.links
        )

    def _runs(self) -> list[Run]:
        runs = []
        systems = self._wanted.systems
        clean = (re.sub(r"[^\w.+-]", "_", system.name).lstrip(".") or "_" for system in systems)
        names = unique_names(clean)
        for seed in self._wanted.tuning.seeds:
            earlier: list[Run] = []
            for system, name in zip(systems, names, strict=True):
                ini, *files = self.files_of(system)
                folder = self._folder / "systems" / name / f"seed{seed}"
                parts = (each for each in earlier if each.system.features() <= system.features())
                added = self._added(system)
                run = Run(system, seed, folder, ini, tuple(files), tuple(parts), added)
                earlier.append(run)
                runs.append(run)
        return runs

    def _added(self, system: System) -> dict[str, str]:
        """Return the features that a row adds to moses.ini, by their labels in tuning reports."""
        layout = self.layout(system)
        columns = enumerate(layout.columns, layout.num_scores)
        return {f"{name}_0": model for model, name in layout.extra.items()} | {
            f"{layout.table}_{place}": column for place, column in columns
        }

    def _searching(self, run: Run) -> tuple[str, ...]:
        return run.system.search if self._engine.decoder == "embedded" else ()

    def _search(self, run: Run) -> list[str]:
        """Return the options of ``phrasescore decode`` for the search."""
        engine, names = self._engine, self._searching(run)
        words: list[str] = []
        for name in names:
            words += options(feature=self._wanted.models[name].kind, model=self.model_folder(name))
        words += options(
            **self.cslm(names),
            threads=engine.threads if names else None,
            processes=engine.processes,
        )
        return [*words, *limit_options(engine.settings)]

    def _decoder(self, run: Run) -> Iterator[str]:
        """Yield the decoder as options for ``phrasescore tune``."""
        engine = self._engine
        if engine.moses_bin is None or engine.decoder != "moses":
            return options(decoder="embedded", decoder_flags=shlex.join(self._search(run)) or None)
        command = [str(engine.moses_bin / "moses"), "-threads", str(engine.processes or "all")]
        for name, value in moses_limits(engine.settings).items():
            command += [f"-{name}", value]
        return options(decoder=shlex.join(command))

    def _decode_inputs(self, run: Run) -> tuple[Path, ...]:
        models = self.inputs(self.in_search(run.system))
        binary = () if self._engine.moses_bin is None else (self._engine.moses_bin / "moses",)
        return (run.ini, *run.model_files, *models, *binary)

    def _tune_and_decode(self, run: Run) -> Iterator[Step]:
        yield self._tune(run)
        for text in self._wanted.data.tests:
            if self.in_lists(run.system):
                yield from self._decode_and_rerank(run, text)
            else:
                yield self._decode(run, text, run.output(text), None)

    def _tune(self, run: Run) -> Step:
        engine, dev, own = self._engine, self._wanted.data.dev, run.system
        start, work = run.folder / "start", run.folder / "tuning"
        names = self.in_lists(own)
        words = options(
            config=run.ini,
            source=dev.source,
            references=dev.references,
            weights=start,
            working_dir=work,
            method=self._wanted.tuning.method,
            metric=self._wanted.tuning.metric,
            seed=run.seed,
            nbest_size=own.nbest_size or engine.nbest_size,
            iterations=own.iterations or engine.iterations,
            patience=own.patience or engine.patience,
            threads=engine.threads,
        )
        outputs = options(
            translations=run.output(dev),
            output=run.weights,
            report=run.report,
            format="json",
        )
        columns = self.column_options(names, "rescore-")
        before = [path for each in run.parts for path in (each.weights, each.report)]
        inputs = (*self._decode_inputs(run), dev.source, *dev.references)
        return Step(
            _step_name("tune", "", run),
            ("tune", *self._decoder(run), *words, *columns, *outputs),
            (*inputs, *self.inputs(names), *before),
            (run.weights, run.report, run.output(dev)),
            (work,),
            partial(self._write_start, run, start),
        )

    def _decode(self, run: Run, text: TextSet, output: Path, nbest: Path | None) -> Step:
        engine = self._engine
        words = ["decode", str(text.source), *options(config=run.ini)]
        if engine.decoder == "moses":
            words += options(decoder="moses", moses_bin=engine.moses_bin)
        words += [*self._search(run), *options(weights=run.weights)]
        if nbest is not None:
            size = run.system.nbest_size or engine.nbest_size
            words += ["--nbest", str(nbest), "--nbest-size", str(size), "--distinct"]
        return Step(
            _step_name("decode", text.name, run),
            (*words, *options(output=output)),
            (*self._decode_inputs(run), text.source, run.weights),
            (output,) if nbest is None else (output, nbest),
        )

    def _decode_and_rerank(self, run: Run, text: TextSet) -> Iterator[Step]:
        lists, rescored = (run.folder / f"{text.name}.{end}" for end in ("nbest.gz", "rescored.gz"))
        yield self._decode(run, text, run.folder / f"{text.name}.decoded", lists)
        names, threads = self.in_lists(run.system), self._engine.threads
        words = ["rescore", str(lists), *options(source=text.source)]
        words += self.column_options(names)
        words += options(threads=threads, output=rescored)
        yield Step(
            _step_name("rescore", text.name, run),
            tuple(words),
            (lists, text.source, *self.inputs(names)),
            (rescored,),
        )
        output = run.output(text)
        yield Step(
            _step_name("rerank", text.name, run),
            ("rerank", str(rescored), *options(weights=run.weights, output=output)),
            (rescored, run.weights),
            (output,),
        )

    def _write_start(self, run: Run, path: Path) -> None:
        before = None
        if run.parts:
            # On ties, prefer the row with the most features, then the latest one.
            best = max(
                reversed(run.parts),
                key=lambda row: (read_tune_report(row.report).reached, len(row.system.features())),
            )
            before = (best.weights, self.layout(best.system))
        ini = MosesIni.read(str(run.ini))
        write_weights(str(path), start_weights(ini, self.layout(run.system), before))

    def _notes(self) -> Iterator[str]:
        engine = self._engine
        name = "Moses" if engine.decoder == "moses" else "the embedded search"
        limits = " ".join(limit_options(engine.settings))
        yield f"Decoded by {name}{f' ({limits})' if limits else ''}."
        tuning, systems = self._wanted.tuning, self._wanted.systems
        own = [f"{row.name}: {row.iterations}" for row in systems if row.iterations is not None]
        others = f" ({', '.join(own)})" if own else ""
        metrics = self.names.in_words(tuning.metric, self.names.of)
        metric = f" for {', '.join(metrics)}" if metrics else ""
        yield (
            f"Weights of each row tuned on dev by {tuning.method}{metric}, seeds "
            f"{', '.join(map(str, tuning.seeds))}; lists of {engine.nbest_size}, "
            f"{engine.iterations} rounds at most{others}."
        )
        if len(systems) > 1:
            yield (
                "A row's tuning starts from the weights of the best earlier row on dev with a "
                "subset of its features."
            )
        if engine.decoder == "moses" and any(system.search for system in systems):
            yield "CSLM scores Moses' n-best lists, because Moses' search does not support it."


def _step_name(verb: str, text: str, run: Run) -> str:
    return f"{verb} {text} {run.system.name} seed {run.seed}".replace("  ", " ")


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names, with underscores appended to repeated names."""
    unique: list[str] = []
    for name in names:
        while name in unique:
            name += "_"
        unique.append(name)
    return unique
