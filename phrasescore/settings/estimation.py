"""Settings for estimating n-gram models."""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasescore.errors import ArgumentError
from phrasescore.settings.declaration import Settings, option


@dataclass(frozen=True, kw_only=True)
class Estimating(Settings, heading="N-grams"):
    """Settings of `build_lm`, which estimates an n-gram model."""

    order: int = option(
        5, "Number of words in the longest n-grams; KenLM reads up to 6 by default.", ge=1, le=10
    )
    # As in lmplz, the last number holds for all higher orders.
    prune: Sequence[int] = option(
        (),
        "For each order, from 1: leave out n-grams that occur this many times or less. '0 0 1' "
        "leaves out the n-grams from order 3 on that occur once.",
        ge=0,
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
