"""The names of a command's files: none of those it writes is in another's way."""

import os
from collections.abc import Iterable, Sequence

import click

from phrasescore.errors import PhrasescoreError
from phrasescore.io.text import same_file

# As phrasescore.models.checkpoint has them, whose import takes seconds.
_WEIGHTS = "model.safetensors"
_OF_A_MODEL = {_WEIGHTS, "config.toml", "source.vocab", "target.vocab", "training.json"}


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check names before anything is written.

    :param read: files that are read; None for one that is not.
    :param written: likewise.
    :raises click.UsageError: if two would share stdin or stdout.
    :raises PhrasescoreError: if one has no name, or would overwrite another one or a part of a
        model.
    """
    if read.count("-") > 1 or written.count("-") > 1:
        raise click.UsageError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    check_named(outputs)
    for place, name in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
    check_models_stay(outputs)


def check_named(written: Iterable[str]) -> None:
    """Check that the files to write have names: a variable of the shell may have had none to give.

    :raises PhrasescoreError: if one has none.
    """
    if "" in written:
        raise PhrasescoreError("expected the name of a file to write, found ''")


def check_models_stay(written: Iterable[str]) -> None:
    """Check that none of the files that are written is a part of a model that is there.

    :raises PhrasescoreError: if one is.
    """
    for name in written:
        folder, base = os.path.split(os.path.realpath(name))
        if base in _OF_A_MODEL and os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise PhrasescoreError(f"{name}: would overwrite a part of a model; name another file")
