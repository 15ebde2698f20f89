"""The table of an experiment: BLEU of its systems on its texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from phrasescore.report.blocks import Cell, Lines, Section, Series, Table

_FIGURES = {"bleu": "", "deviation": " ±", "difference": ": difference", "p_value": ": p"}


def experiment_section(table: Mapping[str, Any]) -> Section:
    """Return a section of what ``phrasescore experiment`` wrote into ``table.toml``.

    :raises KeyError: if it has no rows, or one has no name.
    :raises TypeError: if a value is of another type than was written.
    """
    rows: list[Mapping[str, Any]] = list(table["row"])
    names = [f"{row['name']}{' *' if row.get('remarks') else ''}" for row in rows]
    texts = list(
        dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, dict))
    )
    columns = ["system"]
    for text in texts:
        columns += [f"{text}{ending}" for ending in _FIGURES.values()]
    columns.append("rounds")
    cells = tuple(
        (
            name,
            *(_figure(row, text, figure) for text in texts for figure in _FIGURES),
            ", ".join(map(str, row.get("rounds", ()))),
        )
        for name, row in zip(names, rows, strict=True)
    )
    notes = " ".join(str(note) for note in table.get("notes", ()))
    blocks: list[Table | Lines] = [
        Table("experiment-table", "BLEU", tuple(columns), cells),
    ]
    if texts:
        series = tuple(_series(text, names, rows) for text in texts)
        bars = Lines("experiment-bars", "BLEU", "system", "BLEU", series, bars=True)
        blocks.append(bars)
    return Section("experiment", "Experiment", notes, tuple(blocks))


def _figure(row: Mapping[str, Any], text: str, figure: str) -> Cell:
    value = row.get(text, {}).get(figure)
    if value is None:
        return None
    return round(float(value), 4 if figure == "p_value" else 2)


def _series(text: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Series:
    heights = tuple(_figure(row, text, "bleu") for row in rows)
    spread = tuple(float(row.get(text, {}).get("deviation") or 0.0) for row in rows)
    return Series(
        text,
        tuple(names),
        tuple(None if height is None else float(height) for height in heights),
        spread if any(spread) else (),
    )
