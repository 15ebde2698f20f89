"""Score text under language models with only a decoder (GPT-2, Llama, Qwen), with CTranslate2."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from phrasescore.errors import ModelError
from phrasescore.foreign import ForeignText, PieceText
from phrasescore.foreign.model import ConvertedConfig, ConvertedModel, Pieces, PieceScore
from phrasescore.io.journal import new_digest
from phrasescore.records import PhrasePair

_TOKENIZER = "tokenizer.json"
_SOURCE, _TARGET = "{source}", "{target}"
# The settings of `ForeignText` that only translation models have.
_OF_TRANSLATION = ("source_spm", "target_spm", "source_prefix", "source_suffix", "target_prefix")

Tokens = tuple[Pieces, int]  # the tokens of a text, and the number of them before the scored ones


def is_generator(folder: str) -> bool:
    """Return whether a model has only a decoder, such as GPT-2, and therefore one vocabulary."""
    return any(os.path.exists(f"{folder}/vocabulary.{end}") for end in ("json", "txt"))


class GeneratorModel(ConvertedModel[Tokens]):
    """A language model with its tokenizer."""

    kind = "Generator"

    def __init__(
        self, folder: str, text: ForeignText, device: str = "cpu", threads: int = 1
    ) -> None:
        super().__init__(folder, device, threads)
        for name in text.changed():
            if name in _OF_TRANSLATION:
                problem = "is for translation models, and this is a language model"
                raise ModelError(f"{folder}: {name} {problem}")
        self._template = (text.prompt or "").replace("\\n", "\n")
        if _TARGET not in self._template:
            self._template += _TARGET
        self._before, _, self._after = self._template.partition(_TARGET)
        if _TARGET in self._after:
            raise ModelError(f"{folder}: prompt: expected {_TARGET} once, got {text.prompt!r}")
        side = partial(
            PieceText, None, moses_tokens=text.moses_tokens, detruecase=text.detruecase, joins=True
        )
        self._source, self._target = side(text.source_language), side(text.target_language)
        self.config = self.read_config(ConvertedConfig)
        if find_spec("tokenizers") is None:
            raise ModelError(f"{folder}: needs tokenizers: pip install 'phrasescore[ctranslate2]'")
        if _TOKENIZER not in self.files:
            problem = f"the language model's tokenizer is missing: copy its {_TOKENIZER}"
            raise ModelError(f"{folder}: {problem} into the folder")
        self.known = self.vocabulary("vocabulary")
        self._tokenizer, self._digest = self._load_tokenizer(self.read(_TOKENIZER))
        # The tokens that the tokenizer adds before each text, such as Llama's <s>.
        example = self._tokenizer.encode("a")
        added = "".join(map(str, example.special_tokens_mask)).partition("0")[0]
        self._start = tuple(example.tokens[: len(added)])

    def _load_tokenizer(self, data: bytes) -> tuple[Any, str]:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_buffer(data)
        except Exception as error:  # it has no class of its own
            problem = f"expected a tokenizer of Hugging Face: {str(error)[:200]}"
            path = os.path.join(self.folder, _TOKENIZER)
            raise ModelError(f"{path}: {problem}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer, f"{new_digest(data).hexdigest()} tokenizers {version('tokenizers')}"

    @cached_property
    def fingerprint(self) -> str:
        """Everything on which scores depend besides the pairs and the device, as text."""
        sides = (self._source.fingerprint, self._target.fingerprint)
        return self.digest(*sides, self._digest, repr(self._template))

    def frame(self) -> str:
        """Return the text around a source and a target, for display."""
        return f"{self._template!r}, scored from {_TARGET} to the end"

    def count_unknown(self, tokens: Pieces) -> int:
        """Return the number of tokens that the model does not know."""
        return sum(token not in self.known for token in tokens)

    def tokens(self, pair: PhrasePair) -> Tokens:
        """Return the tokens of the prompt and a hypothesis, and the number of unscored ones.

        A token with a character of the hypothesis is scored, even if it begins in the prompt. The
        hypothesis ends with the text after it in the prompt, or else with the end symbol. The begin
        symbol comes first if there is nothing else to begin with.
        """
        before = self._before.replace(_SOURCE, self._source.text(pair.source))
        after = self._after.replace(_SOURCE, self._source.text(pair.source))
        text = f"{before}{self._target.text(pair.target)}{after}"
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        unscored = [end <= len(before) for _, end in encoding.offsets] if before else []
        tokens = (*self._start, *encoding.tokens)
        first = len(self._start) + (unscored.index(False) if False in unscored else len(unscored))
        if not first:
            tokens, first = (self.config.bos_token or self.config.eos_token, *tokens), 1
        return (tokens if after else (*tokens, self.config.eos_token)), first

    def score(self, pairs: Sequence[PhrasePair]) -> list[PieceScore]:
        """Return log p(target and its end | prompt) of each pair, with counts.

        Values are natural logarithms, summed over the tokens, and not divided by length.
        """
        items = list(map(self.tokens, pairs))
        return self.score_items(items, lambda item: (len(item[0]),))

    def score_batch(self, batch: list[Tokens]) -> Iterator[PieceScore]:
        """Yield the scores of at least two texts with equal numbers of tokens."""
        try:
            results = self.loaded.score_batch([list(each) for each, _ in batch], max_input_length=0)
        except (RuntimeError, ValueError) as error:
            raise self.refused(error, "".join(batch[0][0])) from error
        for (tokens, first), result in zip(batch, results, strict=True):
            value = self.log_prob(result.log_probs[first - 1 :], "".join(tokens))
            yield PieceScore(value, len(tokens), self.count_unknown(tokens))
