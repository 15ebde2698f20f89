"""The text of new features of n-best lists, and of the scores of their words."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from moses_integration.nbest_lines import format_features, format_value
from phrasescore.features.list_scoring import ListScores
from phrasescore.workflows.columns import AddedFeature
from phrasescore.workflows.sourced_lists import SourcedList


def feature_texts(
    features: Sequence[AddedFeature], found: SourcedList, scores: ListScores | None
) -> Iterator[bytes]:
    """Return what is added to each line of a list.

    :param scores: the networks' of its distinct hypotheses; None where there are no networks.
    """
    parts: list[Iterable[bytes]] = []
    for is_given, group in groupby(features, lambda added: added.given is not None):
        of_group = list(group)
        if is_given:
            parts += [_given_texts(added, found) for added in of_group]
        else:
            of_key = _texts_of_distinct(of_group, found, scores)
            parts.append(map(of_key.__getitem__, found.keys))
    return map(b"".join, zip(*parts, strict=True))


def _given_texts(added: AddedFeature, found: SourcedList) -> Iterator[bytes]:
    assert added.given is not None
    style = found.nbest.style
    for value in added.given.of(found).tolist():
        yield format_features([(added.name, value)], style)


def _texts_of_distinct(
    features: Sequence[AddedFeature], found: SourcedList, scores: ListScores | None
) -> dict[bytes, bytes]:
    """Return the text of some features of each distinct hypothesis, by its key."""
    names, style = [added.name for added in features], found.nbest.style
    hypotheses = found.distinct.hypotheses
    values = [added.values(found.source, hypotheses, scores) for added in features]
    return {
        key: format_features(zip(names, row, strict=True), style)
        for key, *row in zip(dict.fromkeys(found.keys), *values, strict=True)
    }


def word_lines(
    features: Sequence[AddedFeature], found: SourcedList, scores: ListScores
) -> Iterator[bytes]:
    """Return a line of word scores for each line of a list."""
    distinct = zip(dict.fromkeys(found.keys), found.distinct.hypotheses, strict=True)
    lines = {
        key: word_line(features, found.nbest.id, found.source, hypothesis, scores, place)
        for place, (key, hypothesis) in enumerate(distinct)
    }
    return map(lines.__getitem__, found.keys)


def word_line(
    features: Sequence[AddedFeature],
    identity: int,
    source: tuple[str, ...],
    hypothesis: tuple[str, ...],
    scores: ListScores,
    place: int = 0,
) -> bytes:
    """Return the number of a sentence, and for each network a field of ``word=log p``.

    :param scores: of the list, with those of words.
    :param place: of the hypothesis among the list's.
    """
    assert scores.words is not None
    parts = [str(identity).encode()]
    for added in features:
        if added.network is None or added.normalized:
            continue
        predicted = source if added.reverse else hypothesis
        log_probs = scores.words[added.network][place].tolist()
        parts.append(
            b" ".join(
                b"%s=%s" % (word.encode(), format_value(log_prob))
                for word, log_prob in zip((*predicted, "</s>"), log_probs, strict=True)
            )
        )
    return b" ||| ".join(parts) + b"\n"
