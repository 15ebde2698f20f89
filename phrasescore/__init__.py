"""Neural features for phrase-based statistical machine translation.

Everything that a command of ``phrasescore`` does is a function here, imported when it is first
asked for: ``import phrasescore`` imports no torch. `docs/library.md` has an example of each.
"""

import importlib
from typing import TYPE_CHECKING, Any

from phrasescore.devices import choose_waiting
from phrasescore.version import __version__ as __version__

if TYPE_CHECKING:
    from phrasescore.errors import StoppedError as StoppedError
    from phrasescore.features.column_spec import ColumnSpec as ColumnSpec
    from phrasescore.models.checkpoint import TrainingRecord as TrainingRecord
    from phrasescore.records import PhrasePair as PhrasePair
    from phrasescore.records import WeightPair as WeightPair
    from phrasescore.workflows.annotate import AnnotateSummary as AnnotateSummary
    from phrasescore.workflows.annotate import annotate as annotate
    from phrasescore.workflows.augment import AugmentSummary as AugmentSummary
    from phrasescore.workflows.augment import augment as augment
    from phrasescore.workflows.decode import DecodeSummary as DecodeSummary
    from phrasescore.workflows.decode import decode as decode
    from phrasescore.workflows.evaluate import evaluate as evaluate
    from phrasescore.workflows.evaluation import Evaluation as Evaluation
    from phrasescore.workflows.experiment.run import run_experiment as run_experiment
    from phrasescore.workflows.experiment.table import ExperimentTable as ExperimentTable
    from phrasescore.workflows.generate import GenerateSummary as GenerateSummary
    from phrasescore.workflows.generate import generate as generate
    from phrasescore.workflows.load_model import ScoringModel as ScoringModel
    from phrasescore.workflows.load_model import load_model as load_model
    from phrasescore.workflows.perplexity import TextPerplexities as TextPerplexities
    from phrasescore.workflows.perplexity import perplexity as perplexity
    from phrasescore.workflows.report import ReportSummary as ReportSummary
    from phrasescore.workflows.report import make_report as make_report
    from phrasescore.workflows.rerank import RerankSummary as RerankSummary
    from phrasescore.workflows.rerank import rerank as rerank
    from phrasescore.workflows.rescore import RescoreSummary as RescoreSummary
    from phrasescore.workflows.rescore import rescore as rescore
    from phrasescore.workflows.search_settings import SearchSettings as SearchSettings
    from phrasescore.workflows.segment import SegmentSummary as SegmentSummary
    from phrasescore.workflows.segment import segment as segment
    from phrasescore.workflows.select import SelectSummary as SelectSummary
    from phrasescore.workflows.select import select as select
    from phrasescore.workflows.show import TableFigures as TableFigures
    from phrasescore.workflows.show import show as show
    from phrasescore.workflows.train import train as train
    from phrasescore.workflows.tune.lists import TuneOutcome as TuneOutcome
    from phrasescore.workflows.tune.lists import tune as tune
    from phrasescore.workflows.tune.loop import LoopOutcome as LoopOutcome
    from phrasescore.workflows.tune.loop import tune_with_decoder as tune_with_decoder

# Where each public name is defined.
_HOMES = {
    "AnnotateSummary": "phrasescore.workflows.annotate",
    "AugmentSummary": "phrasescore.workflows.augment",
    "ColumnSpec": "phrasescore.features.column_spec",
    "DecodeSummary": "phrasescore.workflows.decode",
    "Evaluation": "phrasescore.workflows.evaluation",
    "ExperimentTable": "phrasescore.workflows.experiment.table",
    "GenerateSummary": "phrasescore.workflows.generate",
    "LoopOutcome": "phrasescore.workflows.tune.loop",
    "PhrasePair": "phrasescore.records",
    "ReportSummary": "phrasescore.workflows.report",
    "RerankSummary": "phrasescore.workflows.rerank",
    "RescoreSummary": "phrasescore.workflows.rescore",
    "ScoringModel": "phrasescore.workflows.load_model",
    "SearchSettings": "phrasescore.workflows.search_settings",
    "SegmentSummary": "phrasescore.workflows.segment",
    "SelectSummary": "phrasescore.workflows.select",
    "StoppedError": "phrasescore.errors",
    "TableFigures": "phrasescore.workflows.show",
    "TextPerplexities": "phrasescore.workflows.perplexity",
    "TrainingRecord": "phrasescore.models.checkpoint",
    "TuneOutcome": "phrasescore.workflows.tune.lists",
    "WeightPair": "phrasescore.records",
    "annotate": "phrasescore.workflows.annotate",
    "augment": "phrasescore.workflows.augment",
    "decode": "phrasescore.workflows.decode",
    "evaluate": "phrasescore.workflows.evaluate",
    "generate": "phrasescore.workflows.generate",
    "load_model": "phrasescore.workflows.load_model",
    "make_report": "phrasescore.workflows.report",
    "perplexity": "phrasescore.workflows.perplexity",
    "rerank": "phrasescore.workflows.rerank",
    "rescore": "phrasescore.workflows.rescore",
    "run_experiment": "phrasescore.workflows.experiment.run",
    "segment": "phrasescore.workflows.segment",
    "select": "phrasescore.workflows.select",
    "show": "phrasescore.workflows.show",
    "train": "phrasescore.workflows.train",
    "tune": "phrasescore.workflows.tune.lists",
    "tune_with_decoder": "phrasescore.workflows.tune.loop",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'phrasescore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]


choose_waiting()
