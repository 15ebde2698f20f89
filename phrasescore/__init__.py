"""Neural features for phrase-based statistical machine translation.

Every command of ``phrasescore`` is a function here, imported on first use: ``import phrasescore``
does not import torch. `docs/library.md` has an example of each. These parameters and exceptions
are common to all of them:

:param output: like other files to write: ``-`` is stdout, a name in ``.gz`` is compressed, and a
    file appears whole or not at all. For files to read, ``-`` is stdin, and gzip is recognised.
:param model: like other models: the folder of a trained model.
:param compute: the device, precision, threads and engine of the networks, a `Compute`.
:param settings: the other options of the command; their fields are described at the class.
:param progress: a callable that regularly gets a `phrasescore.progress.Progress`.
:raises ArgumentError: if a value is out of range, or arguments do not go together.
:raises DataError: if an input file is malformed.
:raises ModelError: if a model cannot be loaded or used, or gives a score that is not finite.
:raises PhrasescoreError: if a file cannot be written, or would overwrite another one.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from phrasescore.version import __version__ as __version__

if TYPE_CHECKING:
    from phrasescore.errors import StoppedError as StoppedError
    from phrasescore.features import ColumnSpec as ColumnSpec
    from phrasescore.foreign import ForeignText as ForeignText
    from phrasescore.models.checkpoint import TrainingRecord as TrainingRecord
    from phrasescore.records import PhrasePair as PhrasePair
    from phrasescore.records import WeightPair as WeightPair
    from phrasescore.settings.compute import Compute as Compute
    from phrasescore.settings.scoring import Rescoring as Rescoring
    from phrasescore.settings.scoring import TextScoring as TextScoring
    from phrasescore.workflows.annotate import AnnotateSummary as AnnotateSummary
    from phrasescore.workflows.annotate import annotate as annotate
    from phrasescore.workflows.augment import AugmentSummary as AugmentSummary
    from phrasescore.workflows.augment import augment as augment
    from phrasescore.workflows.combine import CombineSummary as CombineSummary
    from phrasescore.workflows.combine import combine as combine
    from phrasescore.workflows.decode import DecodeSummary as DecodeSummary
    from phrasescore.workflows.decode import decode as decode
    from phrasescore.workflows.doctor import Diagnosis as Diagnosis
    from phrasescore.workflows.doctor import doctor as doctor
    from phrasescore.workflows.evaluate import Evaluation as Evaluation
    from phrasescore.workflows.evaluate import evaluate as evaluate
    from phrasescore.workflows.experiment.run import run_experiment as run_experiment
    from phrasescore.workflows.experiment.snakemake import export_experiment as export_experiment
    from phrasescore.workflows.experiment.table import ExperimentTable as ExperimentTable
    from phrasescore.workflows.export import ExportSummary as ExportSummary
    from phrasescore.workflows.export import export as export
    from phrasescore.workflows.fine_tune import fine_tune as fine_tune
    from phrasescore.workflows.generate import GenerateSummary as GenerateSummary
    from phrasescore.workflows.generate import generate as generate
    from phrasescore.workflows.generate_foreign import (
        ForeignGenerateSummary as ForeignGenerateSummary,
    )
    from phrasescore.workflows.generate_foreign import generate_foreign as generate_foreign
    from phrasescore.workflows.list_features import FeatureList as FeatureList
    from phrasescore.workflows.list_features import ListedName as ListedName
    from phrasescore.workflows.list_features import list_features as list_features
    from phrasescore.workflows.list_rescorer import RescoreSummary as RescoreSummary
    from phrasescore.workflows.load_model import ScoringModel as ScoringModel
    from phrasescore.workflows.load_model import load_model as load_model
    from phrasescore.workflows.perplexity import PerplexitySummary as PerplexitySummary
    from phrasescore.workflows.perplexity import TextPerplexities as TextPerplexities
    from phrasescore.workflows.perplexity import perplexity as perplexity
    from phrasescore.workflows.report import ReportSummary as ReportSummary
    from phrasescore.workflows.report import make_report as make_report
    from phrasescore.workflows.rerank import RerankSummary as RerankSummary
    from phrasescore.workflows.rerank import rerank as rerank
    from phrasescore.workflows.rescore import rescore as rescore
    from phrasescore.workflows.score import ScoreSummary as ScoreSummary
    from phrasescore.workflows.score import score as score
    from phrasescore.workflows.search_settings import SearchSettings as SearchSettings
    from phrasescore.workflows.segment import SegmentSummary as SegmentSummary
    from phrasescore.workflows.segment import segment as segment
    from phrasescore.workflows.select import SelectSummary as SelectSummary
    from phrasescore.workflows.select import select as select
    from phrasescore.workflows.show import TableFigures as TableFigures
    from phrasescore.workflows.show import show as show
    from phrasescore.workflows.train import TrainSummary as TrainSummary
    from phrasescore.workflows.train import train as train
    from phrasescore.workflows.tune.lists import TuneOutcome as TuneOutcome
    from phrasescore.workflows.tune.lists import tune as tune
    from phrasescore.workflows.tune.loop import LoopOutcome as LoopOutcome
    from phrasescore.workflows.tune.loop import tune_with_decoder as tune_with_decoder

# The public names of each module.
_NAMES = {
    "engines": ("Compute",),
    "errors": ("StoppedError",),
    "features": ("ColumnSpec",),
    "foreign": ("ForeignText",),
    "models.checkpoint": ("TrainingRecord",),
    "records": ("PhrasePair", "WeightPair"),
    "settings.compute": ("Compute",),
    "settings.scoring": ("Rescoring", "TextScoring"),
    "workflows.annotate": ("AnnotateSummary", "annotate"),
    "workflows.augment": ("AugmentSummary", "augment"),
    "workflows.combine": ("CombineSummary", "combine"),
    "workflows.decode": ("DecodeSummary", "decode"),
    "workflows.doctor": ("Diagnosis", "doctor"),
    "workflows.evaluate": ("Evaluation", "evaluate"),
    "workflows.experiment.run": ("run_experiment",),
    "workflows.experiment.snakemake": ("export_experiment",),
    "workflows.experiment.table": ("ExperimentTable",),
    "workflows.export": ("ExportSummary", "export"),
    "workflows.fine_tune": ("fine_tune",),
    "workflows.generate": ("GenerateSummary", "generate"),
    "workflows.generate_foreign": ("ForeignGenerateSummary", "generate_foreign"),
    "workflows.list_features": ("FeatureList", "ListedName", "list_features"),
    "workflows.load_model": ("ScoringModel", "load_model"),
    "workflows.perplexity": ("PerplexitySummary", "TextPerplexities", "perplexity"),
    "workflows.report": ("ReportSummary", "make_report"),
    "workflows.rerank": ("RerankSummary", "rerank"),
    "workflows.list_rescorer": ("RescoreSummary",),
    "workflows.rescore": ("rescore",),
    "workflows.score": ("ScoreSummary", "score"),
    "workflows.search_settings": ("SearchSettings",),
    "workflows.segment": ("SegmentSummary", "segment"),
    "workflows.select": ("SelectSummary", "select"),
    "workflows.show": ("TableFigures", "show"),
    "workflows.train": ("TrainSummary", "train"),
    "workflows.tune.lists": ("TuneOutcome", "tune"),
    "workflows.tune.loop": ("LoopOutcome", "tune_with_decoder"),
}
_HOMES = {name: f"phrasescore.{home}" for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'phrasescore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]


# By default, the threads of torch's OpenMP library spin long while they wait for one another.
# Beside other work, one then spins while the one it waits for has no core: training by two threads
# on two busy cores was ten times slower than with one. Waiting passively at once costs a tenth of
# the speed on free cores. The library reads this when it is loaded; results do not depend on it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
