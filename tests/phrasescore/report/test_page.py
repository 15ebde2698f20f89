"""Promises of phrasescore.report.page: one file with everything, and words that stay words."""

import json
from html.parser import HTMLParser

import msgspec
import pytest

from phrasescore.report.blocks import (
    Block,
    Cell,
    MarkedGroup,
    MarkedLine,
    MarkedSentence,
    MarkedTexts,
    Report,
    Section,
    Table,
    to_json,
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


def test_a_table_has_a_caption_headings_and_all_rows() -> None:
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


# Numbers


def test_a_number_without_a_format_has_six_digits() -> None:
    assert shown_cells(-1 / 3, 12345.5, 0.5) == ["\u22120.333333", "12,345.5", "0.5"]


def test_a_format_shows_signs_p_values_and_headings_over_columns() -> None:
    columns = ("system", "test: BLEU", "test: p")
    rows = (("a", 1.0, 0.0004), ("b", -1.25, 0.0014), ("c", -0.001, None))
    table = Table("t", "T", columns, rows, formats=("", "+.2f", "p"), spans=(("", 1), ("test", 2)))
    elements = Elements(render_page(report_of(table)))
    assert elements.texts("td")[1:] == [
        *("a", "+1.00", "< 0.001", "b", "\u22121.25", "0.001", "c", "0.00", "–")
    ]
    assert elements.texts("th") == ["test", "system", "BLEU", "p"]


def test_counts_have_commas_and_nothing_is_a_dash() -> None:
    assert shown_cells(1209173, None, -5) == ["1,209,173", "–", "-5"]
    assert shown_cells(None, "word") == ["–", "word"]


def test_a_column_is_set_to_the_right_where_all_of_it_are_numbers() -> None:
    columns = ("number", "mixed", "nothing")
    table = Table("t", "T", columns, ((1.5, 1, None), (None, "a", None)))
    cells = [found for found in Elements(render_page(report_of(table))).found if found[0] == "td"]
    is_right = [attributes.get("class") == "number" for _, attributes, _ in cells]
    assert is_right == [True, False, False] * 2


def test_a_match_is_underlined_as_a_whole_and_words_that_differ_are_marked_in_it() -> None:
    line = MarkedLine(
        name="other",
        score=12.34,
        words=("a", "b", "c", "d", "e", "x", "y", "z"),
        matches=(1, 4, 4, 4, 4, 0, 0, 2),
        differs=(False, False, True, True, False, False, True, False),
    )
    base = MarkedLine("base", 22.36, (), (), ())
    group = MarkedGroup("Gains", (MarkedSentence(1234, (), (base, line)),))
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
    sentences = tuple(MarkedSentence(number, (), ()) for number in range(4))
    block = MarkedTexts("m", "M", "base", (MarkedGroup("Gains", sentences),) * groups)
    page = render_page(report_of(block))
    assert Elements(page).texts("summary") == [f"{folded} more"] * groups


# Words from the web


def test_no_word_becomes_an_element_or_an_attribute(odd_page: str) -> None:
    elements = Elements(odd_page)
    tags = [tag for tag, _, _ in elements.found]
    assert not {"b", "i", "script"} & set(tags)
    assert tags.count("svg") == 5
    links = [attributes["href"] for tag, attributes, _ in elements.found if tag == "a"]
    assert links == ["#odd", "#_left_out"]  # the contents
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
    assert elements.texts("u")[4:] == [ODD[1], "", ""]
    assert elements.texts("th")[: len(ODD)] == list(ODD)
    text = "".join(ODD)
    assert elements.texts("title")[0] == text  # of the page; the others are in figures
    assert elements.texts("h1") == elements.texts("h2")[:1] == [text]
    assert elements.texts("code") == [text]
    assert elements.texts("li")[-len(ODD) :] == list(ODD)
    assert elements.texts("h3") == [text] * 6
    assert elements.texts("span").count(text) == 1  # the title of a table
    captions = elements.texts("figcaption")
    assert len(captions) == 5
    assert all(caption.strip().endswith(text) for caption in captions)


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


def test_the_policy_forbids_every_request_and_every_script(odd_page: str) -> None:
    contents = Elements(odd_page).attributes("content")
    assert "default-src 'none'; style-src 'unsafe-inline'" in contents


def test_the_data_of_a_report_has_all_values_of_its_page() -> None:
    data = to_json(odd_report())
    assert msgspec.json.decode(data, type=Report) == odd_report()
    sections = json.loads(data)["sections"]
    kinds = [block["kind"] for section in sections for block in section["blocks"]]
    names = ("table", "points", "matrix", "lines", "intervals", "pyramid", "markedtexts")
    assert kinds == list(names)
