"""Columns in TOML files, whose relative names start in the folder of the file."""

import shlex
import shutil
from dataclasses import replace

from phrasescore.errors import ArgumentError
from phrasescore.features import ColumnSpec, command_words
from phrasescore.settings.toml_file import TomlTable


def resolved_column(column: ColumnSpec, table: TomlTable, key: str) -> ColumnSpec:
    """Return a column with absolute paths for the files that exist in the folder of the table.

    Commands, arguments of plug-ins, and sentencepiece models may name files.

    :param key: the key of the column, for messages.
    :raises ConfigError: if a command is malformed, or its program does not exist.
    """
    if column.kind == "feature":
        return replace(column, value=table.resolve_arguments(column.value))
    if column.kind == "command":
        try:
            program, *words = command_words(column.value)
        except ArgumentError as error:
            raise table.error(key, str(error)) from error
        if "/" in program:
            program = table.resolve(program)
        if shutil.which(program) is None:
            raise table.error(key, f"there is no program {program!r}")
        return replace(column, value=shlex.join([program, *map(table.resolve, words)]))
    if column.foreign is not None:
        paths = (column.foreign.source_spm, column.foreign.target_spm)
        source, target = (path and table.resolve(path) for path in paths)
        text = replace(column.foreign, source_spm=source, target_spm=target)
        return replace(column, foreign=text)
    return column
