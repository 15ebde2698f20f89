"""Neural features for phrase-based statistical machine translation.

Every command of ``phrasescore`` is a function here, imported on first use: ``import phrasescore``
does not import torch. `docs/library.md` has an example of each. These parameters and exceptions
are common to all of them:

:param output: the file to write. For all outputs, ``-`` is stdout, a name that ends in ``.gz`` is
    compressed, and the file appears whole or not at all. For inputs, ``-`` is stdin, and gzip is
    recognised.
:param model: the folder of a trained model, as for all parameters that name a model.
:param compute: a `Compute`: the device, precision, threads and engine for the networks.
:param settings: the other options of the command; their fields are described at the class.
:param progress: a callable that is regularly called with a `phrasescore.progress.Progress`.
:raises ArgumentError: if a value is out of range, or arguments cannot be combined.
:raises DataError: if an input file is malformed.
:raises ModelError: if a model cannot be loaded or used, or gives a score that is not finite.
:raises PhrasescoreError: if a file cannot be written, or would overwrite another one.
"""

import importlib
import os
import re
from pathlib import Path
from typing import Any

from phrasescore.version import __version__ as __version__

# Each name is declared once, in the stub, which type checkers read as well, below an example.
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {
    name: (home, re.sub("^# ", "        ", example, flags=re.MULTILINE))
    for example, home, name in re.findall(
        r"((?:^# .*\n)+)from (\S+) import (\w+) as", _STUB, re.MULTILINE
    )
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home, example = _HOMES[name]
        found = getattr(importlib.import_module(home), name)
        if example not in (text := found.__doc__ or ""):  # for help()
            found.__doc__ = f"{text.rstrip()}\n\n    Example::\n\n{example}"
        return found
    raise AttributeError(f"module 'phrasescore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


# By default, the threads of torch's OpenMP library spin long while they wait for one another.
# When other work uses the cores, a thread may spin while the thread it waits for has no core:
# training with two threads on two busy cores was ten times slower than with one. Passive waiting
# costs a tenth of the speed on free cores. The library reads the variable when it is loaded;
# results do not depend on it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
