"""Build lexical tables, a phrase table and a reordering table from aligned parallel text."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from moses_integration.building.corpus import AlignedCorpus, SentenceBlock, read_corpus
from moses_integration.building.extraction import (
    REORDERING,
    RowLayout,
    Rows,
    extract_rows,
    merge_equal,
    sort_rows,
)
from moses_integration.building.lexicon import Counts, WordTables, add_counts, count_words
from moses_integration.building.lines import write_phrase_table, write_reordering
from moses_integration.building.pairs import count_pairs, find_totals
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output, writing
from phrasescore.io.sorted_rows import Bucket, SortedRuns

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

REORDERING_TABLE = f"reordering-table.{REORDERING}.gz"

Report = Callable[[float], None]  # receives the share of the work that is done


def build_tables(
    source: Path,
    target: Path,
    alignments: Path,
    folder: Path,
    *,
    work: Path,
    max_phrase_length: int = 7,
    reordering: bool = True,
    workers: int = 1,
    block_words: int = 120_000,
    report: Report = lambda _share: None,
) -> int:
    """Write the tables of a phrase-based system to a folder; return the number of phrase pairs.

    Moses' train-model.perl writes equal files in its steps 4 to 7, but it does not sort the lines
    of ``lex.f2e`` and ``lex.e2f``. The files appear together at the end, or not at all. They do not
    depend on ``workers`` and ``block_words``. Counts are exact; Moses adds float32 numbers, which
    are exact up to 2^24.

    :param source: sentences; no word in them or in ``target`` has ``|``.
    :param alignments: a file with the links of each sentence pair, such as ``0-0 1-2``.
    :param work: an empty folder for sorted runs, which need about 50 bytes per extracted pair.
    :param max_phrase_length: the longest phrase, in words of either side.
    :param reordering: whether to write a reordering table.
    :param workers: number of threads.
    :param block_words: number of words, of both sides together, whose phrase pairs are sorted in
        memory at a time by each thread.
    :raises PhrasescoreError: if there is no phrase pair.
    """
    names = ["lex.f2e", "lex.e2f", "phrase-table.gz"]
    if reordering:
        names.append(REORDERING_TABLE)
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(str(folder / name))) for name in names]
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        corpus = read_corpus(
            str(source), str(target), str(alignments), work, block_words=block_words
        )
        builder = _Builder(
            corpus, max_phrase_length, work, threads, workers, 2 * block_words, report
        )
        lexicon = builder.extract()
        for forward, backward in lexicon.lines(corpus.source, corpus.target):
            outputs[0].write(forward + b"\n")
            outputs[1].write(backward + b"\n")
        builder.count_targets()
        num_pairs = builder.write(lexicon, outputs[2:])
        if num_pairs == 0:
            raise PhrasescoreError(
                f"found no phrase pair of at most {max_phrase_length} words: is the text too small "
                "for a word alignment?"
            )
    return num_pairs


class _Builder:
    """Extracts phrase pairs into sorted runs, and writes the tables bucket by bucket."""

    def __init__(
        self,
        corpus: AlignedCorpus,
        length: int,
        work: Path,
        threads: ThreadPoolExecutor,
        workers: int,
        bucket_rows: int,
        report: Report,
    ) -> None:
        self._corpus, self._report = corpus, report
        self._threads, self._workers = threads, workers
        layout = self._layout = RowLayout.of(corpus.source, corpus.target, length)
        columns, kind = layout.target.columns, np.uint64
        self._pairs = SortedRuns(layout.columns, kind, layout.source.columns, bucket_rows, work)
        self._targets = SortedRuns(columns + 1, kind, columns, bucket_rows, work)
        self._totals = work / "totals"

    def extract(self) -> WordTables:
        """Write the sorted runs, and return the lexicon."""
        advance = self._advancing(0.1, 0.45, len(self._corpus.blocks))
        total: tuple[Counts, Counts] | None = None
        waiting: list[tuple[Counts, Counts]] = []
        for counts in self._in_order(self._extract_block, self._corpus.blocks):
            waiting.append(counts)
            # Waiting counts are added when they are as many as the sum: O(n log n) altogether.
            if total is None or sum(len(keys) for keys, _ in waiting) > len(total[0]):
                total = add_counts([*waiting, *([] if total is None else [total])])
                waiting.clear()
            advance(1)
        assert total is not None
        return WordTables.from_counts(*add_counts([total, *waiting]), self._corpus)

    def _advancing(self, begin: float, end: float, total: int) -> Callable[[int], None]:
        """Return a function that counts parts of a step, and reports the share of all work."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._report(begin + (end - begin) * done / total)

        return advance

    def _in_order(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item]
    ) -> Iterator[_Result]:
        """Yield the results of work in threads in the order of the items."""
        waiting: deque[Future[_Result]] = deque()
        for item in items:
            waiting.append(self._threads.submit(work, item))
            if len(waiting) > self._workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _extract_block(self, path: Path) -> tuple[Counts, Counts]:
        corpus, layout = self._corpus, self._layout
        block = SentenceBlock.load(path, corpus.source, corpus.target)
        path.unlink()
        rows = extract_rows(block, layout)
        targets = np.ones((len(rows), layout.target.columns + 1), np.uint64)
        targets[:, :-1] = rows[:, layout.target.first : layout.links]
        counts = count_words(block, corpus.source, corpus.target)
        self._pairs.add(sort_rows(rows))
        self._targets.add(sort_rows(targets))
        return counts

    def count_targets(self) -> None:
        """Write how often each target phrase was extracted."""
        advance = self._advancing(0.45, 0.55, self._targets.num_rows)
        buckets = self._targets.buckets()
        with writing(self._totals), open(self._totals, "wb") as file:
            for rows in self._in_order(partial(_merge, self._targets), buckets):
                file.write(rows.data)
                advance(len(rows))
        self._targets.remove()

    def write(self, lexicon: WordTables, outputs: Sequence[BinaryIO]) -> int:
        """Write the phrase table and the reordering table; return the number of pairs."""
        corpus, layout = self._corpus, self._layout
        columns = layout.target.columns
        totals: Any = np.zeros((0, columns + 1), np.uint64)
        if self._targets.num_rows:
            # A plain array over the map: indexing a numpy.memmap makes Python objects.
            totals = np.asarray(np.memmap(self._totals, np.uint64, "r").reshape(-1, columns + 1))
        texts = (*corpus.source.text(), *corpus.target.text())
        packing = (layout.source, layout.target, layout.links)
        words = tuple(vars(lexicon).values())
        nulls = (corpus.source.null, corpus.target.null)
        shape = (layout.source.columns, layout.links, layout.source.length)

        def score(bucket: Bucket) -> tuple[int, int, Any, Any]:
            rows = _merge(self._pairs, bucket)
            pairs = count_pairs(rows, shape)
            targets = find_totals(rows, pairs[0], totals, layout.target.first, columns)
            table = write_phrase_table(rows, pairs, targets, packing, texts, words, nulls)
            orders = None
            if len(outputs) > 1:
                orders = write_reordering(rows, pairs, packing, texts)
            return len(rows), len(pairs[0]), table, orders

        advance = self._advancing(0.55, 1.0, self._pairs.num_rows)
        num_pairs = 0
        for num_rows, count, table, orders in self._in_order(score, self._pairs.buckets()):
            outputs[0].write(table.data)
            if orders is not None:
                outputs[1].write(orders.data)
            num_pairs += count
            advance(num_rows)
        self._pairs.remove()
        return num_pairs


def _merge(runs: SortedRuns, bucket: Bucket) -> Rows:
    """Return the sorted rows in a bucket, in which equal rows are joined."""
    rows = runs.merge(bucket)
    return rows[: merge_equal(rows)]
