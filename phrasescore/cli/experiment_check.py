"""What is looked at before the long work of an experiment: texts, files and networks."""

import re
from collections.abc import Iterable
from pathlib import Path

from phrasescore.cli.experiment_config import Experiment, TextSet
from phrasescore.cli.experiment_rows import ModelPlan
from phrasescore.errors import ConfigError, DataError
from phrasescore.text import read_lines


def check_inputs(wanted: Experiment, files: Iterable[Path]) -> None:
    """Refuse what is missing, or does not go together.

    :param files: that are needed besides those of the experiment's own file.
    :raises ConfigError: for names of texts that cannot be names, and networks of another kind.
    :raises DataError: for a file that is missing, and a text of other length than its references.
    :raises ModelError: for a folder that holds no model.
    """
    texts = [wanted.dev, *wanted.tests]
    models = wanted.models.values()
    paths = [path for text in texts for path in (text.source, *text.references)]
    paths += [*(wanted.train or ()), *files]
    paths += [model.path for model in models if model.path is not None]
    paths += wanted.feature_files.values()
    paths += [model.backoff_lm for model in models if model.backoff_lm]
    for path in paths:
        if not path.exists():
            raise DataError(str(path), None, "cannot open: No such file or directory")
    names = [text.name for text in texts]
    for name in names:
        if names.count(name) > 1 or not re.fullmatch(r"[\w.+-]+", name):
            problem = "expected names of letters, digits, '_', '.', '+' and '-', each once"
            raise ConfigError("[data]", f"test.{name}", f"{problem}; dev is one")
    for text in texts:
        _check_length(text)
    for model in models:
        if model.path is not None:
            _check_model(model, model.path)


def _check_length(text: TextSet) -> None:
    num_lines = _count_lines(text.source)
    for path in text.references:
        found = _count_lines(path)
        if found != num_lines:
            problem = f"expected {num_lines:,} lines, as {text.source} has, found {found:,}"
            raise DataError(str(path), None, problem)


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(str(path)))


def _check_model(model: ModelPlan, path: Path) -> None:
    """Check that a network which is there is what its name, or its ``kind``, says."""
    from phrasescore.checkpoint import REVERSE, read_record
    from phrasescore.config import Config

    record, _ = read_record(path)
    kind = Config.from_toml(path / "config.toml").kind
    if kind != model.kind:
        problem = f"{path} is of the kind {kind}, expected {model.kind}"
        raise ConfigError(f"[models.{model.name}]", "path", problem)
    is_reverse = record.direction == REVERSE
    if is_reverse != model.reverse:
        wanted = "reverse = true" if is_reverse else "a model that was trained with --reverse"
        problem = f"{path} is of the direction {record.direction}: expected {wanted}"
        raise ConfigError(f"[models.{model.name}]", "path", problem)
