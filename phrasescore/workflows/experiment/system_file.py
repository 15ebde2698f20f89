"""Write ``system.toml`` for a row of an experiment, for ``phrasescore translate``."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from moses_integration.text_settings import to_toml
from phrasescore.evaluation.tune_report import read_tune_report
from phrasescore.io.output import open_output
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.rows import Preparation, Run


def write_system(run: Run, planner: Preparation, wanted: Experiment) -> None:
    """Write the system's file beside the translations of a row, which has been tuned."""
    name = run.system.name.replace("\r", " ")
    config = Path(wanted.path).name
    lines = [
        f"# Row {name} of {config}, seed {run.seed}; docs/translate.md has all keys.",
        *_settings(run, planner, wanted),
    ]
    with open_output(str(run.system_file)) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())


def _settings(run: Run, planner: Preparation, wanted: Experiment) -> Iterator[str]:
    engine, row = wanted.engine, run.system

    def named(given: Path) -> str:
        return planner.names.of(given, run.folder)

    def path(given: Path) -> str:
        return to_toml(named(given))

    yield f"moses_ini = {path(run.ini)}"
    yield f"weights = {path(run.weights)}"
    yield f"nbest_size = {row.nbest_size or engine.nbest_size}"
    if (curve := read_tune_report(run.report).confidence) is not None:
        values = ", ".join(f"{key} = {value!r}" for key, value in asdict(curve).items())
        yield f"confidence = {{ {values} }}  # calibrated on dev"
    searching = row.search if engine.decoder == "embedded" else ()
    if engine.decoder == "moses" and engine.moses_bin is not None:
        yield 'decoder = "moses"'
        yield f"moses_bin = {path(engine.moses_bin)}"
    if searching:
        models = ", ".join(path(planner.model_folder(name)) for name in searching)
        yield f"search_models = [{models}]"
    cslm = planner.cslm(searching)
    if cslm["backoff_lm"] is not None:
        yield f"backoff_lm = {path(Path(cslm['backoff_lm']))}"
    if cslm["unnormalized"]:
        yield "unnormalized = true"
    if limits := engine.settings.limits():
        yield from ("", "[search]", *(f"{key} = {to_toml(limits[key])}" for key in limits))
    if wanted.text is not None:
        texts = {key: value for key, value in asdict(wanted.text).items() if value}
        yield from ["", "[text]"]
        for key, value in texts.items():
            shown = path(value) if isinstance(value, Path) else to_toml(value)
            yield f"{key} = {shown}"
    for name in planner.in_lists(row):
        column = planner.column(name)
        yield from ("", "[[rescore]]")
        for key, shown in column.changed().items():
            if key in (column.kind(), *column.paths):
                (shown,) = planner.names.in_words([shown], named)
            yield f"{key} = {to_toml(shown)}"
