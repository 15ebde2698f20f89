"""Translation models from other toolkits, converted by CTranslate2.

Moses' words become text, the text is split into pieces, and CTranslate2 computes with these.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignText:
    """How a foreign model's text relates to Moses' words.

    If there are no sentencepiece models, here or in the model's folder, the words are the tokens.
    """

    # Paths of sentencepiece models; None for those in the model's folder.
    source_spm: str | None = None
    target_spm: str | None = None
    # Language codes for Moses' (de)tokenizer.
    source_language: str = "en"
    target_language: str = "en"
    # Tokens before the source, separated by spaces, such as a language code.
    source_prefix: str = ""
    # Tokens after the source; None for </s> if the model needs one and does not add it.
    source_suffix: str | None = None
    # Tokens before the target; they are given and not scored.
    target_prefix: str = ""
    # Whether the model was trained on Moses' tokens instead of plain text.
    moses_tokens: bool = False
    # Whether Moses' words are truecased and the model's words are not.
    detruecase: bool = False
