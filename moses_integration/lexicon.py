"""Read lexical translation tables: ``lex.f2e`` and ``lex.e2f`` of Moses' train-model.perl.

A line is ``word word probability`` with p(first word | second word), to 7 decimals, for words that
were aligned in training; ``NULL`` stands for no word. Moses calls the source f and the target e:
lines of ``lex.f2e`` are ``target source p(target | source)``, those of ``lex.e2f`` are ``source
target p(source | target)`` (scripts/training/LexicalTranslationModel.pm).
"""

from collections.abc import Iterator

from moses_integration.nbest_lines import parse_number
from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_lines, shorten


def read_lexicon(path: str) -> Iterator[tuple[str, str, float]]:
    """Yield (predicted word, given word, probability) of each line, lazily; plain or gzip."""
    for number, raw in enumerate(read_lines(path), start=1):
        fields = raw.removesuffix(b"\r").split(b" ")
        if len(fields) != 3 or not (fields[0] and fields[1]):
            problem = f"expected 'word word probability', found {shorten(raw)}"
            raise DataError(path, number, problem)
        probability = parse_number(fields[2], path, number)
        if not 0 <= probability <= 1:
            problem = f"expected a probability from 0 to 1, found {shorten(fields[2])}"
            raise DataError(path, number, problem)
        text = decode(path, number, raw)
        predicted, given, _ = text.split(" ")
        yield predicted, given, probability
