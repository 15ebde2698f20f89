"""Promises of moses_integration.decoder.phrase_tables: what is read of tables, and its checks."""

import gzip
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.phrase_tables import PhrasePairs, PhraseTables, TableLines, log_of
from moses_integration.phrase_table import read_phrase_table
from moses_integration.source_text import keys_of_sentences
from phrasescore.errors import DataError

# Not sorted; blanks and separators where no tool of Moses puts them.
TABLE = """\
la maison ||| the house ||| 0.5 1 ||| 0-0 1-1 ||| 4 4 2 ||| |||
la ||| the ||| 0.25 0.125 ||| 0-0 ||| 1 1 1
rue ||| street ||| 1 1 ||| 0-0
maison bleue ||| blue house ||| 0 1e-45 |||  |||
  la  maison|||the\thome |||.5  1.|||0-0 1-1
la ||| ' ||| 1 1
la maison bleue ||| x ||| 1
"""
SENTENCES = [("la", "maison"), (), ("bleue", "maison", "bleue")]


Sentences = Sequence[Sequence[str]]


INI = """\
[max-phrase-length]
{longest}
[feature]
PhraseDictionaryMemory name=TM0 num-features={num_scores} path={table}
UnknownWordPenalty
LexicalReordering name=LR0 num-features=6 type=wbe-msd-bidirectional-fe-allff path={reordering}
Distortion
KENLM name=LM0 path=lm
[weight]
TM0= {weights}
LR0= 1 1 1 1 1 1
Distortion0= 1
LM0= 1
"""


@pytest.fixture(params=[False, True], ids=["known text", "stream"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> "Tables":
    return Tables(tmp_path / "moses.ini", indexed=request.param)


class Tables:
    """Finds phrase pairs in a file, or in an index."""

    def __init__(self, ini: Path, *, indexed: bool) -> None:
        self._ini, self._indexed = ini, indexed
        ini.with_name("lm").write_text("\\data\\\nngram 1=1\n\n\\end\\\n")

    def lines(self, path: str, sentences: Sentences, longest: int) -> Iterator[tuple[int, bytes]]:
        return TableLines(path, 1, indexed=self._indexed).find(
            keys_of_sentences(sentences, longest)
        )

    def pairs(
        self,
        path: str,
        sentences: Sentences,
        longest: int = 20,
        num_scores: int = 2,
        reordering: str | None = None,
    ) -> PhrasePairs:
        settings = {"table": path, "reordering": reordering, "num_scores": num_scores}
        text = INI.format(longest=longest, weights="1 " * num_scores, **settings)
        if reordering is None:
            text = text.replace("LexicalReordering", "# ").replace("LR0=", "# ")
        self._ini.write_text(text)
        configuration = DecoderConfiguration.read(str(self._ini))
        tables = PhraseTables(configuration, aligned=False, indexed=self._indexed)
        return tables.reorder(tables.pairs(keys_of_sentences(sentences, longest)))


def write(folder: Path, text: str, name: str = "table") -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def test_pairs_of_phrases_that_occur_are_read_in_groups(tables: Tables, tmp_path: Path) -> None:
    pairs = tables.pairs(write(tmp_path, TABLE), SENTENCES)
    assert pairs.sources == [b"la maison", b"la", b"maison bleue"]
    assert pairs.starts.tolist() == [0, 2, 4, 5]
    assert pairs.targets == [b"the house", b"the home", b"the", b"'", b"blue house"]
    assert [each.text for each in pairs.alignments] == [b"0-0 1-1", b"0-0 1-1", b"0-0", b"", b""]
    wanted = [[math.log(0.5), 0], [math.log(0.5), 0], [math.log(0.25), math.log(0.125)], [0, 0]]
    # 0 and what is below float32's denormals become -100; 1e-45 is the least of them.
    wanted += [[-100.0, -100.0]]
    assert pairs.values[:, :2] == pytest.approx(np.array(wanted), rel=1e-6)
    assert not pairs.values[:, 2].any()  # no word is unknown


def test_the_blanks_of_texts_separate_words(tables: Tables, tmp_path: Path) -> None:
    # A NUL among the first 64 bytes is taken for a binary table.
    table = f"{'rue ' * 16}||| street ||| 1 1\n"
    table += "a\v\x1c\u00a0 \0 b||| x\f\t\u3000\u0085\ry ||| 1 1 ||| 0-0\r\n"
    pairs = tables.pairs(write(tmp_path, table), [("a", "\x1c\u00a0", "b")])
    assert pairs.sources == ["a \x1c\u00a0 b".encode()]
    assert pairs.targets == ["x \u3000\u0085 y".encode()]
    assert [each.text for each in pairs.alignments] == [b"0-0"]
    table = write(tmp_path, "a b ||| x y ||| 1\na ||| x ||| 1\n")
    lines = "a\vb ||| x\fy ||| 1 1 1 1 1 1\r\na ||| x ||| 0.5 1 1 1 1 1\r\n"
    pairs = tables.pairs(table, [("a", "b")], 20, 1, write(tmp_path, lines, "reordering"))
    assert pairs.reordering[:, 0] == pytest.approx(np.array([0, math.log(0.5)]))


def test_phrases_longer_than_the_limit_are_left_out(tables: Tables, tmp_path: Path) -> None:
    assert tables.pairs(write(tmp_path, TABLE), SENTENCES, 1, 2).sources == [b"la"]


def test_a_table_without_matches_gives_no_pairs(tables: Tables, tmp_path: Path) -> None:
    pairs = tables.pairs(write(tmp_path, TABLE), [("unheard",)])
    assert (pairs.sources, pairs.targets, pairs.values.shape) == ([], [], (0, 3))
    assert pairs.starts.tolist() == [0]
    assert tables.pairs(write(tmp_path, TABLE), []).targets == []


def test_small_probabilities_are_those_of_float32() -> None:
    # FACTS.md: 1e-40 is kept (-92.1), 1e-46 is 0 in float32 and becomes -100.
    found = log_of(np.array([1e-40, 1e-46, 0.0, 1.0, 2.0]))
    assert found == pytest.approx([-92.1034, -100, -100, 0, 0.693147], abs=1e-4)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("la ||| the", "expected at least 3 fields"),
        ("la ||| the ||| 1", "expected 2 scores, found 1"),
        ("la ||| the ||| 1 1 1", "expected 2 scores, found 3"),
        ("la ||| the ||| 1 x", "expected numbers as scores"),
        ("la ||| the ||| 1 nan", "expected numbers as scores"),
        ("la ||| the ||| 1 -1", "expected probabilities that are 0 or more"),
        ("la ||| the ||| 1 1e39", "within the range of float32"),
        ("la ||| ||| 1 1", "expected a target phrase"),
        ("rue", "expected at least 2 fields separated by '|||', found 'rue'"),
        ("", "expected at least 2 fields separated by '|||', found ''"),
        ("la ||| the ||| 1 1 ||| 0-01e5", "expected a word alignment, as '0-0 1-2', found '0-01e5"),
        ("la ||| the|DT ||| 1 1", "expected words without factors, found 'the|DT'"),
    ],
)
def test_a_broken_line_is_an_error_with_its_number(
    tables: Tables, tmp_path: Path, line: str, problem: str
) -> None:
    path = write(tmp_path, TABLE.split("\n")[0] + f"\n{line}\nla ||| a ||| 1 1\n", "table.gz")
    with pytest.raises(DataError) as caught:
        tables.pairs(path, SENTENCES)
    assert caught.value.line == 2
    assert problem in str(caught.value)


def test_a_target_that_is_not_utf8_is_an_error(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"la ||| \xff ||| 1 1\n")
    with pytest.raises(DataError, match=r"table:1: expected UTF-8, found byte 0xff at byte 1"):
        tables.pairs(str(tmp_path / "table"), SENTENCES)


def test_the_filter_finds_what_looking_at_each_line_finds(tables: Tables, tmp_path: Path) -> None:
    rng = random.Random(3)
    words = ["a", "b", "c", "aa", "é"]
    lines = [" ".join(rng.choices(words, k=rng.randint(1, 5))) + " ||| x ||| 1" for _ in range(900)]
    sentences = [tuple(rng.choices(words, k=rng.randint(0, 9))) for _ in range(12)]
    for max_length in (1, 2, 4, 20):
        phrases = {
            " ".join(sentence[start:end])
            for sentence in sentences
            for start in range(len(sentence))
            for end in range(start + 1, min(start + max_length, len(sentence)) + 1)
        }
        wanted = [
            (number, line)
            for number, line in enumerate(lines, start=1)
            if line.split(" ||| ")[0] in phrases
        ]
        path = write(tmp_path, "\n".join(lines))
        found = tables.lines(path, sentences, max_length)
        assert [(number, line.decode()) for number, line in found] == wanted
        assert 0 < len(wanted) < len(lines)


def test_what_is_read_of_the_examples_table_is_what_the_plain_reader_reads(
    tables: Tables, repository: Path
) -> None:
    path = str(repository / "examples/english-french/phrase-table.gz")
    text = (repository / "examples/english-french/dev.en").read_text(encoding="utf-8")
    sentences = [tuple(line.split()) for line in text.split("\n")[:5]]
    pairs = tables.pairs(path, sentences, 20, 4)
    padded = [f" {' '.join(sentence)} " for sentence in sentences]
    wanted = {
        (line.pair.source, line.pair.target)
        for line in read_phrase_table(path)
        if any(f" {' '.join(line.pair.source)} " in sentence for sentence in padded)
    }
    groups = np.repeat(np.arange(len(pairs.sources)), np.diff(pairs.starts))
    found = {
        (tuple(pairs.sources[group].decode().split()), tuple(target.decode().split()))
        for group, target in zip(groups, pairs.targets, strict=True)
    }
    assert found == wanted
    assert len(wanted) == len(pairs.targets) > 50


PAIRS = "la ||| maison ||| 1\nla ||| the ||| 1\nla ||| la ||| 1\nla ||| the ||| 1\n"
REORDERING = """\
la ||| the ||| 0.5 0.25 0.25 0.125 0.125 1
la ||| la ||| 1 1 1 1 1 1
rue ||| street ||| 1 1 1
la  |||  the ||| 0.25 0.25 0.5 1 0 1
"""


def test_reordering_scores_are_those_of_the_last_line_of_a_pair(
    tables: Tables, tmp_path: Path
) -> None:
    path = f"{write(tmp_path, REORDERING, 'reordering')} default-scores={'0.125,' * 5}1"
    pairs = tables.pairs(write(tmp_path, PAIRS), SENTENCES, 20, 1, path)
    missing = [math.log(0.125)] * 5 + [0]
    the = [math.log(0.25), math.log(0.25), math.log(0.5), 0, -100, 0]
    assert pairs.reordering == pytest.approx(np.array([missing, the, [0.0] * 6, the]))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("la ||| the ||| 1 1 1 1 1", "expected 6 scores, found 5"),
        ("la ||| the ||| 1 1 1 1 1 -1", "expected probabilities"),
        ("la ||| the ||| 1 1 1 1 1 1 ||| 1", "expected 'source ||| target ||| scores'"),
        ("la ||| 1 1 1 1 1 1", "expected at least 3 fields"),
    ],
)
def test_a_broken_line_of_a_reordering_table_is_an_error(
    tables: Tables, tmp_path: Path, line: str, problem: str
) -> None:
    path = write(tmp_path, f"la ||| la ||| 1 1 1 1 1 1\n{line}\n", "reordering.gz")
    with pytest.raises(DataError) as caught:
        tables.pairs(write(tmp_path, PAIRS), SENTENCES, 20, 1, path)
    assert caught.value.line == 2
    assert problem in str(caught.value)
