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
    from phrasescore.workflows.rescore import RescoreSummary as RescoreSummary
    from phrasescore.workflows.rescore import rescore as rescore

__version__ = "0.1.0"

# Where each public name is defined.
_HOMES = {
    "ColumnSpec": "phrasescore.features.column_spec",
    "PhrasePair": "phrasescore.records",
    "RescoreSummary": "phrasescore.workflows.rescore",
    "rescore": "phrasescore.workflows.rescore",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'phrasescore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]


choose_waiting()
