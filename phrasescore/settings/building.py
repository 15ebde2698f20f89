"""Settings for building a phrase-based system from parallel text, and n-gram models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from phrasescore.arguments import Count, checked_language
from phrasescore.errors import ArgumentError
from phrasescore.settings.declaration import Settings, option, optional, switch

AlignerName = Literal["eflomal", "fast-align", "hmm"]


@dataclass(frozen=True, kw_only=True)
class TextPreparation(Settings, heading="Input"):
    """How a text becomes the training text."""

    # The languages of source and target, such as ("en", "fr").
    tokenize: Sequence[str] | None = optional(
        "Tokenise and escape the text with the rules of Moses' tokeniser for these languages, "
        "such as en fr; other languages get its general rules. By default, the text is tokenised "
        "already.",
        metavar="SOURCE TARGET",
    )
    lowercase: bool = switch("Lowercase the text.")
    truecase: bool = switch("Give the first word of each sentence its usual case.")
    characters: bool = switch("Split words into characters, to translate spelling.")
    max_sentence_length: Annotated[int, Meta(ge=1, le=1_000)] = option(
        80,
        "Leave out sentence pairs with more words on a side, or more than nine times as many on "
        "one side as on the other.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenize is not None and len(self.tokenize) != 2:
            raise ArgumentError(f"--tokenize: expected two languages, got {len(self.tokenize)}")
        codes = [checked_language("--tokenize", each) for each in self.tokenize or ()]
        object.__setattr__(self, "tokenize", tuple(codes) or None)
        if self.lowercase and self.truecase:
            raise ArgumentError("--lowercase and --truecase cannot be combined")


@dataclass(frozen=True, kw_only=True)
class Building(TextPreparation, heading="Alignment and phrases"):
    """Settings of `build`, which builds a phrase-based system."""

    aligner: AlignerName | None = optional(
        "The model that aligns words; fast-align is the fastest one.",
        shown="eflomal; hmm with --characters",
    )
    max_phrase_length: Annotated[int, Meta(ge=1, le=20)] | None = optional(
        "Number of words in the longest phrases.", shown="7; 10 with --characters"
    )
    lm_order: Annotated[int, Meta(ge=1, le=10)] | None = optional(
        "Number of words in the longest n-grams; Moses reads up to 6 by default.",
        shown="5; 6 with --characters",
    )

    # The values of settings that depend on ``characters``.

    @property
    def alignment_model(self) -> AlignerName:
        """The model that aligns words."""
        return self.aligner or ("hmm" if self.characters else "eflomal")

    @property
    def max_tokens(self) -> int:
        """The number of tokens of the longest sentences that the aligner aligns."""
        return 200 if self.alignment_model == "hmm" else 1024

    @property
    def order(self) -> int:
        """The order of the n-gram models."""
        return self.lm_order or (6 if self.characters else 5)

    @property
    def phrase_length(self) -> int:
        """The length of the longest phrases."""
        return self.max_phrase_length or (10 if self.characters else 7)


@dataclass(frozen=True, kw_only=True)
class Estimating(Settings, heading="N-grams"):
    """Settings of `build_lm`, which estimates an n-gram model."""

    order: Annotated[int, Meta(ge=1, le=10)] = option(
        5, "Number of words in the longest n-grams; KenLM reads up to 6 by default."
    )
    # As in lmplz, the last number holds for all higher orders.
    prune: Sequence[Count] = option(
        (),
        "For each order, from 1: leave out n-grams that occur this many times or less. '0 0 1' "
        "leaves out the n-grams from order 3 on that occur once.",
        metavar="'N ...'",
        shown="0",
    )
    discount_fallback: bool = option(
        False,
        "Use the discounts 0.5, 1 and 1.5 for orders whose discounts cannot be computed, as in "
        "small texts.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.prune) > self.order:
            raise ArgumentError(
                f"--prune: expected at most one number per order (--order {self.order}), got "
                f"{len(self.prune)}"
            )
        if list(self.prune) != sorted(self.prune):
            shown = " ".join(map(str, self.prune))
            raise ArgumentError(f"--prune: expected numbers that do not decrease, got '{shown}'")
