"""The steps of an experiment that train its models: networks and an n-gram model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moses_integration.decoder.configuration import LANGUAGE_MODEL
from moses_integration.moses_ini import MosesIni
from phrasescore.errors import ConfigError
from phrasescore.language_models.ngram_scorer import read_ngram_order
from phrasescore.settings.building import Estimating
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTraining, NewNetwork
from phrasescore.workflows.bleu_training import BLEU_SHARE
from phrasescore.workflows.experiment.config import Experiment
from phrasescore.workflows.experiment.functions import Run
from phrasescore.workflows.experiment.rows import ModelPlan
from phrasescore.workflows.experiment.steps import Step

MONOLINGUAL_STEP = "build-lm monolingual"
_MONOLINGUAL_MODEL = "models/monolingual.arpa.gz"  # in the experiment's folder


@dataclass(frozen=True)
class NetworkSteps:
    """Plans the training of an experiment's networks."""

    wanted: Experiment
    folder: Path
    table: Path
    feature: str  # the first value that is added to the table, such as ``TranslationModel0_4``

    @property
    def _lists(self) -> Path:
        """The n-best lists of the training text, for BLEU."""
        return self.folder / "tables" / "folds"

    def of(self, models: Sequence[ModelPlan], first: Run) -> Iterator[Step]:
        """Yield the steps that train networks; ``first`` translates the text for those for BLEU."""
        fine_tuned = [model for model in models if model.objective == "bleu"]
        if fine_tuned:
            yield self._translate_folds(first)
        starts = map(self._start, models)
        yield from (self._train(model) for model in starts if not model.path)
        yield from map(self._fine_tune, fine_tuned)

    def _translate_folds(self, run: Run) -> Step:
        """Return the step that translates the training text with the weights of the first row."""
        data = self.wanted.data
        assert data.train is not None
        assert data.alignments is not None
        settings = {
            "system": run.folder,
            "source": data.train[0],
            "target": data.train[1],
            "alignments": data.alignments,
            "output": self._lists,
            "compute": self.wanted.engine.compute,
        }
        return Step(
            "translate folds",
            "write_fold_lists",
            settings,
            (*run.inputs, *data.train, data.alignments, run.weights),
            (self._lists,),
            (self._lists.with_name(f"{self._lists.name}.work"),),
        )

    def _start(self, model: ModelPlan) -> ModelPlan:
        """Return the network that training begins with; it is another one for BLEU."""
        if model.objective == "likelihood":
            return model
        if model.start is not None:
            return self.wanted.models.get(model.start) or ModelPlan(model.start, model.start)
        return replace(model, name=f"{model.name}.start", objective="likelihood")

    def _train(self, model: ModelPlan) -> Step:
        """Return the step that trains a network on the table or text."""
        data, kind = self.wanted.data, model.network
        if kind.scores_phrases:
            inputs: tuple[Path, ...] = (self.table,)
        else:
            if data.train is None:
                problem = f"is missing: expected the text that {model.name} is trained on"
                raise ConfigError(self.wanted.path, "[data] train", problem)
            inputs = data.train if kind.reads_source else (*data.train[1:], *data.monolingual)
        aligned = data.alignments if kind.is_aligned else None
        if aligned is None and kind.is_aligned:
            problem = f"is missing: expected the alignment that {model.name} is trained on"
            raise ConfigError(self.wanted.path, "[data] alignments", problem)
        network = NewNetwork(preset=model.preset, **model.directions, **model.changes)
        settings = {"inputs": inputs, "alignments": aligned, "settings": network}
        read = inputs if aligned is None else (*inputs, aligned)
        return self._training(model, "train", settings, read)

    def _fine_tune(self, model: ModelPlan) -> Step:
        """Return the step that trains a network further for BLEU."""
        data = self.wanted.data
        assert data.train is not None
        start = self.wanted.model_folder(self._start(model).name, self.folder)
        changes = model.changes
        if model.start is None:  # the changes are for the first part
            minutes = model.minutes and BLEU_SHARE * model.minutes
            changes = {"minutes": minutes, "seed": model.seed}
        settings = {
            "model": start,
            "lists": self._lists,
            "source": data.train[0],
            "target": data.train[1],
            "settings": ListTraining(feature=self.feature, **changes),
        }
        return self._training(model, "fine_tune", settings, (start, self._lists, *data.train))

    def _training(
        self, model: ModelPlan, function: str, settings: dict[str, Any], read: tuple[Path, ...]
    ) -> Step:
        output = self.wanted.model_folder(model.name, self.folder)
        compute = Compute(threads=model.threads or self.wanted.engine.threads)
        return Step(
            f"train {model.name}",
            function,
            {"kind": model.kind, **settings, "output": output, "compute": compute},
            read,
            (output,),
            (output.with_name(f"{output.name}.work"),),
        )


def ngram_order(ini: MosesIni) -> int:
    """Return the order of the first n-gram model in a moses.ini, or the usual one without any."""
    for feature in ini.features:
        arguments = dict(feature.arguments)
        order, path = arguments.get("order") or "", arguments.get("path")
        if feature.kind == LANGUAGE_MODEL and path:
            return int(order) if order.isdecimal() else read_ngram_order(ini.resolve(path))
    return Estimating().order


def add_ngram_model(ini: MosesIni, texts: tuple[Path, ...], order: int, folder: Path) -> Step:
    """Add the n-gram model of texts to the moses.ini of an experiment; return its step.

    As in `build`, its weight is 0.5, and a small text has fixed discounts.
    """
    arguments = {"factor": "0", "path": _MONOLINGUAL_MODEL, "order": str(order)}
    ini.set_weights({ini.add_feature(LANGUAGE_MODEL, "LM", arguments): (0.5,)})
    settings = Estimating(order=order, discount_fallback=True)
    output = folder / _MONOLINGUAL_MODEL
    return Step(
        MONOLINGUAL_STEP,
        "build_lm",
        {"texts": texts, "output": output, "settings": settings},
        texts,
        (output,),
    )
