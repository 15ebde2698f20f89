"""Choose the lines of a phrase table that a search of some texts can use."""

import math
from collections.abc import Iterable, Iterator, Sequence

from moses_integration.phrase_table import TableBlock
from moses_integration.source_text import TextPhrases
from moses_integration.table_line import HIGHEST_LOG, LOWEST_LOG
from phrasescore.errors import ArgumentError
from phrasescore.io.journal import new_digest


def check_keep_others(keep_others: float | None, texts: Sequence[object]) -> None:
    """Raise an ArgumentError if ``keep_others`` is given without texts, or is out of range."""
    if keep_others is None:
        return
    if not texts:
        raise ArgumentError("--keep-others is for lines whose source is in no text of --for")
    if not math.exp(LOWEST_LOG) <= keep_others <= math.exp(HIGHEST_LOG):
        problem = "a probability (or exp of a count) from 3.8e-44 to 1.6e38, as a table has it"
        raise ArgumentError(f"--keep-others: expected {problem}, got {keep_others!r}")


class TextFilter:
    """Marks the lines of a table whose source occurs in some texts.

    :ivar kept: number of lines so far whose source occurs.

    :param texts: tokenised, a sentence a line.
    :param keep_others: the score that other lines get, a probability; None if they are left out.
    :raises DataError: if a text cannot be read, or has no word.
    """

    def __init__(self, texts: Sequence[str], keep_others: float | None) -> None:
        self._phrases = TextPhrases.read(texts)
        self._default = None if keep_others is None else math.log(keep_others)
        self.kept = 0

    @property
    def settings(self) -> dict[str, str]:
        """The texts' digest and the default score, which determine the result's bytes."""
        default = {} if self._default is None else {"others": repr(math.exp(self._default))}
        return {"texts": new_digest(self._phrases.text).hexdigest(), **default}

    def mark(self, blocks: Iterable[TableBlock]) -> Iterator[TableBlock]:
        """Yield the same blocks, with the lines to score marked."""
        for block in blocks:
            wanted = self._phrases.contain(block.data, block.phrases[:, :2])
            self.kept += int(wanted.sum())
            yield block._replace(wanted=wanted, default=self._default)
