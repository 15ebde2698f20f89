"""Translation models from other toolkits, converted by CTranslate2.

Moses' words become text, the text is split into pieces, and CTranslate2 computes with these.
"""

from dataclasses import dataclass
from typing import Annotated

from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class ForeignText(Settings, heading="CTranslate2"):
    """The conversion between Moses' words and a foreign model's text.

    If there are no sentencepiece models, here or in the model's folder, the words are the tokens.
    """

    source_spm: Annotated[
        str | None,
        option(
            "The sentencepiece model of the source.",
            metavar="FILE",
            shown="source.spm or sentencepiece.bpe.model of the folder",
        ),
    ] = None
    target_spm: Annotated[
        str | None,
        option(
            "The sentencepiece model of the target.",
            metavar="FILE",
            shown="target.spm or sentencepiece.bpe.model of the folder",
        ),
    ] = None
    source_language: Annotated[
        str,
        option("The language whose rules join Moses' tokens of the source.", metavar="CODE"),
    ] = "en"
    target_language: Annotated[str, option("The language of the target.", metavar="CODE")] = "en"
    source_prefix: Annotated[
        str, option("Tokens before the source, such as eng_Latn for NLLB.", metavar="TOKENS")
    ] = ""
    source_suffix: Annotated[
        str | None,
        option(
            "Tokens after the source.",
            metavar="TOKENS",
            shown="</s> where the model needs one and does not add it",
        ),
    ] = None
    target_prefix: Annotated[
        str,
        option(
            "Tokens before the target, which are not scored; fra_Latn for NLLB.", metavar="TOKENS"
        ),
    ] = ""
    moses_tokens: Annotated[
        bool, option("The model was trained on Moses' tokens, with their escapes.")
    ] = False
    detruecase: Annotated[
        bool,
        option("Moses' words are truecased; those that begin a sentence get a capital."),
    ] = False
