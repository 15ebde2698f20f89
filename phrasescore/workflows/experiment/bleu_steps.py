"""The steps of an experiment that prepare training for BLEU."""

from pathlib import Path
from typing import Any

from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTraining
from phrasescore.workflows.bleu_training import BLEU_SHARE
from phrasescore.workflows.experiment.config import Data
from phrasescore.workflows.experiment.functions import Run
from phrasescore.workflows.experiment.rows import ModelPlan
from phrasescore.workflows.experiment.steps import Step


def make_lists(data: Data, run: Run, output: Path, compute: Compute) -> Step:
    """Return the step that translates the training text with the weights of the first row."""
    assert data.train is not None
    assert data.alignments is not None
    settings = {
        "system": run.folder,
        "source": data.train[0],
        "target": data.train[1],
        "alignments": data.alignments,
        "output": output,
        "compute": compute,
    }
    return Step(
        "translate folds",
        "write_fold_lists",
        settings,
        (*run.inputs, *data.train, data.alignments, run.weights),
        (output,),
        (output.with_name(f"{output.name}.work"),),
        "n-best lists of the training text, with tables of the rest of it",
    )


def fine_tuning(
    model: ModelPlan, data: Data, feature: str, start: Path, lists: Path
) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Return the settings and the inputs of the step that trains a network further for BLEU.

    :param feature: the network's value in the phrase table, such as ``TranslationModel0_4``.
    :param start: the network that is trained further.
    """
    assert data.train is not None
    changes = model.changes
    if model.start is None:  # the changes are for the first part
        minutes = model.minutes and BLEU_SHARE * model.minutes
        changes = {"minutes": minutes, "seed": model.seed}
    settings = {
        "model": start,
        "lists": lists,
        "source": data.train[0],
        "target": data.train[1],
        "settings": ListTraining(feature=feature, **changes),
    }
    return settings, (start, lists, *data.train)
