"""Maps of words, phrases and sentences: a network's vectors projected to a plane.

Cho et al. (2014) map words and phrases by Barnes-Hut t-SNE (van der Maaten, 2013) in their figures
4 and 5. Sutskever et al. (2014) map sentences by their principal components in their figure 2.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.models.batches import batch_sequences
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.report import SEED
from phrasescore.report.blocks import Points, Section, shown
from phrasescore.report.inputs import LONG, MAP_POINTS, MadeSection, ReportInputs
from phrasescore.vocabulary import Vocabulary

Floats = NDArray[np.float64]

_BATCH_SIZE = 256  # number of sources per forward pass of an encoder
PERPLEXITY = 30.0  # the usual perplexity of t-SNE: the effective number of neighbours of a point
FEWEST = 4  # of a map; with 4 points, t-SNE's perplexity, a third of the others, is 1
_DIMENSIONS = 50  # number of principal components used as input for t-SNE
_START_DEVIATION = 1e-4  # of the first component at the start of t-SNE, as in scikit-learn

_LEADS = {
    "words": "Each point is a word, placed by the vector (embedding) that the network has learned "
    "for it: words that the network treats alike are near one another.",
    "phrases": "Each point is a phrase, placed by its vector c, the encoder's output, from which "
    "the network predicts all its translations.",
    "sentences": "Each point is a sentence, placed by the encoder's output, from which the network "
    "predicts the whole translation: c, or the last state of an LSTM's upper layer.",
}
_NEIGHBOURS = "The map (t-SNE) keeps neighbours together; its distances between groups say little."
_COMPONENTS = (
    "The map shows the two directions in which the vectors differ most (principal components), so "
    "a distance in it is the part of the vectors' distance along these directions."
)


class Vectors(NamedTuple):
    """The vectors for a map, ``(points, size)``, with a label and a group for each point."""

    title: str  # the title, such as "m30k: words that it reads"
    name: str  # of the block, such as "words-1"
    vectors: Floats
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    caption: str  # how the points were chosen


def words(inputs: ReportInputs) -> MadeSection:
    """Return maps of the words that models read and predict."""
    sets = [
        vectors
        for number, model in enumerate(inputs.models, start=1)
        for vectors in word_vectors(number, *model, MAP_POINTS)
    ]
    return MadeSection(*map_section("words", sets))


def phrases(inputs: ReportInputs) -> MadeSection:
    """Return maps of long source phrases."""
    models = inputs.phrase_models()
    if not models:
        problem = "needs a model that reads the source, but every --model is a reverse model"
        return MadeSection(None, [problem])
    texts = inputs.table_choice.phrases
    if not texts:
        problem = f"the table has no source phrase with {LONG} words or more"
        return MadeSection(None, [problem])
    # Shuffle, because the map labels the first points first, and these begin with the same words in
    # a sorted table.
    texts = random.Random(SEED).sample(texts, len(texts))
    sets = [
        text_vectors("phrases", *model, number, texts)
        for number, model in enumerate(models, start=1)
    ]
    return MadeSection(*map_section("phrases", sets))


def sentences(inputs: ReportInputs) -> MadeSection:
    """Return maps of the sentences that models read."""
    assert inputs.source is not None
    # With a table, networks that score phrases are assumed to be trained on phrases only.
    models = [
        model
        for model in inputs.of_kind("has_source_vectors")
        if inputs.table is None or not model.checkpoint.config.network.scores_phrases
    ]
    sets, reasons = [], []
    for number, model in enumerate(models, start=1):
        side = inputs.source
        if model.checkpoint.reverse:
            if not inputs.references:
                reasons.append(f"{model.name} reads the target side: needs --references")
                continue
            side = inputs.references[0]
        if texts := draw_texts(side.words, MAP_POINTS):
            sets.append(text_vectors("sentences", *model, number, texts))
        else:
            reasons.append(f"{side.path}: all sentences are empty")
    section, problems = map_section("sentences", sets)
    return MadeSection(section, [*reasons, *problems])


def draw_texts(texts: Sequence[tuple[str, ...]], count: int) -> list[tuple[str, ...]]:
    """Draw at most ``count`` distinct sentences that are not empty; return them in text order."""
    distinct = [words for words in dict.fromkeys(texts) if words]
    if len(distinct) <= count:
        return distinct
    indexes = random.Random(f"{SEED} map").sample(range(len(distinct)), count)
    return [distinct[index] for index in sorted(indexes)]


def map_section(key: str, sets: Sequence[Vectors]) -> tuple[Section, list[str]]:
    """Return a section with a map for each set of vectors, and a reason for each omitted set."""
    blocks: list[Points] = []
    reasons: list[str] = []
    for vectors in sets:
        count = len(vectors.vectors)
        if count < FEWEST:
            reasons.append(f"{vectors.title}: a map needs {FEWEST} points, found {count}")
        elif not np.ptp(vectors.vectors, axis=0).any():
            reasons.append(f"{vectors.title}: all {count:,} vectors are the same")
        else:
            blocks.append(_map(vectors, has_components=key == "sentences"))
    how = _COMPONENTS if key == "sentences" else _NEIGHBOURS
    return Section(key, f"Maps of {key}", f"{_LEADS[key]}\n\n{how}", tuple(blocks)), reasons


def _map(chosen: Vectors, *, has_components: bool) -> Points:
    axes = ("", "")
    if has_components:
        plane, shares = principal_components(chosen.vectors)
        axes = (f"component 1 ({shares[0]:.1%})", f"component 2 ({shares[1]:.1%})")
        note = f"Principal components, with {shares.sum():.1%} of the variance"
    else:
        plane, note = neighbour_map(chosen.vectors), "t-SNE, perplexity "
        note += f"{choose_perplexity(len(plane)):g}"
    # More digits would be invisible but would make the page much larger.
    x, y = (tuple(float(f"{value:.4g}") for value in column) for column in plane.T.tolist())
    caption = f"{chosen.caption} {note}."
    return Points(
        chosen.name, chosen.title, *axes, x, y, chosen.labels, chosen.groups, True, caption
    )


def word_vectors(number: int, name: str, checkpoint: Checkpoint, count: int) -> Iterator[Vectors]:
    """Yield the embeddings of the most frequent words that a network reads or predicts."""
    sides = [
        ("reads", "source", "source_embedding", checkpoint.source_vocabulary),
        ("predicts", "target", "target_embedding", checkpoint.target_vocabulary),
    ]
    if not checkpoint.config.network.reads_source:
        sides = [("knows", "target", "embedding", checkpoint.target_vocabulary)]
    for verb, side, attribute, vocabulary in sides:
        size = min(count, len(vocabulary) - len(Vocabulary.SYMBOLS))
        ids = range(len(Vocabulary.SYMBOLS), len(Vocabulary.SYMBOLS) + size)
        weights: Tensor = getattr(checkpoint.model, attribute)
        yield Vectors(
            title=f"{name}: words that it {verb}",
            name=f"words-{number}-{side}",
            vectors=weights.detach()[ids.start : ids.stop].cpu().double().numpy(),
            labels=tuple(shown([vocabulary.word(word)]) for word in ids),
            groups=tuple(_band(rank, size) for rank in range(1, size + 1)),
            caption=f"The {size:,} most frequent words of the shortlist, coloured by rank.",
        )


def _band(rank: int, size: int) -> str:
    if rank <= 100:
        return f"the {min(size, 100)} most frequent words"
    return f"the next {min(size, 1000) - 100}" if rank <= 1000 else "beyond the first 1,000"


def text_vectors(
    key: str, name: str, checkpoint: Checkpoint, number: int, texts: Sequence[tuple[str, ...]]
) -> Vectors:
    """Return an encoder's vectors for phrases or sentences; ``key`` is either word."""
    longest = 9 if key == "phrases" else 40
    return Vectors(
        title=f"{name}: {key}",
        name=f"{key}-{number}",
        vectors=_encode(checkpoint, [checkpoint.source_vocabulary.ids(words) for words in texts]),
        labels=tuple(shown(words) for words in texts),
        groups=tuple(_length_group(len(words), longest) for words in texts),
        caption=f"{len(texts):,} {key}, coloured by their length.",
    )


def _length_group(length: int, longest: int) -> str:
    if length > longest:
        return f"{longest + 1} words and more"
    if longest < 10:
        return f"{length} words" if length != 1 else "1 word"
    first = max(0, (length - 1) // 10 * 10) + 1
    return f"{first} to {first + 9} words"


def _encode(checkpoint: Checkpoint, sources: list[list[int]]) -> np.ndarray:
    network: Any = checkpoint.model
    starts = range(0, len(sources), _BATCH_SIZE)
    with torch.inference_mode():
        parts = (batch_sequences(sources[start : start + _BATCH_SIZE]) for start in starts)
        rows = [network.source_vectors(part).double().numpy() for part in parts]
    return np.concatenate(rows) if rows else np.zeros((0, 1))


def principal_components(vectors: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """Return the coordinates of vectors along their principal components.

    Signs are chosen so that, in each component, the coordinate with the largest absolute value is
    positive. Equal vectors therefore give equal figures.

    :param count: at most the number of points, and of dimensions.
    :return: coordinates, ``(points, count)``, and each component's share of the variance.
    """
    from sklearn.decomposition import PCA

    analysis = PCA(count, svd_solver="full")
    plane = analysis.fit_transform(vectors)
    largest = np.abs(plane).argmax(axis=0)
    plane *= np.where(plane[largest, np.arange(count)] < 0, -1.0, 1.0)
    return plane, analysis.explained_variance_ratio_


def choose_perplexity(points: int) -> float:
    """Return the perplexity for a map: 30, or a third of the other points if that is less."""
    return min(PERPLEXITY, (points - 1) / 3)


def neighbour_map(vectors: Floats) -> Floats:
    """Return a t-SNE map of vectors, ``(points, 2)``, in which neighbours stay together.

    The map is initialised with the first two principal components and computed in one thread, so
    that equal vectors give equal maps.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    reduced, _ = principal_components(vectors, min(_DIMENSIONS, *vectors.shape))
    deviation = reduced[:, 0].std()
    with threadpool_limits(1):
        plane = TSNE(
            perplexity=choose_perplexity(len(vectors)),
            init=(reduced[:, :2] * _START_DEVIATION / deviation).astype(np.float32),
            random_state=SEED,
            n_jobs=1,
        ).fit_transform((reduced / deviation).astype(np.float32))
    return np.asarray(plane, np.float64)
