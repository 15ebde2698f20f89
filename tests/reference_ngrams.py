"""Modified Kneser-Ney smoothing (Chen and Goodman, 1998) as lmplz defines it, in plain Python."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

Gram = tuple[str, ...]


class ReferenceNgrams:
    """The base-10 log-probability and back-off weight of each n-gram, in ``values``."""

    def __init__(
        self,
        sentences: Sequence[Gram],
        order: int,
        prune: Sequence[int] = (),
        fallback: bool = True,
    ) -> None:
        self.order, self.fallback = order, fallback
        self.in_text: list[Counter[Gram]] = [Counter() for _ in range(order + 1)]
        for sentence in sentences:
            words = ("<s>", *sentence, "</s>")
            for size in range(1, order + 1):
                every = (words[at : at + size] for at in range(len(words) - size + 1))
                self.in_text[size].update(gram for gram in every if gram != ("<s>",))
        thresholds = [*prune, *[prune[-1] if prune else 0] * order]
        self.kept = [
            {
                gram
                for gram, count in self.in_text[size].items()
                if count > thresholds[size - 1] or gram == ("</s>",)
            }
            for size in range(1, order + 1)
        ]
        self.adjusted = [self._adjusted(size) for size in range(1, order + 1)]
        discounts = [self._discounts(size, sentences) for size in range(1, order + 1)]
        by_context: list[dict[Gram, list[Gram]]] = []
        for counts in self.adjusted:
            by_context.append(defaultdict(list))
            for gram in counts:
                by_context[-1][gram[:-1]].append(gram)
        # The probability of each n-gram, and gamma of each context.
        self.probabilities: dict[Gram, float] = {}
        self.gammas: dict[Gram, float] = {}
        uniform = 1 / (len(self.kept[0]) + 1)
        for size in range(1, order + 1):
            counts, kept, amounts = (
                self.adjusted[size - 1],
                self.kept[size - 1],
                discounts[size - 1],
            )
            for context, grams in by_context[size - 1].items():
                total = sum(counts[gram] for gram in grams)
                saved = sum(amounts[min(counts[gram], 3)] for gram in grams if gram in kept)
                saved += sum(counts[gram] for gram in grams if gram not in kept)
                gamma = self.gammas[context] = saved / total
                for gram in kept.intersection(grams):
                    lower = self.probabilities[gram[1:]] if size > 1 else uniform
                    own = (counts[gram] - amounts[min(counts[gram], 3)]) / total
                    self.probabilities[gram] = own + gamma * lower
        self.probabilities["<unk>",] = self.gammas[()] * uniform
        self.probabilities["<s>",] = 1.0
        self.values = {
            gram: (math.log10(p), math.log10(self.gammas.get(gram, 1.0) or 1e-99))
            for gram, p in self.probabilities.items()
        }

    def _adjusted(self, size: int) -> dict[Gram, int]:
        words_before = (
            Counter(gram[1:] for gram in self.in_text[size + 1]) if size < self.order else {}
        )
        return {
            gram: count if size == self.order or gram[0] == "<s>" else words_before[gram]
            for gram, count in self.in_text[size].items()
        }

    def _discounts(self, size: int, sentences: Sequence[Gram]) -> list[float]:
        counted = dict(self.adjusted[size - 1])
        # lmplz counts the suffixes of its last n-gram by their count in the text.
        ids = {
            word: at for at, word in enumerate(dict.fromkeys(("<s>", "</s>", *sum(sentences, ()))))
        }
        padded = [("<s>",) * (self.order - 1) + (*words, "</s>") for words in sentences]
        last = max(
            (
                words[at - self.order : at]
                for words in padded
                for at in range(self.order, len(words) + 1)
            ),
            key=lambda gram: [ids[word] for word in reversed(gram)],
        )[-size:]
        if size < self.order and last in counted:
            counted[last] = self.in_text[size][last]
        num_with = Counter(counted.values())
        if not all(num_with[count] for count in (1, 2, 3)):
            assert self.fallback
            return [0.0, 0.5, 1.0, 1.5]
        share = Fraction(num_with[1], num_with[1] + 2 * num_with[2])
        amounts = [float(n - (n + 1) * share * num_with[n + 1] / num_with[n]) for n in range(1, 4)]
        if not all(0 <= amount <= n for n, amount in enumerate(amounts, start=1)):
            assert self.fallback
            return [0.0, 0.5, 1.0, 1.5]
        return [0.0, *amounts]


def log10_prob(model: ReferenceNgrams, words: list[str]) -> float:
    """Return log10 p(words </s> | <s>) by backing off, as ARPA files define it."""
    total, words = 0.0, ["<s>", *words, "</s>"]
    for at in range(1, len(words)):
        for start in range(max(0, at - model.order + 1), at + 1):
            gram = tuple(words[start : at + 1])
            if gram in model.values:
                total += model.values[gram][0]
                break
            total += model.values.get(gram[:-1], (0.0, 0.0))[1]
    return total
