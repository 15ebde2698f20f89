"""Networks from elsewhere: translation models that CTranslate2 has converted.

Words of Moses become text, the text becomes pieces, and CTranslate2 computes with those.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignText:
    """What a foreign model reads and writes, in terms of Moses' words.

    Without sentencepiece models, and without such in the model's folder, the words are its tokens.
    """

    # Files of sentencepiece; None for those in the model's folder.
    source_spm: str | None = None
    target_spm: str | None = None
    # Codes of the languages, for Moses' (de)tokenizer.
    source_language: str = "en"
    target_language: str = "en"
    # Tokens before the source, separated by spaces, such as a code of the language.
    source_prefix: str = ""
    # Tokens after the source; None for </s> where the model needs one and does not add it.
    source_suffix: str | None = None
    # Tokens before the target: they are given, and not scored.
    target_prefix: str = ""
    # Whether the model was trained on Moses' tokens, and not on plain text.
    moses_tokens: bool = False
    # Whether Moses' words are truecased and the model's are not.
    detruecase: bool = False
