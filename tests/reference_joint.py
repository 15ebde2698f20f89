"""A slow joint model in float64 numpy, one word at a time, from words.

Written from Devlin et al. (2014), sections 2.1 to 2.4, and from Moses' BilingualLM, for the order
of a context and what stands outside of a sentence; it shares no code with the package. The
affiliation is a transcription of both of Moses' loops, the decoder's and the training script's.

Parameters have these names, where T and S are the sizes of the vocabularies with ``</s>`` (0) and
``<unk>`` (1), N the order, W the source words on each side, and the second layer may be missing::

    embedding (T + S + 1, E)        target words, source words, <s> of the source
    lower.{weight,bias}             (H, (2 W + N) E), (H,)
    upper.{weight,bias}             (U, H), (U,)
    output.{weight,bias}            (T, U), (T,)
"""

from collections.abc import Sequence

import numpy as np

from tests.reference_encoder_decoder import (
    END,
    Array,
    Arrays,
    Parameters,
    Shapes,
    affine,
    draw,
    log_softmax,
)

Links = Sequence[tuple[int, int]]


def affiliate_in_phrase(links: Links, size: int) -> list[int] | None:
    """Return what moses/LM/BilingualLM.cpp makes of a phrase (getSourceWords), None if it throws.

    :param size: words of the target phrase.
    """
    aligned = [{source for source, target in links if target == word} for word in range(size)]
    found = []
    for index in range(size):
        last: set[int] = set()
        for j in range(size):
            if index + j < size:
                last = aligned[index + j]
                if last:
                    break
            if index - j >= 0:
                last = aligned[index - j]
                if last:
                    break
        if not last:
            return None
        iterator = iter(sorted(last))
        middle = next(iterator)
        for _ in range((len(last) - 1) // 2):
            middle = next(iterator)
        found.append(middle)
    return found


def affiliate_in_text(links: Links, source_size: int, size: int) -> list[int]:
    """Return what scripts/training/bilingual-lm/extract.py makes of a sentence, ``</s>`` left out.

    :param size: words of the target sentence.
    """
    target_aligns: list[list[int]] = [[] for _ in range(size + 1)]
    for spos, tpos in links:
        target_aligns[tpos].append(spos)
    target_aligns[-1] = [source_size]
    found = []
    for tpos, aligns in enumerate(target_aligns):
        spos_list = aligns
        if not spos_list:
            rpos, lpos = tpos + 1, tpos - 1
            while rpos < size + 1 or lpos >= 0:
                if rpos < size + 1 and target_aligns[rpos]:
                    spos_list = target_aligns[rpos]
                    break
                if lpos >= 0 and target_aligns[lpos]:
                    spos_list = target_aligns[lpos]
                    break
                rpos += 1
                lpos -= 1
        found.append(sorted(spos_list)[(len(spos_list) - 1) // 2])
    return found[:-1]


def context(
    source: Sequence[int],
    before: Sequence[int],
    place: int,
    *,
    order: int,
    window: int,
    sizes: tuple[int, int],
) -> list[int]:
    """Return the context of a word as rows of the embedding.

    :param source: ids of the source.
    :param before: ids of all target words before it.
    :param place: of its affiliation.
    :param sizes: of the source and the target vocabulary.
    """
    source_size, target_size = sizes
    found = []
    for around in range(place - window, place + window + 1):
        if around < 0:
            found.append(target_size + source_size)  # BOS_
        elif around >= len(source):
            found.append(target_size + END)  # EOS_
        else:
            found.append(target_size + source[around])
    for back in range(order - 1, 0, -1):
        found.append(before[-back] if back <= len(before) else END)
    return found


def logits(arrays: Arrays, rows: Sequence[int]) -> Array:
    """Return what the softmax is of, for each target word, ``(T,)``."""
    p = Parameters(arrays)
    layer = np.concatenate([p["embedding"][row] for row in rows])
    for name in ("lower", "upper"):
        if f"{name}.weight" in p:
            layer = np.tanh(p(name, layer))
    return p("output", layer)


def word_scores(
    arrays: Arrays,
    source: Sequence[int],
    target: Sequence[int],
    affiliations: Sequence[int],
    *,
    order: int,
    window: int,
    sizes: tuple[int, int],
    normalized: bool = True,
) -> list[float]:
    """Return log p of each target word and of ``</s>``; without log Z, if not ``normalized``."""
    found = []
    for at, word in enumerate([*target, END]):
        place = affiliations[at] if at < len(target) else len(source)
        rows = context(source, target[:at], place, order=order, window=window, sizes=sizes)
        scores = logits(arrays, rows)
        found.append(float((log_softmax(scores) if normalized else scores)[word]))
    return found


def random_parameters(
    rng: np.random.Generator,
    *,
    order: int,
    window: int,
    embedding_size: int,
    hidden_size: int,
    upper_size: int,
    sizes: tuple[int, int],
    std: float = 0.5,
) -> dict[str, Array]:
    """Return float64 parameters, every one drawn from N(0, ``std``²), biases too."""
    source_size, target_size = sizes
    shapes: Shapes = {
        "embedding": (target_size + source_size + 1, embedding_size),
        **affine("lower", hidden_size, (2 * window + order) * embedding_size),
        **affine("output", target_size, upper_size or hidden_size),
    }
    return draw(rng, shapes | (affine("upper", upper_size, hidden_size) if upper_size else {}), std)
