"""A report of words that could be taken for something else, for tests of pages."""

from phrasescore.report.blocks import (
    Block,
    Estimates,
    Fact,
    Intervals,
    Lines,
    Matrix,
    Points,
    Pyramid,
    Report,
    Section,
    Series,
    Table,
)

# What the web has in it, and what could end or begin something in HTML, in JSON, or in a script.
ODD = (
    "<script>alert(1)</script>",
    "</script><!--",
    "]]> --> \u2028\u2029",
    "\"double\" 'single' &amp; &lt; & < >",
    "<b>bold</b> <a href='http://example.org'>link</a>",
    '" onmouseover="alert(1)',
    "%{x} $x^2$ {{ 7 * 7 }} {% raw %} \\ \\u003c",
)


def odd_blocks() -> tuple[Block, ...]:
    """Return a block of each kind that has the odd texts wherever a text can stand."""
    count = len(ODD)
    numbers = tuple(float(number) for number in range(count))
    shares = tuple(((0.25, 0.25, 0.5),) * units for units in range(count - 1, 0, -1))
    text = "".join(ODD)
    return (
        Table("table", text, ODD, (ODD,), text),
        Points("points", text, text, text, numbers, numbers, ODD, ODD, caption=text),
        Matrix("matrix", text, ODD, ODD, ((0.5,) * count,) * count, text, text, text),
        Lines("lines", text, text, text, (Series(text, ODD, numbers),), caption=text),
        Intervals("intervals", text, text, ODD, (Estimates(text, numbers),), caption=text),
        Pyramid("pyramid", text, ODD, shares, text),
    )


def odd_report() -> Report:
    text = "".join(ODD)
    facts = tuple(Fact(name, name) for name in ODD)
    sections = (Section("odd", text, text, odd_blocks(), ODD),)
    return Report(text, facts, sections, text, command=text, origin=text)
