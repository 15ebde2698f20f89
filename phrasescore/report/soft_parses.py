"""How a gated recursive convolution joins the words of a sentence (Cho et al., 2014b, 4.2)."""

from collections.abc import Sequence

from phrasescore.errors import ModelError
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.models.grconv import GrconvNetwork
from phrasescore.report.alignments import SentencePair, unknown_words
from phrasescore.report.blocks import Pyramid, Section
from phrasescore.report.shown_text import shown

_LEAD = """\
The network joins neighbours, level by level, until one unit stands for the whole sentence. Each \
unit takes a share of its left child, a share of its right child, and a share of something new \
made of both. Where the shares are near 0 and 1 a tree can be seen, which nobody has taught the \
network."""


def soft_parse_section(
    models: Sequence[tuple[str, Checkpoint]], sentences: Sequence[SentencePair]
) -> Section | None:
    """Return a pyramid for each sentence and model, or None where there is no sentence.

    :param models: names and networks of the kind grconv.
    :raises ModelError: if a network is of another kind.
    """
    blocks = [
        _pyramid(number, name, checkpoint, sentence)
        for sentence in sentences
        for number, (name, checkpoint) in enumerate(models, start=1)
    ]
    if not blocks:
        return None
    return Section("parses", "Soft parses", _LEAD, tuple(blocks))


def _pyramid(number: int, name: str, checkpoint: Checkpoint, sentence: SentencePair) -> Pyramid:
    read = sentence.target if checkpoint.reverse else sentence.source
    return Pyramid(
        name=f"parse-{number}-{sentence.number}",
        title=f"Sentence {sentence.number:,}, {name}",
        words=tuple(shown([word]) for word in read),
        levels=soft_parse(checkpoint, read),
        caption=unknown_words(checkpoint, read),
    )


def soft_parse(
    checkpoint: Checkpoint, words: Sequence[str]
) -> tuple[tuple[tuple[float, float, float], ...], ...]:
    """Return the shares of every unit, from the lowest level: of new, of left and of right.

    :raises ModelError: if the network is no gated recursive convolution.
    """
    network = checkpoint.model
    if not isinstance(network, GrconvNetwork):
        raise ModelError(
            f"a model of the kind {checkpoint.config.kind} has no soft parse; expected grconv"
        )
    found = network.soft_parse(checkpoint.source_vocabulary.ids(words))
    levels = []
    for level in found.levels:
        rows = [[round(share, 5) for share in row] for row in level.double().tolist()]
        levels.append(tuple((new, left, right) for new, left, right in rows))
    return tuple(levels)
