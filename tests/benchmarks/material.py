"""What the benchmarks work on: a table, lists, and networks with random weights."""

import contextlib
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from moses_integration.nbest import read_nbest
from moses_integration.phrase_table import read_phrase_table
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord, empty_network
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.records import HypothesisList, PhrasePair
from phrasescore.settings.config import Config
from phrasescore.vocabulary import Vocabulary

# Wide enough that the probabilities of words differ as those of a trained network do. With the
# 0.01 that training starts from, all are alike and no error of rounding would show.
INIT_STD = 0.1


def write_slices(table: str, folder: Path, lines: int, slice_lines: int) -> list[Path]:
    """Cut the first ``lines`` lines of a table into .gz files; a short rest joins the last one."""
    raws = list(islice(read_lines(table), lines))
    starts = list(range(0, max(len(raws) - slice_lines, 0) + 1, slice_lines))
    paths: list[Path] = []
    for start, end in zip(starts, [*starts[1:], len(raws)], strict=True):
        path = folder / f"slice-{len(paths)}.gz"
        text = b"".join(raw + b"\n" for raw in raws[start:end])
        path.write_bytes(gzip.compress(text, 6))
        paths.append(path)
    return paths


def read_pairs(paths: Iterable[Path | str]) -> Iterator[PhrasePair]:
    for path in paths:
        yield from (line.pair for line in read_phrase_table(str(path)))


def write_lists(nbest: str, source: str, count: int, folder: Path) -> list[HypothesisList]:
    """Write lists at equal distances, and their sources, as ``lists.gz`` and ``source``.

    The first of them alone is ``little.gz``.
    """
    sources = list(read_lines(source))
    step = max(len(sources) // count, 1)
    chosen = range(0, len(sources), step)[:count]
    (folder / "source").write_bytes(b"".join(sources[place] + b"\n" for place in chosen))
    lists: list[HypothesisList] = []
    lines: list[list[bytes]] = []
    for item in read_nbest(nbest):
        if item.id in chosen:
            fields = (raw.partition(b" ||| ")[2] for raw in item.raws)
            lines.append([b"%d ||| %b\n" % (len(lines), rest) for rest in fields])
            words = item.distinct()
            hypotheses = [words[hypothesis] for hypothesis in item.hypotheses]
            lists.append(HypothesisList(tuple(sources[item.id].decode().split()), hypotheses))
    for name, parts in (("lists.gz", lines), ("little.gz", lines[:1])):
        text = b"".join(line for part in parts for line in part)
        (folder / name).write_bytes(gzip.compress(text, 1))
    return lists


def last_values(lists: Path) -> list[float]:
    """Return the last feature value of each hypothesis."""
    return [float(raw.rsplit(b" ||| ", 2)[1].split()[-1]) for raw in read_lines(str(lists))]


def padded_vocabularies(pairs: Iterable[PhrasePair], config: Config) -> list[Vocabulary]:
    """Return the shortlists of both sides, filled up to the configured sizes.

    A table of a small task has fewer words than the paper's shortlists, and the work depends on
    their sizes; so the rest is made up, and never seen.
    """
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        counts[0].update(pair.source)
        counts[1].update(pair.target)
    sizes = (config.vocabulary.source_size, config.vocabulary.target_size)
    vocabularies = []
    for counter, size in zip(counts, sizes, strict=True):
        known = Vocabulary.from_counts(counter, size)
        shortlist = [known.word(number) for number in range(2, len(known))]
        made_up = (f"<f{number}>" for number in range(size - len(shortlist)))
        vocabularies.append(Vocabulary([*shortlist, *made_up]))
    return vocabularies


def pairs_of(lists: Iterable[HypothesisList]) -> Iterator[PhrasePair]:
    return (PhrasePair(item.source, words) for item in lists for words in item.hypotheses[:100])


def start_checkpoint(config: Config, pairs: Iterable[PhrasePair]) -> Checkpoint:
    """Return a model with the weights that training starts from."""
    source, target = padded_vocabularies(pairs, config)
    network: Any = empty_network(config, len(source), len(target)).to_empty(device="cpu")
    network.initialize(torch.Generator().manual_seed(1))
    if isinstance(network, RnnsearchNetwork):
        with torch.no_grad():
            # Start weights attend to every word alike.
            network.alignment.energy.normal_(0, 1, generator=torch.Generator().manual_seed(2))
    return Checkpoint(network.eval(), config, source, target, TrainingRecord())


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
