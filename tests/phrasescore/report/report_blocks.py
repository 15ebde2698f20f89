"""Blocks of a section by their names, for tests of sections."""

from collections.abc import Callable
from typing import Any

from phrasescore.records import PhrasePair
from phrasescore.report.blocks import Intervals, Lines, Points, Section, Table
from phrasescore.report.inputs import MadeSection, ReportInputs, TablePair


def section_of(make: Callable[[ReportInputs], MadeSection], **inputs: Any) -> Section:
    """Return the section that is made of some inputs."""
    section = make(ReportInputs(**inputs)).section
    assert section is not None
    return section


def blocks_of(section: Section) -> dict[str, Table | Points | Lines | Intervals]:
    found = {}
    for block in section.blocks:
        assert isinstance(block, Table | Points | Lines | Intervals)
        found[block.name] = block
    return found


def table_of(section: Section, name: str) -> Table:
    found = blocks_of(section)[name]
    assert isinstance(found, Table)
    return found


def pair(source: str, target: str, probability: float, times: float = 1.0) -> TablePair:
    return TablePair(
        PhrasePair(tuple(source.split()), tuple(target.split())), (probability,), times
    )
