"""Promises of phrasescore.report.page: one file with everything, and words that stay words."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from phrasescore.report.blocks import (
    Block,
    Cell,
    Estimates,
    Fact,
    Intervals,
    Lines,
    MarkedGroup,
    MarkedLine,
    MarkedSentence,
    MarkedTexts,
    Points,
    Report,
    Section,
    Series,
    Table,
)
from phrasescore.report.page import render_page
from tests.phrasescore.report.odd_report import ODD, odd_report


def report_of(*blocks: Block) -> Report:
    return Report("Report", (), (Section("part", "Part", "", blocks),))


class Elements(HTMLParser):
    """The elements of a page in their order, with what they hold up to the next tag."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._is_open = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self._is_open = True

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._is_open = False

    def handle_data(self, data: str) -> None:
        if self._is_open:
            self.found[-1][2].append(data)

    def texts(self, tag: str) -> list[str]:
        return ["".join(text) for name, _, text in self.found if name == tag]

    def attributes(self, name: str) -> list[str | None]:
        return [attributes[name] for _, attributes, _ in self.found if name in attributes]


@pytest.fixture(scope="module")
def odd_page() -> str:
    return render_page(odd_report())


def shown_cells(*column: Cell) -> list[str]:
    table = Table("t", "Table", ("a",), tuple((cell,) for cell in column))
    return Elements(render_page(report_of(table))).texts("td")


# Structure


def test_each_section_has_a_heading_that_the_contents_lead_to() -> None:
    sections = tuple(Section(key, f"Title {key}", "", ()) for key in ("a", "b-2"))
    elements = Elements(render_page(Report("Report", (), sections)))
    assert elements.texts("h1") == ["Report"]
    assert elements.texts("h2") == ["Title a", "Title b-2"]
    assert elements.attributes("href") == ["#a", "#b-2"]  # no inputs, so no link to them
    ids = elements.attributes("id")
    assert {"a", "b-2"} <= set(ids)
    assert len(set(ids)) == len(ids)


def test_a_blank_line_in_a_lead_begins_a_paragraph() -> None:
    page = render_page(Report("", (), (Section("a", "", "One\nline.\n\n\n\nTwo.\n", ()),)))
    assert Elements(page).texts("p") == ["One\nline.", "Two."]


def test_facts_are_names_and_values() -> None:
    elements = Elements(
        render_page(Report("", (Fact("model", "m30k", "../m%20k"), Fact("seed", "1")), ()))
    )
    assert elements.texts("dt") == ["model", "seed"]
    assert elements.texts("a")[-1] == "m30k"
    assert elements.attributes("href")[-1] == "../m%20k"
    assert elements.texts("dd")[-1] == "1"


def test_a_table_is_one_without_a_script_too() -> None:
    rows = tuple((f"word {number}", number) for number in range(100))
    page = render_page(report_of(Table("t", "Words", ("word", "count"), rows, "All of them.")))
    elements = Elements(page)
    assert elements.texts("th") == ["word", "count"]
    assert elements.texts("td") == [str(cell) for row in rows for cell in row]
    assert "Words" in elements.texts("span")
    assert [tag for tag, _, _ in elements.found].count("caption") == 1


def test_an_empty_report_and_an_empty_table_say_so() -> None:
    assert "There is nothing in this report." in render_page(Report("Empty", (), ()))
    assert Elements(render_page(report_of(Table("t", "T", ("a", "b"), ())))).texts("td") == ["none"]


def test_a_figure_says_what_it_shows_and_where_its_values_are() -> None:
    block = Points("scores", "Scores", "table", "network", (1.0,), (2.0,), ("a",))
    elements = Elements(render_page(report_of(block)))
    labels = elements.attributes("aria-label")
    assert "Scatter plot: Scores. 1 point, table against network." in labels
    assert any("report.json" in text for text in elements.texts("noscript") + elements.texts("p"))


def test_plotly_is_there_only_where_it_draws_something() -> None:
    dots = Intervals("dots", "Dots", "BLEU", ("base",), (Estimates("dev", (1.0,)),))
    assert "_plotly" not in Elements(render_page(report_of(dots))).attributes("id")
    lines = Lines("lines", "Lines", "x", "y", (Series("a", (1,), (1.0,)),))
    assert "_plotly" in Elements(render_page(report_of(dots, lines))).attributes("id")


# Numbers


def test_numbers_of_a_column_have_as_many_decimals_as_its_largest_needs() -> None:
    assert shown_cells(33.2, -1.23456) == ["33.20", "-1.23"]
    assert shown_cells(0.5, 0.12345) == ["0.5000", "0.1235"]
    assert shown_cells(12345.678, 1.0) == ["12,346", "1"]
    assert shown_cells(0.0, -0.0) == ["0.000", "-0.000"]


def test_a_format_shows_signs_p_values_and_headings_over_columns() -> None:
    columns = ("system", "test: BLEU", "test: p")
    rows = (("a", 1.0, 0.0004), ("b", -1.25, 0.0014), ("c", -0.001, None))
    table = Table("t", "T", columns, rows, formats=("", "+.2f", "p"), spans=(("", 1), ("test", 2)))
    elements = Elements(render_page(report_of(table)))
    assert elements.texts("td")[1:] == [
        *("a", "+1.00", "< 0.001", "b", "\u22121.25", "0.001", "c", "0.00", "–"),
    ]
    assert elements.texts("th") == ["test", "system", "BLEU", "p"]


def test_a_folded_section_is_opened_by_its_heading() -> None:
    section = Section("s", "Steps", "", (), is_folded=True)
    tags = [tag for tag, _, _ in Elements(render_page(Report("R", (), (section,)))).found]
    at = tags.index("section")
    assert tags[at : at + 4] == ["section", "details", "summary", "h2"]


def test_a_small_number_beside_a_large_one_is_not_shown_as_nought() -> None:
    assert shown_cells(0.5, 1e-9, 0.0) == ["0.5000", "1.0e-09", "0.0000"]


def test_counts_have_commas_and_nothing_is_a_dash() -> None:
    assert shown_cells(1209173, None, -5) == ["1,209,173", "–", "-5"]
    assert shown_cells(None, "word") == ["–", "word"]


def test_a_column_is_set_to_the_right_where_all_of_it_are_numbers() -> None:
    columns = ("number", "mixed", "nothing")
    table = Table("t", "T", columns, ((1.5, 1, None), (None, "a", None)))
    cells = [found for found in Elements(render_page(report_of(table))).found if found[0] == "td"]
    is_right = [attributes.get("class") == "number" for _, attributes, _ in cells]
    assert is_right == [True, False, False] * 2


def test_a_row_is_sorted_by_all_digits() -> None:
    table = Table("t", "T", ("a",), ((1 / 3,), (12345,), (None,)))
    assert Elements(render_page(report_of(table))).attributes("data-value") == [
        "0.3333333333333333",
        "12345",
    ]


def test_a_match_is_underlined_as_a_whole_and_words_that_differ_are_marked_in_it() -> None:
    line = MarkedLine(
        name="other",
        score=12.34,
        words=("a", "b", "c", "d", "e", "x", "y", "z"),
        matches=(1, 4, 4, 4, 4, 0, 0, 2),
        linked=(False, False, True, True, True, False, False, False),
        differs=(False, False, True, True, False, False, True, False),
    )
    base = MarkedLine("base", 22.36, (), (), (), ())
    group = MarkedGroup("Gains", (MarkedSentence(1234, "why", (), (base, line)),))
    page = render_page(report_of(MarkedTexts("m", "M", "base", (group,))))
    assert (
        '<u class="word">a</u> <u class="long">b <mark>c d</mark> e</u> x <mark>y</mark> '
        '<u class="short">z</u></td>'
    ) in page
    cells = Elements(page).texts("td")
    assert cells[:2] == ["22.4", ""]
    assert cells[3:5] == ["12.3", "\N{MINUS SIGN}10.0"]
    assert "no words" in Elements(page).texts("span")
    assert "Sentence 1,234" in Elements(page).texts("span")


@pytest.mark.parametrize(("groups", "folded"), [(4, 1), (5, 3)])
def test_of_many_sentences_the_first_are_shown_and_the_others_folded(
    groups: int, folded: int
) -> None:
    sentences = tuple(MarkedSentence(number, "", (), ()) for number in range(4))
    block = MarkedTexts("m", "M", "base", (MarkedGroup("Gains", sentences),) * groups)
    page = render_page(report_of(block))
    assert Elements(page).texts("summary")[1:] == [f"{folded} more"] * groups


# Words from the web


def test_no_word_becomes_an_element_or_an_attribute(odd_page: str) -> None:
    elements = Elements(odd_page)
    tags = [tag for tag, _, _ in elements.found]
    # The values of five figures, plotly, and the page's own script.
    assert tags.count("script") == 7
    assert not {"b", "i"} & set(tags)
    assert elements.attributes("href") == ["#odd", "#_inputs"]  # the contents
    assert tags.count("a") == 2
    assert not elements.attributes("onmouseover")


def test_words_are_shown_as_they_are(odd_page: str) -> None:
    elements = Elements(odd_page)
    for texts in (elements.texts("dt"), elements.texts("dd")):
        assert texts == list(ODD)
    cells = [text for text in elements.texts("td") if text and text != "50.0"]
    assert cells == [*ODD, *ODD]  # of the table, and beside the marked line
    # The words of that line in turn differ, and all but the first and the last match; behind the
    # words of the legend.
    assert elements.texts("mark")[2:] == list(ODD[::2])
    assert elements.texts("u")[4:] == [ODD[1], "", ODD[3], "", ODD[5]]
    assert elements.texts("th")[: len(ODD)] == list(ODD)
    text = "".join(ODD)
    assert elements.texts("title") == [text]
    assert elements.texts("h1") == elements.texts("h2")[:1] == [text]
    assert elements.texts("code") == [text]
    assert elements.texts("li")[-len(ODD) :] == list(ODD)
    assert elements.texts("h3") == [text] * 6
    assert elements.texts("span").count(text) == 7  # a title, five captions, and a reason


def test_the_values_of_a_figure_come_back_from_its_script(odd_page: str) -> None:
    values = [
        json.loads("".join(text))
        for tag, attributes, text in Elements(odd_page).found
        if tag == "script" and attributes.get("type") == "application/json"
    ]
    kinds = [value["kind"] for value in values]
    assert kinds == ["points", "matrix", "lines", "intervals", "pyramid"]
    assert values[0]["labels"] == values[0]["groups"] == list(ODD)
    assert values[1]["row_labels"] == values[1]["column_labels"] == list(ODD)
    assert values[2]["series"][0]["x"] == values[3]["rows"] == values[4]["words"] == list(ODD)


def test_nothing_in_a_script_can_end_it_or_is_a_line_end_to_old_browsers(odd_page: str) -> None:
    for text in re.findall(r"<script[^>]*json[^>]*>(.*?)</script>", odd_page, re.DOTALL):
        assert not set("<>&\u2028\u2029") & set(text)


# A file of its own


def test_the_page_refers_to_nothing_outside(odd_page: str) -> None:
    elements = Elements(odd_page)
    assert all(str(link).startswith("#") for link in elements.attributes("href"))
    for name in ("src", "srcset", "action", "data", "poster", "background", "formaction"):
        assert elements.attributes(name) == []
    assert not {"link", "base", "iframe", "object", "img"} & {tag for tag, _, _ in elements.found}
    for style in (*elements.texts("style"), *map(str, elements.attributes("style"))):
        assert "url(" not in style
        assert "@import" not in style


def test_the_policy_forbids_every_request_and_every_script_but_our_own(odd_page: str) -> None:
    elements = Elements(odd_page)
    policy = next(text for text in elements.attributes("content") if "default-src" in str(text))
    parts = dict(part.strip().split(" ", 1) for part in str(policy).split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data: blob:"
    own = elements.texts("script")[-1]
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in (own, get_plotlyjs())
    ]
    sources = [f"'sha256-{digest}'" for digest in hashes]
    assert parts["script-src"] == " ".join([*sources, "'unsafe-eval'"])


def test_plotly_is_in_the_page_as_it_was_delivered(odd_page: str) -> None:
    packed = next(
        "".join(text)
        for _, attributes, text in Elements(odd_page).found
        if attributes.get("id") == "_plotly"
    )
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()


def test_a_page_without_figures_is_small() -> None:
    page = render_page(report_of(Table("t", "T", ("a",), (("b",),))))
    assert len(page.encode()) < 60_000


def test_the_same_report_gives_the_same_page(odd_page: str) -> None:
    assert render_page(odd_report()) == odd_page
