"""Symmetrisation: small cases from Moses' symal, and plain Python on random alignments."""

import random
from pathlib import Path

from moses_integration.building.symmetrization import symmetrize


def join(folder: Path, forward: str, backward: str) -> list[str]:
    (folder / "forward").write_text(forward)
    (folder / "backward").write_text(backward)
    joined = symmetrize(str(folder / "forward"), str(folder / "backward"))
    return [line.decode() for line in joined]


# What symal gives for four source and four target words; its input in the format of giza2bal.pl is
# "1 / 4 x x x x # 1 2 0 1 / 4 y y y y # 1 3 0 4".
FORWARD, BACKWARD = "0-0 1-1 0-3\n", "0-0 1-2 3-3\n"
EXPECTED = "0-0 1-1 1-2 0-3"


def test_alignments_are_joined_as_by_symal(tmp_path: Path) -> None:
    assert join(tmp_path, FORWARD, BACKWARD) == [EXPECTED]


def grow(forward: set[tuple[int, int]], backward: set[tuple[int, int]]) -> str:
    """Transcribe symal's printgrow with sets of (target, source)."""
    both, links = forward | backward, set(forward & backward)
    targets, sources = {t for t, _ in links}, {s for _, s in links}
    is_growing = True
    while is_growing:
        is_growing = False
        visited: set[tuple[int, int]] = set()
        while rest := sorted(link for link in links if not visited or link > max(visited)):
            target, source = rest[0]
            visited.add(rest[0])
            for down, right in (
                (-1, 0),
                (0, -1),
                (1, 0),
                (0, 1),
                (-1, -1),
                (-1, 1),
                (1, -1),
                (1, 1),
            ):
                near = target + down, source + right
                if near in both and not (near[0] in targets and near[1] in sources):
                    links.add(near)
                    targets.add(near[0])
                    sources.add(near[1])
                    is_growing = True
    for one, other in ((forward, backward), (backward, forward)):
        for target, source in sorted(one - other):
            if target not in targets and source not in sources:
                links.add((target, source))
                targets.add(target)
                sources.add(source)
    return " ".join(f"{source}-{target}" for target, source in sorted(links))


def test_random_alignments_grow_as_with_sets(tmp_path: Path) -> None:
    chance = random.Random(4)
    sides, expected = ([], []), []  # type: tuple[list[str], list[str]], list[str]
    for _ in range(300):
        size, other = chance.randint(1, 9), chance.randint(1, 9)
        forward = {(t, chance.randrange(size)) for t in range(other) if chance.random() < 0.8}
        backward = {(chance.randrange(other), s) for s in range(size) if chance.random() < 0.8}
        for lines, links in zip(sides, (forward, backward), strict=True):
            lines.append(" ".join(f"{s}-{t}" for t, s in chance.sample(sorted(links), len(links))))
        expected.append(grow(forward, backward))
    first, second = ("".join(f"{line}\n" for line in lines) for lines in sides)
    assert join(tmp_path, first, second) == expected
