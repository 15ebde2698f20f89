"""Read n-best lists from which a network learns."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from moses_integration import alignments as word_alignments
from moses_integration.list_features import FeatureColumns, Values
from moses_integration.nbest import NbestList, read_every_list
from moses_integration.weight_lines import is_sparse
from phrasescore.errors import DataError, PhrasescoreError, shown_path, some_names
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.io.journal import digest_text, new_digest
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import FeatureLabel, Weights
from phrasescore.settings import old_names
from phrasescore.settings.kinds import NetworkKind
from phrasescore.systems import text_checks
from phrasescore.training.stores import ListStore, ListStoreBuilder
from tuning.metrics import Bleu, sentence_bleu
from tuning.pool import weights_vector

_logger = logging.getLogger(__name__)


# Maximum number of distinct hypotheses that are used per list, those with the highest scores. Gao
# et al. (2014) and Auli and Gao (2014) use 100-best lists.
_LARGEST_LIST = 100


class NetworkFeature(NamedTuple):
    """A network's feature in the log-linear model."""

    label: FeatureLabel
    name: str  # as in the user's command: LSTM0, or TranslationModel0_4
    weight: float


def find_feature(weights: Weights, name: str, where: str) -> NetworkFeature:
    """Return a network's feature, which must have a weight; ``NAME_INDEX`` selects one value."""
    label = FeatureLabel(name, 0)
    base, _, number = name.rpartition("_")
    if name not in weights and re.fullmatch("[0-9]{1,6}", number):
        label = FeatureLabel(base, int(number))
    found = weights.get(label.name, ())
    if label.place >= len(found) or (label.name == name and len(found) > 1):
        raise PhrasescoreError(
            f"{where}: expected one weight for {name}: name the network's feature with --feature "
            "(TranslationModel0_4 is the fifth score of a table), or tune weights on lists with "
            "this feature"
        )
    if not found[label.place]:
        problem = f"{where}: the weight of {name} is 0, so the network would not change the"
        raise PhrasescoreError(f"{problem} ranking: tune weights on lists with this feature")
    return NetworkFeature(label, name, found[label.place])


def read_training_lists(
    paths: Sequence[str],
    source: str,
    references: Sequence[str],
    weights: Weights,
    feature: NetworkFeature,
    checkpoint: Checkpoint,
    *,
    alignments: str | None = None,
    where: str,
    progress: ProgressCallback | None = None,
) -> ListStore:
    """Read the n-best lists in consecutive files; the ids in each file start at 0.

    Hypotheses with the same words are used once, with the highest of their model scores. Lists for
    sentences without words are skipped.

    :param weights: weights for all features in the lists; the network's weight may be missing.
    :param alignments: word alignments between source and first references, for a joint model.
    :raises DataError: if files are malformed, or if the lists lack a feature that has a weight, the
        phrase segmentation that an encoder-decoder needs, or the word alignments that a joint model
        needs.
    """
    texts = [read_sentences(source, is_source=True), *map(read_sentences, references)]
    check_aligned(texts)
    sources, first = texts[0].words, texts[1].words
    linked = None if alignments is None else _read_affiliations(alignments, *texts[:2])
    builder = ListStoreBuilder()
    reader = _Reader(checkpoint, builder, weights, feature, where)
    bleu, gains = Bleu([text.words for text in texts[1:]]), list[float]()
    digest = new_digest()
    known = checkpoint.folder, checkpoint
    of_source, of_lists = text_checks.unknown_words_of(source, f"{paths[0]} (hypotheses)", [known])
    _, of_references = text_checks.unknown_words_of(source, references[0], [known])
    num_words, is_unaligned = 0, checkpoint.config.network.is_aligned
    with Meter("read", "lists", progress) as meter:
        for index, nbest in enumerate(_numbered(paths, len(sources), source)):
            digest.update(b"\n".join(nbest.raws) + b"\n")
            meter.update()
            is_unaligned = is_unaligned and not any(map(word_alignments.has_links, nbest.raws))
            if not sources[index]:
                continue
            num_words += len(next(iter(nbest.distinct().values())))
            scores, words, found = reader.read(nbest, sources[index])
            statistics = bleu.statistics(words, [index] * len(words))
            gains += sentence_bleu(statistics, rewards_length=True).tolist()
            of_source.count(sources[index])
            for hypothesis in words:
                of_lists.count(hypothesis)
            of_references.count(first[index])
            if reader.kind.scores_phrases:
                taught = sorted({pair for row in found for pair in row})
            else:
                of_words = () if linked is None else linked[index]
                taught = [reader.add(sources[index], first[index], of_words)]
            builder.add_list(scores, found, taught)
    if not len(builder):
        raise DataError(source, None, "expected sentences with words, found none")
    if is_unaligned:
        text_checks.warn_of_alignments(paths[0])
    for unknown_words in (of_source, of_lists, of_references):
        unknown_words.warn()
    text_checks.warn_of_lengths(paths[0], num_words, sum(map(len, first)))
    for text in texts:
        digest.update(repr(text.words).encode())
    digest.update(repr(linked).encode())
    if missing := [name for name in reader.columns.sizes if name not in weights]:
        _logger.info(
            "features without a weight in %s, for which 0 is used: %s", where, some_names(missing)
        )
    inputs = {
        "text of lists, source or references": digest.hexdigest(),
        "weights": digest_text(repr(sorted(weights.items()))),
        "feature": feature.name,
        "model": checkpoint.fingerprint,
    }
    return builder.build(gains, inputs)


def _read_affiliations(
    path: str, source: Sentences, target: Sentences
) -> list[word_alignments.Affiliations]:
    aligned = read_sentences(path)
    check_aligned([source, target, aligned])
    found = []
    rows = zip(aligned.texts, source.words, target.words, strict=True)
    for number, (line, words, others) in enumerate(rows, start=1):
        linked = word_alignments.parse_links(line.encode(), len(words), len(others), path, number)
        found.append(word_alignments.affiliate_sentence(linked, len(words)))
    return found


def _numbered(paths: Sequence[str], size: int, source: str) -> Iterator[NbestList]:
    done = 0
    expected = f"expected lists of the {size:,} sentences of {shown_path(source)}"
    for path in paths:
        for nbest in read_every_list(path):
            if done == size:
                raise DataError(path, nbest.first_line, f"{expected}, found one more")
            yield nbest
            done += 1
    if done < size:
        raise DataError(paths[-1], None, f"{expected}, found {done:,}")


@dataclass
class _Reader:
    """Extracts everything that the network learns from lists, except BLEU.

    Adds pairs to a store, as the ids that the network reads and predicts.
    """

    checkpoint: Checkpoint
    builder: ListStoreBuilder
    weights: Weights
    feature: NetworkFeature
    where: str
    columns: FeatureColumns = field(default_factory=FeatureColumns)
    _vector: Values = field(default_factory=lambda: np.empty(0))
    # The indices of phrase pairs, as many hypotheses share a phrase pair.
    _known: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = field(default_factory=dict)

    @property
    def kind(self) -> NetworkKind:
        return self.checkpoint.config.network

    def add(
        self,
        source: tuple[str, ...],
        target: tuple[str, ...],
        affiliations: word_alignments.Affiliations = (),
    ) -> int:
        if (source, target) in self._known:
            return self._known[source, target]
        model = self.checkpoint
        read, predicted = (target, source) if model.reverse else (source, target)
        ids = model.source_vocabulary.ids(read) if self.kind.reads_source else []
        ordered = model.target_vocabulary.ids(predicted)[:: -1 if model.right_to_left else 1]
        index = self.builder.add_pair(ids, ordered, affiliations)
        if self.kind.scores_phrases:
            self._known[source, target] = index
        return index

    def read(
        self, nbest: NbestList, source: tuple[str, ...]
    ) -> tuple[list[float], list[tuple[str, ...]], list[list[int]]]:
        """Return the model scores, words and pairs of the best hypotheses in a list."""
        values = self.columns.arrange(nbest)
        if values.shape[1] != len(self._vector):
            self._vector = self._make_vector(nbest)
        # A sum of each row, because a matrix product may give equal rows unequal last bits.
        scores = (values * self._vector).sum(axis=1).tolist()
        best: dict[tuple[str, ...], int] = {}
        words = nbest.distinct()
        for index, hypothesis in enumerate(nbest.hypotheses):
            known = best.setdefault(words[hypothesis], index)
            if scores[index] > scores[known]:
                best[words[hypothesis]] = index
        kept = sorted(best, key=lambda each: -scores[best[each]])[:_LARGEST_LIST]
        found = [self._pairs_of(nbest, best[each], source, each) for each in kept]
        return [scores[best[each]] for each in kept], kept, found

    def _make_vector(self, nbest: NbestList) -> Values:
        sizes = self.columns.sizes
        own = self.feature.label
        if own.name not in sizes and (other := old_names.other_name(own.name)) in sizes:
            own = FeatureLabel(str(other), own.place)
        weights = old_names.weights_for(sizes, self.weights)
        if sizes.get(own.name) == own.place:  # lists that were made without the network
            weights = {**weights, own.name: weights[own.name][: own.place]}
        for name, size in sizes.items():
            count = len(weights.get(name, (0.0,) * size))
            if count != size:
                problem = f"{name} has {size} values, and {count} weights in {self.where}"
                raise DataError(nbest.path, nbest.first_line, problem)
        lost = [
            name
            for name in weights
            if name not in sizes and not is_sparse(name) and name != self.feature.name
        ]
        if lost:
            problem = f"expected the features {some_names(lost)}, which have weights in"
            raise DataError(nbest.path, nbest.first_line, f"{problem} {self.where}, found none")
        known = {name: values for name, values in weights.items() if name in sizes}
        vector = weights_vector(known, self.columns.labels)
        vector[[label == own for label in self.columns.labels]] = 0.0
        return vector

    def _pairs_of(
        self, nbest: NbestList, index: int, source: tuple[str, ...], words: tuple[str, ...]
    ) -> list[int]:
        """Return the indices of a hypothesis' pairs: its phrases, or the whole sentence."""
        found = nbest.raws[index], len(source), len(words), nbest.path, nbest.first_line + index
        if self.kind.is_aligned:
            return [self.add(source, words, word_alignments.affiliate_hypothesis(*found))]
        if not self.kind.scores_phrases:
            return [self.add(source, words)]
        spans = word_alignments.parse_segmentation(*found)
        return [self.add(*span.of(source, words)) for span in spans]
