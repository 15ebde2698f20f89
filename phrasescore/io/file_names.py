"""Names of files, as workflows get them, and checks of them before any file is written."""

import os
from collections.abc import Sequence

from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.output import check_output
from phrasescore.io.text import same_file

# As phrasescore.models.checkpoint has them, whose import takes seconds.
_WEIGHTS = "model.safetensors"
_FILES_OF_A_MODEL = {_WEIGHTS, "config.toml", "source.vocab", "target.vocab", "training.json"}


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check that every file to write has a name of its own, and a folder that can hold it.

    :param read: names of the files to read, and None in place of those that are not wanted.
    :param written: the same of the files to write.
    :raises ArgumentError: if two files would share stdin or stdout.
    :raises PhrasescoreError: if a file to write has no name, would overwrite another file or
        a part of a model, or cannot be written where its name says.
    """
    if read.count("-") > 1 or written.count("-") > 1:
        raise ArgumentError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    for place, name in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
        folder, base = os.path.split(os.path.realpath(name))
        if base in _FILES_OF_A_MODEL and os.path.isfile(os.path.join(folder, _WEIGHTS)):
            raise PhrasescoreError(f"{name}: would overwrite a part of a model; name another file")
        check_output(name)


def optional_path(path: str | os.PathLike[str] | None) -> str | None:
    """Return the path of a file that need not be given, as a string."""
    return None if path is None else os.fspath(path)
