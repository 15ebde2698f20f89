"""A small phrase-based model in files, and all its derivations by brute force.

The brute force shares nothing with the search but this text: it enumerates every order of phrases
that the distortion limit allows, and scores each with plain loops and the kenlm package.
"""

import math
import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import kenlm
import numpy as np

from moses_integration.decoder.configuration import DecoderConfiguration, read_language_models
from moses_integration.decoder.options import OptionTable, PhraseOptions
from moses_integration.decoder.search import StackDecoder
from moses_integration.decoder.stack_search import StatefulFeature
from phrasescore.language_models.arpa import NgramModel

TARGETS = ("p", "q", "r", "s", "t")
# The words and the order of each language model.
LANGUAGE_MODELS = ((TARGETS, 3), (("u", "r", "p", "t", "q"), 2), (("s", "v"), 1))
ORDER = 3
WEIGHTS = {
    "UnknownWordPenalty0": (1.0,),
    "WordPenalty0": (-0.3,),
    "PhrasePenalty0": (0.15,),
    "TranslationModel0": (0.2, 0.4),
    "LexicalReordering0": (0.3, 0.2, 0.5, 0.1, 0.6, 0.25),
    "Distortion0": (0.2,),
    "LM0": (0.7,),
    "LM1": (0.4,),
    "LM2": (0.1,),
}
INI = """\
[input-factors]
0
[mapping]
0 T 0
[distortion-limit]
{limit}
[stack]
{stack}
[beam-threshold]
{beam}
[search-algorithm]
{algorithm}
[cube-pruning-pop-limit]
{pops}
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path={folder}/table table-limit=0
LexicalReordering name=LexicalReordering0 type=wbe-msd-bidirectional-fe-allff path={folder}/moves
Distortion
{models}
[weight]
"""


class SlowDerivation(NamedTuple):
    """Phrases in the order of the target, with their score."""

    score: float
    segments: tuple[tuple[int, int, tuple[str, ...]], ...]
    words: tuple[str, ...]


def options_of(
    configuration: DecoderConfiguration,
    model: NgramModel,
    sentences: Sequence[Sequence[str]],
    other_language_weight: float = 0.0,
) -> OptionTable:
    """Return the options of a text."""
    options = PhraseOptions(configuration, model, aligned=False, sentences=sentences)
    options.use(configuration, other_language_weight)
    return options.of(sentences[0])


class SmallDecoder:
    """A random model for the source words ``a`` .. ``f``; of each phrase it has some translations.

    :param folder: where its files go.
    :param targets: translations of a phrase.
    :param models: number of language models.
    """

    def __init__(self, folder: Path, seed: int, targets: int = 2, models: int = 1) -> None:
        self._folder = folder
        self.models = {f"LM{number}": folder / f"lm{number}.arpa" for number in range(models)}
        self._random = random.Random(seed)
        # source -> target -> probabilities of the phrase table, and of the reordering table.
        self.table: dict[tuple[str, ...], dict[tuple[str, ...], Any]] = {}
        for size in (1, 2, 3):
            for source in product("abcdef", repeat=size):
                if size == 1 or self._random.random() < 0.3:
                    self.table[source] = dict(self._phrases(targets))
        self._write()
        # The kenlm package does not read models of order 1.
        self.kenlm = [kenlm.Model(str(path)) for path in [*self.models.values()][:2]]

    def _phrases(self, count: int) -> Iterator[tuple[tuple[str, ...], Any]]:
        for _ in range(count):
            target = tuple(self._random.choices(TARGETS, k=self._random.randint(1, 4)))
            numbers = [self._random.uniform(0.05, 0.9) for _ in range(8)]
            # Not every pair is in the reordering table.
            yield target, (numbers[:2], numbers[2:] if self._random.random() < 0.8 else [1.0] * 6)

    def _write(self) -> None:
        table, moves = [], []
        for source, phrases in sorted(self.table.items()):
            for target, (scores, reordering) in sorted(phrases.items()):
                pair = f"{' '.join(source)} ||| {' '.join(target)} |||"
                table.append(f"{pair} {' '.join(map(repr, scores))} ||| 0-0 ||| |||\n")
                if set(reordering) != {1.0}:
                    moves.append(f"{pair} {' '.join(map(repr, reordering))}\n")
        (self._folder / "table").write_text("".join(table))
        (self._folder / "moves").write_text("".join(moves))
        for path, model in zip(self.models.values(), LANGUAGE_MODELS, strict=False):
            path.write_text(self._arpa(*model))

    def _arpa(self, targets: Sequence[str], order: int) -> str:
        """Return a model with some of the bigrams, and some of the trigrams made of these."""
        draw = self._random
        words = ("<unk>", "<s>", "</s>", *targets)
        follow = [word for word in words if word not in ("<s>", "<unk>")]
        bigrams = [
            (first, second)
            for first in ("<s>", *targets)
            for second in follow
            if draw.random() < 0.6
        ]
        trigrams = [
            (*first, second[1])
            for first in bigrams
            for second in bigrams
            if first[1] == second[0] and draw.random() < 0.5
        ]
        lines = ["\\data\\"]
        lists: list[list[tuple[str, ...]]] = [[(word,) for word in words], [*bigrams], [*trigrams]]
        del lists[order:]
        lines += [f"ngram {size}={len(ngrams)}" for size, ngrams in enumerate(lists, 1)]
        for size, ngrams in enumerate(lists, 1):
            lines.append(f"\n\\{size}-grams:")
            for ngram in ngrams:
                score = -99.0 if ngram == ("<s>",) else -draw.uniform(0.1, 2.5)
                backoff = f"\t{-draw.uniform(0.05, 1):.4f}" if size < order else ""
                lines.append(f"{score:.4f}\t{' '.join(ngram)}{'' if '</s>' in ngram else backoff}")
        return "\n".join([*lines, "\n\\end\\\n"])

    def configuration(self, **settings: Any) -> DecoderConfiguration:
        """Return the model as a decoder reads it; no limits but those given."""
        default = {"limit": 2, "stack": 0, "beam": 0, "algorithm": 0, "pops": 100}
        models = "\n".join(f"KENLM name={name} path={path}" for name, path in self.models.items())
        text = INI.format(folder=self._folder, models=models, **(default | settings))
        for name, weights in WEIGHTS.items():
            if name in self.models or not name.startswith("LM"):
                text += f"{name}= {' '.join(map(str, weights))}\n"
        path = self._folder / "moses.ini"
        path.write_text(text)
        return DecoderConfiguration.read(str(path))

    def decoder(
        self,
        sentences: Sequence[Sequence[str]],
        features: Sequence[tuple[StatefulFeature, float]] = (),
        *,
        other_language_weight: float = 0.0,
        **settings: Any,
    ) -> StackDecoder:
        configuration = self.configuration(**settings)
        model = read_language_models(configuration)
        table = options_of(configuration, model, sentences, other_language_weight)
        return StackDecoder(configuration, table, model, features)

    def derivations(
        self, tokens: Sequence[str], limit: int = 2, context_weight: float = 0.0
    ) -> list[SlowDerivation]:
        """Return all derivations, the best one first.

        :param limit: of distortion; -1 for none.
        :param context_weight: of :class:`LastWords`.
        """
        found = [
            SlowDerivation(
                self.score(tokens, segments) + context_weight * last_words(_words(segments)),
                segments,
                _words(segments),
            )
            for segments in self._orders(tuple(tokens), frozenset(), 0, limit)
        ]
        return sorted(found, key=lambda derivation: -derivation.score)

    def _orders(
        self, tokens: tuple[str, ...], covered: frozenset[int], last: int, limit: int
    ) -> Iterator[tuple[Any, ...]]:
        """Yield what may follow, given the covered words and where the last phrase ended."""
        open_words = [place for place in range(len(tokens)) if place not in covered]
        if not open_words:
            yield ()
            return
        for start in open_words:
            for end in range(start + 1, len(tokens) + 1):
                span = frozenset(range(start, end))
                too_far = limit >= 0 and (
                    abs(start - last) > limit
                    or (start != open_words[0] and end - open_words[0] > limit)
                )
                if too_far or span & covered:
                    continue
                for target in self.table.get(tokens[start:end], ()):
                    for rest in self._orders(tokens, covered | span, end, limit):
                        yield ((start, end, target), *rest)

    def score(self, tokens: Sequence[str], segments: Sequence[Any]) -> float:
        words = _words(segments)
        score = sum(WEIGHTS[name][0] * value for name, value in self.language_scores(words).items())
        score -= WEIGHTS["WordPenalty0"][0] * len(words)
        score += WEIGHTS["PhrasePenalty0"][0] * len(segments)
        before, after, forward = -1, 0, None
        moves = WEIGHTS["LexicalReordering0"]
        for start, end, target in segments:
            scores, reordering = self.table[tuple(tokens[start:end])][target]
            score += sum(
                weight * math.log(value)
                for weight, value in zip(WEIGHTS["TranslationModel0"], scores, strict=True)
            )
            score -= WEIGHTS["Distortion0"][0] * abs(start - after)
            kind = 0 if start == after else 1 if end == before else 2
            score += moves[kind] * math.log(reordering[kind])
            if forward is not None:
                score += moves[3 + kind] * math.log(forward[kind])
            before, after, forward = start, end, reordering[3:]
        return score

    def language_scores(self, words: Sequence[str]) -> dict[str, float]:
        """Return the natural logarithm of each language model's probability of a sentence."""
        scores = [model.score(" ".join(words), bos=True, eos=True) for model in self.kenlm]
        if len(self.models) == 3:
            lines = self.models["LM2"].read_text().splitlines()
            fields = [line.split("\t") for line in lines if "\t" in line]
            unigrams = {word: float(score) for score, word, *_ in fields}
            scores.append(sum(unigrams.get(word, unigrams["<unk>"]) for word in [*words, "</s>"]))
        return {name: score * math.log(10) for name, score in zip(self.models, scores, strict=True)}


def _words(segments: Sequence[Any]) -> tuple[str, ...]:
    return tuple(word for _, _, target in segments for word in target)


def _last_words_score(before: Sequence[str], word: str) -> float:
    """Return a number that depends on the two words before a word, and their order."""
    text = " ".join([*before, word])
    return -(sum((place + 3) * ord(letter) for place, letter in enumerate(text)) % 101) / 37


def last_words(words: Sequence[str]) -> float:
    padded = ["", "<s>", *words, "</s>"]
    return sum(
        _last_words_score(padded[place - 2 : place], padded[place])
        for place in range(2, len(padded))
    )


class SecondModel:
    """The small decoder's language model once more, as a feature that the search has to ask."""

    context = ORDER - 1

    def __init__(self, small: SmallDecoder) -> None:
        (self._model,) = small.kenlm
        self._words: list[str] = []

    def begin(self, words: Sequence[str]) -> None:
        self._words = list(words)

    def scores(self, histories: Any, phrases: Any, offsets: Any, ends: Any, *_: Any) -> Any:
        return np.array(
            [
                self._score(history, phrases[offsets[row] : offsets[row + 1]], bool(ends[row]))
                for row, history in enumerate(histories)
            ]
        )

    def _score(self, history: Any, phrase: Any, is_last: bool) -> float:
        before = [self._words[word] for word in history if word >= 0]
        begins = before[:1] == ["<s>"]
        words = [*before[begins:], *(self._words[word] for word in phrase)]
        whole = self._model.full_scores(" ".join(words), bos=begins, eos=is_last)
        # Complete: a history is as long as any score depends on.
        return math.log(10) * sum(score for score, _, _ in [*whole][len(before) - begins :])


class LastWords:
    """A feature of trigrams without meaning; it counts its calls, and the rows of each."""

    context = 2

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._words: list[str] = []

    def begin(self, words: Sequence[str]) -> None:
        self._words = list(words)

    def scores(self, histories: Any, phrases: Any, offsets: Any, ends: Any, *_: Any) -> Any:
        self.sizes.append(len(histories))
        found = []
        for row, history in enumerate(histories):
            words = ["" if word < 0 else self._words[word] for word in history]
            words += [self._words[word] for word in phrases[offsets[row] : offsets[row + 1]]]
            words += ["</s>"] * bool(ends[row])
            found.append(
                sum(
                    _last_words_score(words[place - 2 : place], words[place])
                    for place in range(2, len(words))
                )
            )
        return np.array(found)
