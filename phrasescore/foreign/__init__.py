"""Translation models from other toolkits, converted by CTranslate2.

Moses' words become text, the text is split into pieces, and CTranslate2 computes with these.
"""

from dataclasses import dataclass

from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class ForeignText(Settings, heading="CTranslate2"):
    """The conversion between Moses' words and a foreign model's text.

    If there are no sentencepiece models, here or in the model's folder, the words are the tokens.
    """

    source_spm: str | None = option(
        None,
        "The sentencepiece model of the source.",
        metavar="FILE",
        shown="source.spm or sentencepiece.bpe.model of the folder",
    )
    target_spm: str | None = option(
        None,
        "The sentencepiece model of the target.",
        metavar="FILE",
        shown="target.spm or sentencepiece.bpe.model of the folder",
    )
    source_language: str = option(
        "en", "The language whose rules join Moses' tokens of the source.", metavar="CODE"
    )
    target_language: str = option("en", "The language of the target.", metavar="CODE")
    source_prefix: str = option(
        "", "Tokens before the source, such as eng_Latn for NLLB.", metavar="TOKENS"
    )
    source_suffix: str | None = option(
        None,
        "Tokens after the source.",
        metavar="TOKENS",
        shown="</s> where the model needs one and does not add it",
    )
    target_prefix: str = option(
        "", "Tokens before the target, which are not scored; fra_Latn for NLLB.", metavar="TOKENS"
    )
    moses_tokens: bool = option(
        False, "The model was trained on Moses' tokens, with their escapes."
    )
    detruecase: bool = option(
        False, "Moses' words are truecased; those that begin a sentence get a capital."
    )
