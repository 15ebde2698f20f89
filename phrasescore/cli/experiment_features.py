"""The networks and features of an experiment's rows, as the commands have them."""

from collections.abc import Sequence
from pathlib import Path

from phrasescore.cli.experiment_config import Experiment
from phrasescore.cli.experiment_rows import FILE_FEATURES


class Features:
    """Knows where each network is, and by which options a command gets what a row names."""

    def __init__(self, wanted: Experiment, folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder

    def model_folder(self, name: str) -> Path:
        """Return where a network is, or is going to be."""
        return self._wanted.models[name].path or self._folder / "models" / name

    def cslm_options(self, names: Sequence[str]) -> list[str]:
        """Return the options of a command that scores with some networks."""
        models = [self._wanted.models[name] for name in names if name in self._wanted.models]
        options = []
        for path in {model.backoff_lm for model in models} - {None}:
            options += ["--backoff-lm", str(path)]
        return [*options, *(["--unnormalized"] if any(m.unnormalized for m in models) else [])]

    def inputs(self, names: Sequence[str]) -> list[Path]:
        """Return the files and folders that networks and other features depend on."""
        models, files = self._wanted.models, self._wanted.feature_files
        found = [self.model_folder(name) for name in names if name in models]
        found += [path for name in names if (path := files.get(name)) is not None]
        backoff = {path for name in names if name in models and (path := models[name].backoff_lm)}
        return [*found, *sorted(backoff)]

    def options(self, names: Sequence[str]) -> list[str]:
        """Return the options of annotate and rescore that add networks and other features."""
        options = []
        for name in names:
            if name in self._wanted.models:
                options += ["--model", str(self.model_folder(name))]
            elif name in FILE_FEATURES:
                flag = f"--{name.replace('_', '-')}"
                options += [flag, str(self._wanted.feature_files[name])]
            else:
                options += ["--feature", name]
        return options
