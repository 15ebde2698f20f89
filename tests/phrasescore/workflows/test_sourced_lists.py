"""Promises of phrasescore.workflows.sourced_lists: what is said of the lists that it reads."""

from pathlib import Path

import pytest

from phrasescore.workflows.sourced_lists import read_sourced_lists


@pytest.mark.parametrize(("links", "warnings"), [("", 1), ("0-0", 0)])
def test_lists_without_any_link_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, links: str, warnings: int
) -> None:
    line = "{} ||| le  ||| A= 1 ||| -1 ||| 0=0 ||| {}\n"
    lists, source = tmp_path / "lists", tmp_path / "source"
    lists.write_text(line.format(0, "") + line.format(1, links))
    source.write_text("the\nthe\n")
    read = read_sourced_lists(
        str(lists), str(source), (), allow_missing=False, unknown_words=None, aligned=True
    )
    affiliations = [found.distinct.affiliations for found in read]
    assert affiliations == [[(1,)], [(0 if links else 1,)]]
    assert sum("no hypothesis has a link" in text for text in caplog.messages) == warnings
