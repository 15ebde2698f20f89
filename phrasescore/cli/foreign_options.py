"""The options of models that CTranslate2 has converted, and of their texts."""

from dataclasses import replace
from typing import Any

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.subjects import FileName
from phrasescore.features import ColumnSpec
from phrasescore.foreign import ForeignText

# How the words of Moses become the pieces of a foreign model.
foreign_text = from_settings.of(
    ForeignText, source_spm={"type": FileName()}, target_spm={"type": FileName()}
)
foreign_models = options.together(
    options.files(
        "--ctranslate2 foreign_models",
        "A translation model that CTranslate2 has converted: adds log p(hypothesis | source).",
        "FOLDER",
    ),
    foreign_text,
)


def take_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Return the columns of a command that has `foreign_models`; see `options.take_columns`.

    :raises click.UsageError: if there are options of a foreign model, but no model.
    """
    text = from_settings.take(ForeignText, given)
    columns = options.take_columns(ctx, given)
    if all(column.kind != "ctranslate2" for column in columns):
        refuse_foreign_text(ctx)
    return [
        replace(column, foreign=text) if column.kind == "ctranslate2" else column
        for column in columns
    ]


def refuse_foreign_text(ctx: click.Context, *more: str) -> None:
    """Refuse the options of `foreign_text`, and more, if no foreign model uses them."""
    allowed = ctx.params.keys() - {*from_settings.names_of(ForeignText), *more}
    options.refuse_others(ctx, allowed, "only with --ctranslate2")
