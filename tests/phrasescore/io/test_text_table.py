"""Tables of text: phrasescore.io.text_table."""

from phrasescore.io.text_table import text_table


def test_cells_are_printed_as_they_are_though_they_look_like_numbers() -> None:
    rows = [["a", "007", "1.50"], ["bcd", "1e5", ""]]
    assert text_table(rows, "lr") == ["a    007  1.50", "bcd  1e5"]
    assert text_table(rows, "rl", indent="  ") == ["    a  007  1.50", "  bcd  1e5"]
