"""Read the pairs from which a network learns."""

from collections.abc import Iterator
from itertools import chain, zip_longest

from moses_integration.alignments import affiliate_sentence, parse_links
from moses_integration.phrase_table import read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.errors import DataError, shown_path
from phrasescore.io.corpora import check_no_marks, read_monolingual_text, read_parallel_text
from phrasescore.io.text import read_lines
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
            texts = (read_monolingual_text(path, refuse_marks=True) for path in inputs)
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
    text = read_parallel_text(source, target)
    for number, (sentence, line) in enumerate(zip_longest(text, read_lines(alignments)), start=1):
        if sentence is None or line is None:
            ended, other = (source, alignments) if sentence is None else (alignments, source)
            wanted = f"expected as many lines as {shown_path(other)} has"
            raise DataError(ended, number, f"{wanted}, found the end of the file")
        num_words = len(sentence.pair.source)
        linked = parse_links(line, num_words, len(sentence.pair.target), alignments, number)
        raw = b"%b\n%b" % (sentence.raw, line)
        yield CountedPair(raw, sentence.pair, 1.0, affiliate_sentence(linked, num_words))
