"""Align the words of the training part, as every user of Moses has to.

    python make_alignment.py [-d DIR]

Reads train.{en,fr}.gz in DIR (the folder of this file by default) and writes train.align.gz
("0-0 1-2": English position, French position). If make_corpus.py has left train.links.gz there, the
grammar's own links, the error rate of the alignment is printed.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from make_corpus import write_gzip
from make_model import read_gzip
from phrase_pairs import Links, parse_links
from word_alignment import Sentences, align

# The order in which Moses' symal tries what is beside a link (symal.cpp): (target, source).
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(direct: Sequence[int], inverse: Sequence[int]) -> Links:
    """Return the links (source position, target position) that Moses' symal makes of two sets.

    :param direct: the source position of each target word, -1 for none.
    :param inverse: the target position of each source word, -1 for none.
    """
    ours = {(j, i) for j, i in enumerate(direct) if i >= 0}
    theirs = {(j, i) for i, j in enumerate(inverse) if j >= 0}
    links = ours & theirs
    targets, sources = {j for j, _ in links}, {i for _, i in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        targets.add(link[0])
        sources.add(link[1])

    added = True
    while added:
        added, last = False, (-1, -1)
        # As in symal, a new link that comes later in the order is looked at in the same pass.
        while later := [link for link in links if link > last]:
            last = min(later)
            for down, right in NEIGHBOURS:
                link = last[0] + down, last[1] + right
                if link in ours | theirs and not (link[0] in targets and link[1] in sources):
                    add(link)
                    added = True
    for link in [*sorted(ours - theirs), *sorted(theirs - ours)]:
        if link[0] not in targets and link[1] not in sources:
            add(link)
    return frozenset((i, j) for j, i in links)


def align_both_ways(sources: Sentences, targets: Sentences) -> list[Links]:
    """Return the links (source position, target position) per sentence pair."""
    directions = zip(align(sources, targets), align(targets, sources), strict=True)
    return [grow_diag_final_and(direct, inverse) for direct, inverse in directions]


def error_rate(found: Sequence[Links], wanted: Sequence[Links]) -> str:
    """Return precision, recall and alignment error rate (Och and Ney, 2003), all links sure."""
    right = sum(len(one & other) for one, other in zip(found, wanted, strict=True))
    num_found, num_wanted = (sum(map(len, links)) for links in (found, wanted))
    return (
        f"precision {right / num_found:.3f}, recall {right / num_wanted:.3f}, "
        f"alignment error rate {1 - 2 * right / (num_found + num_wanted):.3f}"
    )


def main() -> None:
    """Read the command line and write the alignment."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-d", "--directory", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().directory
    english, french = (
        [line.split(" ") for line in read_gzip(folder / f"train.{side}.gz")]
        for side in ("en", "fr")
    )
    found = align_both_ways(english, french)
    lines = [" ".join(f"{i}-{j}" for i, j in sorted(links)) + "\n" for links in found]
    write_gzip(folder / "train.align.gz", "".join(lines))
    if (folder / "train.links.gz").exists():
        wanted = [parse_links(line) for line in read_gzip(folder / "train.links.gz")]
        print(error_rate(found, wanted))


if __name__ == "__main__":
    main()
