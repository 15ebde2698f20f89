"""The options of models that CTranslate2 has converted, and of their texts."""

from dataclasses import replace
from typing import Any

import click

from phrasescore.cli import options
from phrasescore.features import ColumnSpec
from phrasescore.foreign import ForeignText

# The parameters of a command of which `take_foreign_text` makes the text of a foreign model.
OF_FOREIGN_TEXT = (
    *("source_spm", "target_spm", "source_language", "target_language"),
    *("source_prefix", "source_suffix", "target_prefix", "moses_tokens", "detruecase"),
)


def take_columns(ctx: click.Context, given: dict[str, Any]) -> list[ColumnSpec]:
    """Return the columns of a command that has `foreign_models`; see `options.take_columns`.

    :raises click.UsageError: if there are options of a foreign model, and there is none.
    """
    text = take_foreign_text(given)
    columns = options.take_columns(ctx, given)
    if all(column.kind != "ctranslate2" for column in columns):
        refuse_foreign_text(ctx)
    return [
        replace(column, foreign=text) if column.kind == "ctranslate2" else column
        for column in columns
    ]


def take_foreign_text(given: dict[str, Any]) -> ForeignText:
    """Remove the options of `foreign_text` from what a command got, and return what they say."""
    return ForeignText(**{name: given.pop(name) for name in OF_FOREIGN_TEXT})


def refuse_foreign_text(ctx: click.Context, *more: str) -> None:
    """Refuse the options of `foreign_text`, and more, where there is no model that they are for."""
    allowed = ctx.params.keys() - {*OF_FOREIGN_TEXT, *more}
    options.refuse_others(ctx, allowed, "only with --ctranslate2")


# How the words of Moses become the pieces of a foreign model.
foreign_text = options.together(
    options.file(
        "--source-spm",
        "Of --ctranslate2: its model of sentencepiece for the source.",
        show_default="source.spm or sentencepiece.bpe.model of the folder",
    ),
    options.file(
        "--target-spm",
        "Of --ctranslate2: the same for the target.",
        show_default="target.spm or sentencepiece.bpe.model of the folder",
    ),
    options.option(
        "--source-language",
        "Of --ctranslate2: by whose rules Moses' tokens of the source are joined.",
        metavar="CODE",
        default="en",
    ),
    options.option(
        "--target-language", "Of --ctranslate2: of the target.", metavar="CODE", default="en"
    ),
    options.option(
        "--source-prefix",
        "Of --ctranslate2: tokens before the source, such as eng_Latn for NLLB.",
        metavar="TOKENS",
        default="",
    ),
    options.option(
        "--source-suffix",
        "Of --ctranslate2: tokens after the source.",
        metavar="TOKENS",
        show_default="</s> where the model needs one and does not add it",
    ),
    options.option(
        "--target-prefix",
        "Of --ctranslate2: tokens before the target, which are not scored; fra_Latn for NLLB.",
        metavar="TOKENS",
        default="",
    ),
    options.flag(
        "--moses-tokens", "Of --ctranslate2: it was trained on Moses' tokens, escapes and all."
    ),
    options.flag(
        "--detruecase",
        "Of --ctranslate2: Moses' words are truecased; those that begin a sentence get a capital.",
    ),
)
foreign_models = options.together(
    options.files(
        "--ctranslate2 foreign_models",
        "A translation model that CTranslate2 has converted: adds log p(hypothesis | source).",
        "FOLDER",
    ),
    foreign_text,
)
