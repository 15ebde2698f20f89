"""The names of a command's files: none of those it writes is in another's way."""

from collections.abc import Sequence

import click

from phrasescore.errors import PhrasescoreError
from phrasescore.text import same_file


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Check names before anything is written.

    :param read: files that are read; None for one that is not.
    :param written: likewise.
    :raises click.UsageError: if two would share stdin or stdout.
    :raises PhrasescoreError: if one would overwrite another one.
    """
    if read.count("-") > 1 or written.count("-") > 1:
        raise click.UsageError("two files cannot share stdin or stdout")
    outputs = [name for name in written if name is not None]
    for place, name in enumerate(outputs):
        for other in (*read, *outputs[:place]):
            if other is not None and same_file(name, other):
                raise PhrasescoreError(f"{name}: would overwrite another file; name another one")
