"""The sections of a report and its settings. Imports nothing heavy."""

from typing import NamedTuple

# In the order of the page.
SECTIONS = (
    "translations",
    "differences",
    "experiment",
    "tuning",
    "preferences",
    "samples",
    "scores",
    "words",
    "phrases",
    "sentences",
    "alignments",
    "parses",
    "training",
)


class Settings(NamedTuple):
    """How much a report shows, and by which seed."""

    # Phrase pairs of the scatter plot; words, phrases or sentences of a map.
    points: int = 5000
    map_points: int = 2000
    # Words of a source phrase that counts as long: Cho et al. (2014), 4.3, more than 3.
    long: int = 4
    # The table's column of p(target | source), from 1; None for Moses' order.
    table_score: int | None = None
    # Sentences that are drawn, or the lines that were named, from 1.
    sentences: int = 5
    lines: tuple[int, ...] | None = None
    # Whether either was asked for.
    sentences_wanted: bool = False
    seed: int = 1
    device: str = "auto"
    threads: int | None = None
    # The sections that were asked for; empty for all.
    only: tuple[str, ...] = ()
