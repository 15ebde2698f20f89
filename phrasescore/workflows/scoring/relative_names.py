"""Columns in TOML files, whose relative names start in the folder of the file."""

import shlex
from dataclasses import replace

from phrasescore.features import ColumnSpec, command_words
from phrasescore.settings.toml_file import TomlTable


def resolved_column(column: ColumnSpec, table: TomlTable) -> ColumnSpec:
    """Return a column with absolute paths for the files that exist in the folder of the table.

    Commands, arguments of plug-ins, and sentencepiece models may name files.
    """
    if column.kind == "feature":
        return replace(column, value=table.resolve_arguments(column.value))
    if column.kind == "scores_command":
        program, *words = command_words(column.value)
        if "/" in program:
            program = table.resolve(program)
        return replace(column, value=shlex.join([program, *map(table.resolve, words)]))
    if column.foreign is not None:
        paths = (column.foreign.source_spm, column.foreign.target_spm)
        source, target = (path and table.resolve(path) for path in paths)
        text = replace(column.foreign, source_spm=source, target_spm=target)
        return replace(column, foreign=text)
    return column
