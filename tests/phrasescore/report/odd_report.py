"""A report of words that could be taken for something else, for tests of pages."""

from phrasescore.report.blocks import (
    Block,
    Estimates,
    Intervals,
    Lines,
    MarkedGroup,
    MarkedLine,
    MarkedSentence,
    MarkedTexts,
    Matrix,
    Points,
    Pyramid,
    Report,
    Section,
    Series,
    Table,
)

# What the web has in it, and what could end or begin something in HTML or in SVG.
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
    text = "".join(ODD)
    differs = tuple(number % 2 == 0 for number in range(count))
    line = MarkedLine(text, 50.0, ODD, (0, 1, 2, 2, 4, 4, 0), differs)
    marked = MarkedGroup(
        text, (MarkedSentence(1, tuple((name, name) for name in ODD), (line,)),), text
    )
    shares = tuple(((0.25, 0.25, 0.5),) * units for units in range(count - 1, 0, -1))
    return (
        Table("table", text, ODD, (ODD,), text),
        Points("points", text, text, text, numbers, numbers, ODD, ODD, caption=text),
        Matrix("matrix", text, ODD, ODD, ((0.5,) * count,) * count, text),
        Lines("lines", text, text, text, tuple(Series(each, (1.0,), (2.0,)) for each in ODD), text),
        Intervals("intervals", text, text, ODD, (Estimates(text, *(numbers,) * 3),), caption=text),
        Pyramid("pyramid", text, ODD, shares, text),
        MarkedTexts("marked", text, text, (marked,)),
    )


def odd_report() -> Report:
    text = "".join(ODD)
    left_out = tuple((name, name) for name in ODD)
    sections = (Section("odd", text, text, odd_blocks(), ODD),)
    return Report(text, left_out, sections, text, command=text, origin=text)
