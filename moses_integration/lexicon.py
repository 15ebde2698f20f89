"""Read lexical translation tables: ``lex.f2e`` and ``lex.e2f`` of Moses' train-model.perl.

A line is ``word word probability``: p(first word | second word), with 7 decimals, for words that
were aligned in training; ``NULL`` stands for no word. Moses calls the source f and the target e:
``lex.f2e`` has lines ``target source p(target | source)``, and ``lex.e2f`` lines ``source target
p(source | target)`` (scripts/training/LexicalTranslationModel.pm).
"""

from collections.abc import Iterator

from moses_integration.nbest import parse_number
from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_lines, shorten


def read_lexicon(path: str) -> Iterator[tuple[str, str, float]]:
    """Yield (predicted word, given word, probability) of each line, lazily; plain or gzip.

    :raises DataError: on reaching a line of another form.
    """
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
