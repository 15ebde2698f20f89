"""Check the texts, files and networks of an experiment before its steps run."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from moses_integration.ini_text import IniText
from moses_integration.source_text import markup_of, read_source
from phrasescore.errors import ConfigError, DataError
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import read_record
from phrasescore.settings.config import Config
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.systems import ModelPlan

_logger = logging.getLogger(__name__)


def check_inputs(wanted: Experiment, files: Iterable[Path], *, only_shown: bool) -> None:
    """Refuse files that are missing, or do not go together.

    :param files: the files needed in addition to those that the experiment's file names.
    :param only_shown: nothing will be run: a model that is still being trained is only named.
    :raises ConfigError: for invalid names of texts, and networks of another kind.
    :raises DataError: for a missing file, and a text whose length differs from its references.
    :raises ModelError: for a folder without a model.
    """
    texts = [wanted.data.dev, *wanted.data.tests]
    models = wanted.models.values()
    paths = [path for text in texts for path in (text.source, *text.references)]
    aligned = () if wanted.data.alignments is None else (wanted.data.alignments,)
    paths += [*(wanted.data.train or ()), *aligned, *files]
    paths += wanted.data.feature_files.values()
    paths += [model.backoff_lm for model in models if model.backoff_lm]
    trained_on = [model.xbleu for model in models if model.xbleu]
    for xbleu in trained_on:
        paths += [*xbleu.lists, xbleu.source, *xbleu.references]
        paths += [] if xbleu.alignments is None else [xbleu.alignments]
    for path in paths:
        if not path.exists():
            raise DataError(str(path), None, "cannot open: No such file or directory")
    names = [text.name for text in texts]
    for name in names:
        # In table.toml, texts are keys beside the name of a row.
        taken = name in ("name", "rounds", "remarks")
        if names.count(name) > 1 or not re.fullmatch(r"[\w.+-]+", name) or taken:
            problem = "expected names of letters, digits, '_', '.', '+' and '-', each once"
            problem += "; dev is taken, and so are 'name', 'rounds' and 'remarks'"
            raise ConfigError(wanted.path, f"[data] test.{name}", problem)
    markup = markup_of(IniText.read(str(wanted.data.moses_ini)))
    for text in texts:
        _check_length(text.source, text.references)
        read_source(str(text.source), markup=markup)  # refuses lines that no decoder takes
    if wanted.engine.decoder == "moses" and not wanted.data.dev.source.read_bytes().endswith(b"\n"):
        problem = "expected a newline after the last line: Moses leaves it out"
        raise DataError(str(wanted.data.dev.source), None, problem)
    if wanted.data.train is not None:
        _check_length(wanted.data.train[0], (*wanted.data.train[1:], *aligned))
    for xbleu in trained_on:
        aligned = () if xbleu.alignments is None else (xbleu.alignments,)
        _check_length(xbleu.source, (*xbleu.references, *aligned))
    for model in models:
        if model.path is not None and model.path.exists():
            _check_model(wanted.path, model, model.path)
        elif model.path is not None:
            _refuse_missing(wanted.path, model.name, model.path, only_shown=only_shown)


def _refuse_missing(config: str, name: str, path: Path, *, only_shown: bool) -> None:
    problem = f"there is no model {path}"
    work = path.with_name(f"{path.name}.work")
    if work.exists():
        problem += f" yet: its training is at work, or was stopped, in {work}"
        if only_shown:
            _logger.warning("%s: [models.%s] path: %s", config, name, problem)
            return
    raise ConfigError(config, f"[models.{name}] path", problem)


def _check_length(source: Path, others: Iterable[Path]) -> None:
    num_lines = _count_lines(source)
    for path in others:
        found = _count_lines(path)
        if found != num_lines:
            problem = f"expected {num_lines:,} lines, as {source} has, found {found:,}"
            raise DataError(str(path), None, problem)


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(str(path)))


def _check_model(config: str, model: ModelPlan, path: Path) -> None:
    """Check that a trained network has the kind that its name or ``kind`` gives."""
    record, _ = read_record(path)
    kind = Config.from_toml(path / "config.toml").kind
    if kind != model.kind:
        problem = f"{path} is of the kind {kind}, expected {model.kind}"
        raise ConfigError(config, f"[models.{model.name}] path", problem)
    for key, is_so, wanted in (
        ("reverse", record.reverse, model.reverse),
        ("right_to_left", record.right_to_left, model.right_to_left),
    ):
        if is_so != wanted:
            trained = f"a model that was trained with --{key.replace('_', '-')}"
            expected = f"{key} = true" if is_so else trained
            problem = f"{path} is of the direction {record.direction}: expected {expected}"
            raise ConfigError(config, f"[models.{model.name}] path", problem)
