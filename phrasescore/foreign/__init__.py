"""Models from other toolkits, converted by CTranslate2.

Moses' words are joined to text, which is split into the pieces that CTranslate2 scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from phrasescore.arguments import checked_language
from phrasescore.errors import DataError
from phrasescore.io.plain_file import MAX_SUBWORDS, read_plain
from phrasescore.settings.declaration import Settings


@dataclass(frozen=True, kw_only=True)
class ForeignText(Settings):
    """The conversion between Moses' words and a foreign model's text.

    If there are no sentencepiece models, here or in the model's folder, the words are the tokens.
    """

    # The sentencepiece models; None for source.spm, target.spm or sentencepiece.bpe.model in the
    # folder.
    source_spm: str | None = None
    target_spm: str | None = None
    # The languages, whose rules join Moses' tokens.
    source_language: str = "en"
    target_language: str = "en"
    # Tokens to add before the source, such as eng_Latn for NLLB, and after it; None for </s> where
    # the model needs one and does not add it.
    source_prefix: str = ""
    source_suffix: str | None = None
    target_prefix: str = ""  # unscored tokens before the target, such as fra_Latn for NLLB
    # For a language model (GPT-2, Llama, Qwen): the text around the hypothesis, such as
    # 'English: {source}\\nFrench: {target}\\n'. {target}, by default at the end, is scored with the
    # text after it, or else with the end symbol.
    prompt: str | None = None
    moses_tokens: bool = False  # whether the model was trained on Moses' tokens, with their escapes
    # Whether Moses' words are truecased; those that begin a sentence get a capital.
    detruecase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("source_language", "target_language"):
            object.__setattr__(self, name, checked_language(name, getattr(self, name)))


class PieceText:
    """Converts Moses' words to pieces, for one side of a foreign model.

    1. The first word of a sentence is capitalized, as by Moses' detruecase.perl, if requested.
    2. Moses' escapes are undone and the words joined, as by detokenizer.perl; not for a model that
       was trained on Moses' tokens.
    3. sentencepiece splits the text. Without a sentencepiece model, the words are the pieces.

    :param spm: path of a sentencepiece model; None if words are the pieces.
    :param language: a code such as ``fr``, for the rules of Moses' tokenizer.
    :param joins: whether words are joined although there is no sentencepiece model.
    """

    def __init__(
        self,
        spm: str | None,
        language: str,
        *,
        moses_tokens: bool = False,
        detruecase: bool = False,
        joins: bool = False,
    ) -> None:
        from importlib.metadata import version  # slow, and needed by few commands

        import sacremoses

        self._spm: Any = None
        self._digest = "words"
        if spm is not None:
            self._spm, self._digest = _load_spm(spm)
        self._joins = not moses_tokens and (joins or spm is not None)
        self._detokenizer = sacremoses.MosesDetokenizer(lang=language)
        self._detruecaser = sacremoses.MosesDetruecaser() if detruecase else None
        rules = f"{language} sacremoses {version('sacremoses')}" if self._joins else "Moses' tokens"
        self._rules = f"{rules} detruecase" if detruecase else rules

    @property
    def fingerprint(self) -> str:
        """Everything on which the split into pieces depends, as text."""
        return f"{self._digest} {self._rules}"

    def text(self, words: Sequence[str]) -> str:
        """Return words as plain text, before it is split into pieces."""
        joined = " ".join(words)
        if self._detruecaser is not None:
            joined = self._detruecaser.detruecase(joined, return_str=True)
        if not self._joins:
            return joined
        text: str = self._detokenizer.detokenize(joined.split(" "))
        return text

    def pieces(self, words: Sequence[str]) -> list[str]:
        """Split words into the model's pieces; see the class."""
        text = self.text(words)
        if self._spm is None:
            return text.split(" ") if text else []
        pieces: list[str] = self._spm.encode(text, out_type=str)
        return pieces


def _load_spm(path: str) -> tuple[Any, str]:
    from importlib.metadata import version

    import sentencepiece

    from phrasescore.io.journal import new_digest  # imports xopen, which is slow

    try:
        data = read_plain(path, MAX_SUBWORDS)
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    try:
        # Without bytes, sentencepiece would write to stderr itself.
        processor = sentencepiece.SentencePieceProcessor(model_proto=data or b"\0")
        if not processor.get_piece_size():
            raise RuntimeError
    except RuntimeError as error:
        raise DataError(path, None, "expected a sentencepiece model") from error
    digest = new_digest(data).hexdigest()
    return processor, f"{digest} sentencepiece {version('sentencepiece')}"
