"""The n-gram model against arithmetic by hand and against the kenlm package."""

import gzip
import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import kenlm
import numpy as np
import pytest

from phrasescore.errors import DataError
from phrasescore.features.language_model import LanguageModelScore
from phrasescore.language_models.arpa import NgramModel, read_arpa
from phrasescore.language_models.estimation import estimate
from phrasescore.language_models.kenlm_scorer import LN_10, load_for_text
from phrasescore.language_models.ngram_scorer import load_ngrams
from phrasescore.language_models.ngram_table import score_word
from phrasescore.records import PhrasePair, split_words
from tests.feature_values import values_of

# "b c" is missing though "a b c" is there, as SRILM leaves it: a blank. "c d" has no use at all.
PRUNED = """
\\data\\
ngram 1=7
ngram 2=6
ngram 3=3

\\1-grams:
-99\t<s>\t-0.5
-1.5\t</s>
-1.1\ta\t-0.3
-1.2\tb\t-0.25
-1.3\tc\t-0.2
-1.4\td\t-0.1
-3\te

\\2-grams:
-0.4\t<s> a\t-0.15
-0.5\ta b\t-0.35
-0.6\tb a
-0.7\tc d\t0
-0.8 d </s>
-0.9 b </s>

\\3-grams:
-.25\ta b c
-2e-1\t<s> a b
-0.125\ta b </s>

\\end\\
"""


def write(folder: Path, text: str = PRUNED) -> str:
    path = folder / "lm.arpa"
    path.write_text(text, encoding="utf-8")
    return str(path)


def scores(
    model: NgramModel, words: Sequence[str], *, begin: bool, index: int = 0
) -> list[tuple[float, int]]:
    ids = {word: place for place, word in enumerate(model.words)}
    context, length = np.zeros(16, np.int32), 0
    if begin:
        context[0], length = 1, 1
    found = []
    for word in words:
        place = ids.get(word, len(ids) + 3)
        log_prob, length = score_word(model.tables, index, context, length, place)
        context = np.concatenate([[place], context[:-1]]).astype(np.int32)
        found.append((log_prob, length))
    return found


def test_probabilities_are_those_of_backing_off_by_hand(tmp_path: Path) -> None:
    model = read_arpa(write(tmp_path))
    assert model.tables.order == 3
    assert model.words == ["<unk>", "<s>", "</s>", "a", "b", "c", "d", "e"]
    found = scores(model, ["a", "b", "c", "d", "</s>"], begin=True)
    # <s> a; <s> a b; a b c; then "b c" is a blank without backoff: c d; d </s>.
    assert [log_prob for log_prob, _ in found] == pytest.approx([-0.4, -0.2, -0.25, -0.7, -0.8])
    # After "c" only c counts, as no n-gram goes on from "b c"; "c d" goes on nowhere, d does.
    assert [length for _, length in found] == [2, 2, 1, 1, 0]
    # "b c" without "a": b's backoff, then c.
    found = scores(model, ["b", "c", "unheard"], begin=False)
    assert [log_prob for log_prob, _ in found] == pytest.approx([-1.2, -1.55, -100.2])


def check_against_kenlm(path: str, texts: Sequence[Sequence[str]]) -> None:
    """Compare probabilities, and which histories are the same to the model."""
    model, reference = read_arpa(path), kenlm.Model(path)
    states: dict[tuple[int, ...], kenlm.State] = {}
    ids = {word: place for place, word in enumerate(model.words)}
    for words in texts:
        for begin in (True, False):
            state = kenlm.State()
            (reference.BeginSentenceWrite if begin else reference.NullContextWrite)(state)
            history = [1] if begin else []
            for word, (log_prob, length) in zip(
                words, scores(model, words, begin=begin), strict=True
            ):
                after = kenlm.State()
                wanted = reference.BaseScore(state, word, after)
                assert log_prob == pytest.approx(wanted, rel=1e-7, abs=2e-6)
                history.append(ids.get(word, 0))
                key = tuple(history[len(history) - length :])
                assert states.setdefault(key, after) == after
                state = after
    keys = list(states)
    assert len({hash(states[key]) for key in keys}) == len(keys)


def test_a_pruned_model_is_the_one_that_kenlm_reads(tmp_path: Path) -> None:
    rng = random.Random(5)
    words = ["a", "b", "c", "d", "e", "unheard", "</s>"]
    check_against_kenlm(write(tmp_path), [rng.choices(words, k=8) for _ in range(200)])


@pytest.mark.parametrize("folder", ["example", "real"])
def test_scores_and_states_are_those_of_kenlm(repository: Path, folder: str) -> None:
    example = folder == "example"
    where = repository / "examples/english-french" if example else repository / "../shared/data"
    if not where.exists():
        pytest.skip("needs ../shared/data")
    text = where / ("dev.fr" if example else "val.fr")
    rng = random.Random(1)
    lines = [line.split() for line in text.read_text(encoding="utf-8").split("\n")[:80]]
    lines += [rng.sample(line, len(line)) for line in lines]  # n-grams that nobody has seen
    lines = [[*line, "</s>"] for line in lines]
    lines += [["unheard", "le", "<s>", "</s>", "le", "<unk>", "</s>"]]
    check_against_kenlm(str(where / "lm.fr.arpa.gz"), lines)


def test_a_model_that_lacks_most_suffixes_is_read(tmp_path: Path) -> None:
    words = [f"w{place}" for place in range(600)]
    lines = ["\\data\\", "ngram 1=603", "ngram 2=1", "ngram 3=1", "ngram 4=600", ""]
    lines += ["\\1-grams:", "-1 <s> -1", "-2 </s>", "-3 a -0.5", *(f"-4 {w} -0.5" for w in words)]
    lines += ["\\2-grams:", "-1 a a -0.25", "\\3-grams:", "-1 a a a -0.125", "\\4-grams:"]
    lines += [f"-0.5 a a a {word}" for word in words]
    model = read_arpa(write(tmp_path, "\n".join([*lines, "\\end\\"])))
    for word in words[::50]:
        found = scores(model, ["a", "a", "a", word], begin=False)
        assert found[-1][0] == pytest.approx(-0.5)
        assert found[-1][1] == 1
        # A blank after two words: its own backing off, -4 - 0.5 - 0.25.
        assert scores(model, ["a", "a", word], begin=False)[-1][0] == pytest.approx(-4.75)


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("\\data\\", "data", 2, r"which begins with \data\, found 'data'"),
        ("\\data\\", "mmap lm http://kheafield.com/code", 2, "ARPA file it was built from"),
        ("ngram 2=6", "ngram 2=" + "6" * 5000, 4, "expected 'ngram 2=COUNT'"),
        ("ngram 2=6", "ngram 3=6", 4, "expected 'ngram 2=COUNT'"),
        ("-1.1\ta", "-1,1\ta", 10, "expected numbers"),
        ("-1.1\ta", "1.1\ta", 10, "at most 0"),
        ("-99\t<s>", "-99\tz", 14, "expected <s> among the 1-grams"),
        ("-0.5\ta b", "-0.5x\ta b", 18, "expected numbers"),
        ("-0.5\ta b", "0.5\ta b", 18, "at most 0"),
        ("-0.5\ta b", "-0.5\ta z", 18, "listed as 1-grams"),
        ("-0.5\ta b\t", "-0.5\ta b a\t0 ", 18, "expected a log10 probability, a 2-gram"),
        ("-0.5\ta b", "-0.5\ta <unk>", 18, "listed as 1-grams"),
        ("-.25\ta b c", "-.25\ta b c\t-1", 25, "expected no backoff"),
        ("-.25\ta b c", "-.25\tb c a", 25, "first 2 words are listed as a 2"),
        ("-.25\ta b c\n", "", 28, "expected 3 3-grams, as counted above, found 2"),
        ("ngram 3=3", "ngram 3=99999999999999", 29, "as counted above, found 3"),
        ("ngram 3=3", "ngram 3=2", 27, r"expected \end\, found '-0.125"),
        ("\n\\end\\\n", "", 27, "found the end of the file"),
    ],
)
def test_what_kenlm_refuses_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, problem: str
) -> None:
    assert old in PRUNED
    path = write(tmp_path, PRUNED.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        read_arpa(path)
    assert caught.value.line == line
    assert problem in str(caught.value)


# What an ARPA file may have, and KenLM's reader takes (lm/read_arpa.cc).
PECULIARITIES = (
    "duplicates",
    "upper-case unknown",
    "no unknown",
    "two unknown",
    "remarks",
    "blank lines",
    "blanks between fields",
    "carriage returns",
    "numbers",
)
MARKS = ["<s>", "</s>"]
# No blank of KenLM's is in them, whatever Unicode and C call them.
ODD_WORDS = ["x\v", "\f", "a\x1c", "\x85", "a\u00a0b", "\u2028", "\u3000", "\ufffd", "[X]", "ngram"]
Entries = dict[tuple[str, ...], tuple[float, float]]


class PeculiarArpa:
    """A random ARPA file, and the n-grams that count in it, as (log10 probability, backoff)."""

    def __init__(self, path: Path, order: int, peculiarities: Sequence[str], seed: int) -> None:
        self.path, self.order, self.has = str(path), order, frozenset(peculiarities)
        self.rng = random.Random(seed)
        self.words = ["a", "b", "c", *ODD_WORDS]
        self.entries: Entries = {}
        sections = [self._section(length) for length in range(1, order + 1)]
        path.write_bytes(self._text(sections).encode())

    def _section(self, length: int) -> list[str]:
        if length == 1:
            ngrams: list[tuple[str, ...]] = [(word,) for word in [*MARKS, *self.words]]
            if "no unknown" not in self.has:
                ngrams.append(("<unk>",))
        else:
            begins = [one for one in self.entries if len(one) == length - 1 and one[-1] != "</s>"]
            ends = [*self.words, "</s>", *([] if "no unknown" in self.has else ["<unk>"])]
            ngrams = [(*begin, end) for begin in begins for end in ends]
            # KenLM has little room for suffixes that are missing.
            whole = [one for one in ngrams if length == 2 or one[1:] in self.entries]
            ngrams = self.rng.sample(whole, min(80, len(whole))) + self.rng.sample(ngrams, 5)
            ngrams = list(dict.fromkeys(ngrams))
        lines = [self._line(ngram) for ngram in ngrams]
        if "duplicates" in self.has:
            lines += [self._line(ngram) for ngram in self.rng.sample(ngrams, 5)]
            lines += [self._line(("</s>",))] if length == 1 else []
        if "two unknown" in self.has and length == 1:
            lines += [self._line(("<unk>",)), self._line(("<unk>",))]
        return lines

    def _line(self, ngram: tuple[str, ...]) -> str:
        rng, is_longest = self.rng, len(ngram) == self.order
        log_prob, backoff = -rng.randrange(1, 500) / 100, -rng.randrange(-20, 90) / 100
        shown = [f"{log_prob}", f"{backoff}"]
        if "numbers" in self.has:
            kind = rng.randrange(4)
            if kind == 0:
                log_prob, shown[0] = -99.0, "-99"
            elif kind == 1:
                shown[0] = f"{log_prob:e}"
            elif kind == 2:
                log_prob, shown[0] = 0.0, "+0"
            if ngram == ("<s>",):
                shown[0] = "-inf"
        if is_longest or rng.random() < 0.2:
            backoff = 0.0
            shown[1:] = ["0"] if "numbers" in self.has and rng.random() < 0.5 else []
        # The first one counts, and the last unknown word.
        if ngram == ("<unk>",) or ngram not in self.entries:
            self.entries[ngram] = (log_prob, backoff)
        words = list(ngram)
        if "upper-case unknown" in self.has:
            words = ["<UNK>" if word == "<unk>" else word for word in words]
        blank = "\t" if "blanks between fields" in self.has and len(ngram) > 1 else " "
        return "\t".join([shown[0], blank.join(words), *shown[1:]])

    def _text(self, sections: Sequence[Sequence[str]]) -> str:
        blank = ["", " \t\v"] if "blank lines" in self.has else []
        remarks = "remarks" in self.has
        lines = [*blank, *(["# ngram 1=7", "#"] if remarks else []), "\\data\\"]
        for length, section in enumerate(sections, start=1):
            count = f"  {length}=    {len(section)} (a remark)" if remarks else None
            lines.append(f"ngram{count or f' {length}={len(section)}'}")
        for length, section in enumerate(sections, start=1):
            lines += ["", *blank, f"\\{length}-grams:"]
            for line in section:
                lines += [line, *(blank[:1] if self.rng.random() < 0.5 else [])]
        end = "\r\n" if "carriage returns" in self.has else "\n"
        return end.join([*lines, "", *blank, "\\end\\", *blank, ""])

    def sentence(self, words: Sequence[str]) -> list[float]:
        return plain_scores(self.entries, self.order, words)


def plain_scores(entries: Entries, order: int, words: Sequence[str]) -> list[float]:
    """Return log10 p of each word and ``</s>`` by the definition of backing off."""

    def log_prob(ngram: tuple[str, ...]) -> float:
        if ngram in entries:
            return entries[ngram][0]
        if len(ngram) == 1:
            return entries.get(("<unk>",), (-100.0, 0.0))[0]
        _, backoff = entries.get(ngram[:-1], (0.0, 0.0))
        return backoff + log_prob(ngram[1:])

    line = ["<s>", *(word if (word,) in entries else "<unk>" for word in words), "</s>"]
    return [log_prob(tuple(line[max(0, at - order + 1) : at + 1])) for at in range(1, len(line))]


def read_plainly(path: str) -> Entries:
    lines = [line.split("\t") for line in Path(path).read_text("utf-8").split("\n")]
    return {
        tuple(line[1].split(" ")): (float(line[0]), float(line[2]) if len(line) > 2 else 0.0)
        for line in lines
        if len(line) > 1
    }


@pytest.mark.parametrize("order", [*range(1, 8), 10])
@pytest.mark.parametrize("peculiarities", [*((one,) for one in PECULIARITIES), PECULIARITIES[3:]])
def test_an_odd_file_is_the_same_to_the_search_to_kenlm_and_by_definition(
    tmp_path: Path, order: int, peculiarities: Sequence[str]
) -> None:
    arpa = PeculiarArpa(tmp_path / "lm.arpa", order, [*peculiarities, "duplicates"], order)
    choices = [*arpa.words, "unheard", "<UNK>"]
    texts = [arpa.rng.choices(choices, k=arpa.rng.randrange(0, 9)) for _ in range(30)]
    # A sentence that the file has n-grams for, up to the longest.
    known = arpa.rng.sample(list(arpa.entries), min(50, len(arpa.entries)))
    texts += [[word for word in ngram if word not in MARKS] for ngram in known]
    # A file has U+000B and U+000C within words, and a text has not.
    texts = [[word for word in words if split_words(word) == (word,)] for words in texts]
    wanted = [arpa.sentence(words) for words in texts]
    model = read_arpa(arpa.path)
    for words, log_probs in zip(texts, wanted, strict=True):
        found = [score for score, _ in scores(model, [*words, "</s>"], begin=True)]
        assert found == pytest.approx(log_probs, abs=1e-5)
    # Words of lists and texts are read as those of a search.
    for load in (load_ngrams, load_for_text):
        of_words, unknown = load(arpa.path).score_words(texts)
        assert of_words / LN_10 == pytest.approx([*chain.from_iterable(wanted)], abs=1e-5)
        events = chain.from_iterable([*words, "</s>"] for words in texts)
        assert unknown.tolist() == [w == "<unk>" or (w,) not in arpa.entries for w in events]
    pairs = [PhrasePair(("a",), tuple(words)) for words in texts]
    of_sentences = [value / LN_10 for value in values_of(LanguageModelScore(arpa.path), pairs)]
    assert of_sentences == pytest.approx([*map(sum, wanted)], abs=1e-4)
    if 2 <= order <= 6:  # what kenlm reads
        found = [score for words in texts for score in kenlm_scores(arpa.path, words)]
        assert found == pytest.approx([*chain.from_iterable(wanted)], abs=1e-5)


def kenlm_scores(path: str, words: Sequence[str]) -> list[float]:
    model, state, after = kenlm.Model(path), kenlm.State(), kenlm.State()
    model.BeginSentenceWrite(state)
    found = []
    for word in [*words, "</s>"]:
        found.append(model.BaseScore(state, word, after))
        state, after = after, state
    return found


@pytest.mark.parametrize("order", range(1, 10))
def test_the_models_of_build_lm_are_those_that_kenlm_reads(
    tmp_path: Path, repository: Path, order: int
) -> None:
    """Real text, up to the order that kenlm is compiled for, and the definition beyond."""
    folder = repository / "examples" / "english-french"
    lines = gzip.decompress((folder / "train.fr.gz").read_bytes()).decode().split("\n")[:300]
    with (tmp_path / "lm.arpa").open("wb") as stream:
        estimate(map(str.split, lines), stream, order=order, discount_fallback=True)
    path = str(tmp_path / "lm.arpa")
    texts = [line.split() for line in (folder / "dev.fr").read_text("utf-8").split("\n")[:20]]
    texts += [line.split() for line in lines[:20]]
    log_probs, unknown = load_ngrams(path).score_words(texts)
    assert 0 < unknown.sum() < len(unknown) / 2
    entries = read_plainly(path)
    wanted = [score for words in texts for score in plain_scores(entries, order, words)]
    assert log_probs / LN_10 == pytest.approx(wanted, abs=1e-5)
    if 2 <= order <= 6:
        wanted = [score for words in texts for score in kenlm_scores(path, words)]
        assert log_probs / LN_10 == pytest.approx(wanted, abs=1e-5)


def test_several_models_are_read_as_each_alone(tmp_path: Path) -> None:
    """Orders 1 to 10 with some words in common, one without <unk>, in one table."""
    alone = []
    for order in (4, 1, 10, 2):
        peculiarities = ["duplicates", PECULIARITIES[order % len(PECULIARITIES)]]
        arpa = PeculiarArpa(tmp_path / f"{order}.arpa", order, peculiarities, order)
        alone.append((arpa, read_arpa(arpa.path)))
    alone.append((alone[0][0], read_arpa(write(tmp_path))))
    paths = [*(arpa.path for arpa, _ in alone[:-1]), str(tmp_path / "lm.arpa")]
    together = read_arpa(*paths)
    assert together.tables.order == 10
    assert together.words == list(dict.fromkeys(word for _, model in alone for word in model.words))
    for index, (arpa, model) in enumerate(alone):
        choices = [*arpa.words, *"abcde", "unheard", "</s>"]
        for _ in range(50):
            words = arpa.rng.choices(choices, k=12)
            found = scores(together, words, begin=True, index=index)
            assert found == scores(model, words, begin=True)


def test_a_damaged_word_that_kenlm_quotes_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_bytes(
        b"\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\n\xff\t</s>\n"
    )
    with pytest.raises(DataError, match=r"lm.arpa:8: "):
        load_for_text(str(path))
