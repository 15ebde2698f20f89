"""The lines of a table by key, for texts that are not known when the table is read.

The key of a line is the hash of its first field (a source phrase) or of its first two (a phrase
pair), as in `moses_integration.source_text`. The lines are copied to a file without a name, which
is mapped into memory, so that processes share them and the system can page them out.
"""

import itertools
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration import source_text
from moses_integration.source_text import read_key, too_few_fields
from moses_integration.table_line import check_no_rules
from phrasescore.errors import DataError
from phrasescore.io.hashing import find, make_table
from phrasescore.io.kernel_cache import drop_stale_kernels, kept_njit
from phrasescore.io.text import read_blocks

drop_stale_kernels(Path(__file__).parent, Path(source_text.__file__))
_KERNEL = kept_njit()

_EVERY = make_table(0)  # keys that stand for all phrases


class TableIndex:
    """Finds the lines of a table by key.

    :param num_fields: number of fields in a key.
    :param phrases: the keys of the source phrases whose lines are kept, from
        `moses_integration.source_text.keys_of_sentences`; None to keep all lines.
    """

    def __init__(self, path: str, num_fields: int, phrases: Any | None = None) -> None:
        self.path, self._num_fields = path, num_fields
        wanted = _EVERY if phrases is None else phrases
        parts, number, size = [np.empty((0, 4), np.uint64)], 1, 0
        try:
            with tempfile.TemporaryFile() as copy:
                for block in read_blocks(path):
                    if number == 1:
                        check_no_rules(path, block)
                    text = np.frombuffer(block, np.uint8)
                    runs, lines, problem = _list_runs(text, num_fields, wanted, phrases is None)
                    if problem >= 0:
                        raise too_few_fields(path, number + lines, block[problem:], num_fields)
                    # Only the lines in the runs are copied.
                    spans, sizes = runs[:, 1:3].tolist(), runs[:, 2] - runs[:, 1]
                    runs[:, 2] = np.cumsum(sizes) + np.uint64(size)
                    runs[:, 1] = runs[:, 2] - sizes
                    runs[:, 3] += np.uint64(number)
                    size += copy.write(b"".join(block[start:end] for start, end in spans))
                    number += lines
                    parts.append(runs)
                copy.flush()
                self._text = mmap.mmap(copy.fileno(), size, prot=mmap.PROT_READ) if size else b""
        except OSError as error:
            folder = tempfile.gettempdir()
            problem = f"cannot copy the table to {folder}: {error.strerror} (set TMPDIR)"
            raise DataError(path, None, problem) from error
        runs = np.concatenate(parts)
        # Runs with equal keys stay in the order of the file.
        self._runs = runs[np.argsort(runs[:, 0], kind="stable")]
        self._keys = np.ascontiguousarray(self._runs[:, 0])

    def lines(self, phrases: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based number, text) of each line with one of the keys, in the table's order.

        :param phrases: different keys: source phrases, or pairs as ``source|||target``.
        """
        text = b"".join(b"%b|||\n" % phrase for phrase in phrases)
        wanted, _, _ = _list_runs(np.frombuffer(text, np.uint8), self._num_fields, _EVERY, True)
        first = np.searchsorted(self._keys, wanted[:, 0], "left").tolist()
        after = np.searchsorted(self._keys, wanted[:, 0], "right").tolist()
        found = [range(*span) for span in zip(first, after, strict=True)]
        runs = self._runs[list(itertools.chain.from_iterable(found)), 1:]
        for start, end, number in runs[np.argsort(runs[:, 2], kind="stable")].tolist():
            block = self._text[start:end]
            yield from enumerate(block.removesuffix(b"\n").split(b"\n"), start=number)


@_KERNEL
def _list_runs(text: Any, num_fields: int, phrases: Any, every: bool) -> tuple[Any, int, int]:
    """Return the runs of lines with equal keys, the lines read, and where a line is too short.

    A run is uint64 (4,): the key, the start, the end, and the number of lines before it.
    """
    runs = np.empty((64, 4), np.uint64)
    size, line, start = 0, 0, 0
    while start < len(text):
        key, fields, position = read_key(text, start, num_fields)
        if fields < num_fields:
            return runs[:size], line, start
        while position < len(text) and text[position] != 10:
            position += 1
        is_kept = every
        if not every:
            phrase = key if num_fields == 1 else read_key(text, start, 1)[0]
            is_kept = find(phrases, phrase) >= 0
        after = min(position + 1, len(text))
        if is_kept and size > 0 and runs[size - 1, 0] == key and runs[size - 1, 2] == start:
            runs[size - 1, 2] = after
        elif is_kept:
            if size == len(runs):
                longer = np.empty((2 * size, 4), np.uint64)
                longer[:size] = runs
                runs = longer
            runs[size, 0], runs[size, 1], runs[size, 2], runs[size, 3] = key, start, after, line
            size += 1
        line += 1
        start = after
    return runs[:size], line, -1
