"""The n-gram language model of a search: an ARPA file in arrays, scored as KenLM scores it."""

from dataclasses import dataclass
from typing import Self

from moses_integration.decoder.arpa import BEGIN, END, UNKNOWN, read_arpa, read_arpa_order
from moses_integration.decoder.ngram_table import NgramTables, score_word
from phrasescore.errors import DataError

__all__ = ["BEGIN", "END", "UNKNOWN", "NgramModel", "NgramTables", "read_arpa_order", "score_word"]


@dataclass(frozen=True)
class NgramModel:
    """A backoff language model in memory: 24 bytes an n-gram, and its words."""

    order: int
    # The vocabulary; ids 0, 1, 2 are <unk>, <s>, </s>.
    words: list[str]
    tables: NgramTables

    @classmethod
    def read(cls, path: str, order: int | None = None) -> Self:
        """Read an ARPA file, plain or gzip.

        :param order: that the model must have; None for any.
        :raises DataError: with file and line, if the file is none that KenLM would read, a binary
            model, or of another order.
        """
        found = read_arpa_order(path)
        if order is not None and found != order:
            raise DataError(path, None, f"expected a model of order {order}, found order {found}")
        words, tables = read_arpa(path)
        return cls(tables.order, words, tables)
