"""Neural features for phrase-based statistical machine translation.

Everything that a command of ``phrasescore`` does is a function here, imported when it is first
asked for: ``import phrasescore`` imports no torch. `docs/library.md` has an example of each.
"""

import importlib
from typing import TYPE_CHECKING, Any

from phrasescore.openmp import choose_waiting

if TYPE_CHECKING:
    from phrasescore.features.column_spec import ColumnSpec as ColumnSpec
    from phrasescore.records import PhrasePair as PhrasePair
    from phrasescore.workflows.evaluate import evaluate as evaluate
    from phrasescore.workflows.evaluation import Evaluation as Evaluation
    from phrasescore.workflows.load_model import ScoringModel as ScoringModel
    from phrasescore.workflows.load_model import load_model as load_model
    from phrasescore.workflows.perplexity import TextPerplexities as TextPerplexities
    from phrasescore.workflows.perplexity import perplexity as perplexity
    from phrasescore.workflows.rerank import RerankSummary as RerankSummary
    from phrasescore.workflows.rerank import rerank as rerank
    from phrasescore.workflows.rescore import RescoreSummary as RescoreSummary
    from phrasescore.workflows.rescore import rescore as rescore
    from phrasescore.workflows.select import SelectSummary as SelectSummary
    from phrasescore.workflows.select import select as select
    from phrasescore.workflows.show import TableFigures as TableFigures
    from phrasescore.workflows.show import show as show

__version__ = "0.1.0"

# Where each public name is defined.
_HOMES = {
    "ColumnSpec": "phrasescore.features.column_spec",
    "Evaluation": "phrasescore.workflows.evaluation",
    "PhrasePair": "phrasescore.records",
    "RerankSummary": "phrasescore.workflows.rerank",
    "RescoreSummary": "phrasescore.workflows.rescore",
    "ScoringModel": "phrasescore.workflows.load_model",
    "SelectSummary": "phrasescore.workflows.select",
    "TableFigures": "phrasescore.workflows.show",
    "TextPerplexities": "phrasescore.workflows.perplexity",
    "evaluate": "phrasescore.workflows.evaluate",
    "load_model": "phrasescore.workflows.load_model",
    "perplexity": "phrasescore.workflows.perplexity",
    "rerank": "phrasescore.workflows.rerank",
    "rescore": "phrasescore.workflows.rescore",
    "select": "phrasescore.workflows.select",
    "show": "phrasescore.workflows.show",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'phrasescore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]


choose_waiting()
