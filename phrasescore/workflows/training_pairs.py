"""Read the pairs from which a network learns."""

from collections.abc import Iterator
from itertools import chain

from moses_integration.alignments import affiliate_sentence, parse_links
from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.io.corpora import check_no_marks, read_monolingual_text, read_parallel_text
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import PhrasePair
from phrasescore.settings.kinds import NetworkKind
from phrasescore.training.pair_store_writer import CountedPair


def read_training_pairs(
    kind: NetworkKind, inputs: tuple[str, ...], progress: ProgressCallback | None
) -> Iterator[CountedPair]:
    """Yield pairs and counts from a table or from text; for a language model, without sources."""
    is_together = kind.reads_source or len(inputs) == 1
    with Meter("read", "lines", progress, lines_of=inputs[0] if is_together else None) as meter:
        if not kind.reads_source:
            texts = (read_monolingual_text(path) for path in inputs)
            for text in meter.track(chain.from_iterable(texts)):
                yield CountedPair(text.raw, PhrasePair._make(((), text.words)), 1.0)
        elif len(inputs) == 1:
            for line in meter.track(read_phrase_table(inputs[0])):
                for words in line.pair if b"s>" in line.raw else ():
                    check_no_marks(inputs[0], line.number, line.raw, words)
                yield CountedPair(line.raw, line.pair, joint_count(line.raw))
        elif kind.is_aligned:
            yield from meter.track(_read_aligned_text(*inputs))
        else:
            for sentence in meter.track(read_parallel_text(*inputs)):
                yield CountedPair(sentence.raw, sentence.pair, 1.0)


def _read_aligned_text(source: str, target: str, alignments: str) -> Iterator[CountedPair]:
    for number, (raw, pair) in enumerate(read_parallel_text(source, target, alignments), start=1):
        sizes = len(pair.source), len(pair.target)
        linked = parse_links(raw.rpartition(b"\n")[2], *sizes, alignments, number)
        yield CountedPair(raw, pair, 1.0, affiliate_sentence(linked, len(pair.source)))
