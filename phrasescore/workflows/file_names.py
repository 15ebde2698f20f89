"""The names of a workflow's files: no file that it writes replaces one that it reads."""

import os
from collections.abc import Iterable, Sequence

from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.text import same_file

# The names in phrasescore.models.checkpoint, whose import takes seconds.
_WEIGHTS = "model.safetensors"
_OF_A_MODEL = {_WEIGHTS, "config.toml", "source.vocab", "target.vocab", "training.json"}


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check names before anything is written.

    :param read: files that are read; None for one that was not given.
    :param written: files that are written; None for one that was not given.
    :raises ArgumentError: if two files would share stdin or stdout.
    :raises PhrasescoreError: if a file to write has no name, or would overwrite another file or
        a part of a model.
    """
    if read.count("-") > 1 or written.count("-") > 1:
        raise ArgumentError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    check_named(outputs)
    for place, name in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
    check_models_stay(outputs)


def check_named(written: Iterable[str]) -> None:
    """Check that the files to write have names: a variable of the shell may have been empty.

    :raises PhrasescoreError: if a name is empty.
    """
    if "" in written:
        raise PhrasescoreError("expected the name of a file to write, found ''")


def check_models_stay(written: Iterable[str]) -> None:
    """Check that no file to write is a part of an existing model.

    :raises PhrasescoreError: if one is.
    """
    for name in written:
        folder, base = os.path.split(os.path.realpath(name))
        if base in _OF_A_MODEL and os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise PhrasescoreError(f"{name}: would overwrite a part of a model; name another file")
