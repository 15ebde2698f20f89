"""Promises of moses_integration.decoder.options, by hand; test_options_of_moses has real Moses."""

import math
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.configuration import DecoderConfiguration, read_language_models
from moses_integration.decoder.options import OptionTable, PhraseOptions, SentenceOptions
from tests.moses_integration.decoder.small_decoder import options_of

INI = """\
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TM0 num-features=1 path=table table-limit=2
LexicalReordering name=LR0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 path=lm.arpa
[weight]
WordPenalty0= -0.5
PhrasePenalty0= 0.25
TM0= 1
LR0= 1 1 1 1 1 1
Distortion0= 1
LM0= 0.5
"""
TABLE = """\
la ||| the ||| 0.5 ||| 0-0
la ||| a ||| 0.5
la ||| her ||| 0.125
la maison ||| the house ||| 0.25 ||| 0-0 1-1
la maison ||| home ||| 0.5 ||| 1-0
bleue maison ||| blue house ||| 0.5
"""
REORDERING = "la ||| a ||| 0.5 0.25 0.25 1 1 1\n7 ||| 7 ||| 1 1 1 0.5 0.25 0.25\n"
# log10: the -1, a -2, house -1.5, home -1, blue -1; "the house" -0.5; her and the rest -3.
LM = "\\data\\\nngram 1=8\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n"
LM += "-1\tthe\t-0.25\n-2\ta\n-1.5\thouse\n-1\thome\n-1\tblue\n\n\\2-grams:\n-0.5\tthe house\n\n"
LM += "\\end\\\n"
LN_10 = math.log(10)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "reordering": REORDERING, "lm.arpa": LM}.items():
        (tmp_path / name).write_text(text)


def read_table(*sentences: str, ini: str = INI, other_language_weight: float = 0.0) -> OptionTable:
    Path("moses.ini").write_text(ini)
    configuration = DecoderConfiguration.read("moses.ini")
    split = [sentence.split() for sentence in sentences]
    model = read_language_models(configuration)
    return options_of(configuration, model, split, other_language_weight)


def listed(table: OptionTable, options: SentenceOptions) -> list[tuple[int, int, str]]:
    words = [
        " ".join(table.words[word] for word in options.target[first:last])
        for first, last in zip(options.offsets[:-1], options.offsets[1:], strict=True)
    ]
    return list(zip(options.start.tolist(), options.end.tolist(), words, strict=True))


def test_options_are_the_best_of_each_span_and_unknown_words() -> None:
    table = read_table("la maison bleue")
    options = table.sentence(["la", "maison", "bleue"])
    # "her" is the third of "la"; "maison" and "bleue" are in the table with other words only.
    wanted = [(0, 1, "the"), (0, 1, "a"), (0, 2, "home"), (0, 2, "the house"), (1, 2, "maison")]
    assert listed(table, options) == [*wanted, (2, 3, "bleue")]
    unknown, words, phrases, table_column = range(4)
    assert options.values.shape == (6, 4)
    half, quarter = math.log(0.5), math.log(0.25)
    assert options.values[:, table_column] == pytest.approx([half, half, half, quarter, 0, 0])
    assert options.values[:, words].tolist() == [-1, -1, -1, -2, -1, -1]
    assert options.values[:, phrases].tolist() == [1] * 6
    assert options.values[:, unknown].tolist() == [0, 0, 0, 0, -100, -100]
    # -0.5 a word, 0.25 a phrase, the table's logarithm; UnknownWordPenalty weighs 1 by default.
    wanted_scores = [half + 0.75, half + 0.75, half + 0.75, quarter + 1.25, -99.25, -99.25]
    assert options.score == pytest.approx(wanted_scores)
    estimates = [-1, -2, -1, -1 - 0.5, -3, -3]
    wanted_estimates = [0.5 * LN_10 * each for each in estimates]
    assert table._estimate[options.rows] == pytest.approx(wanted_estimates)
    assert [table.alignment(row) for row in options.rows] == ["0-0", "", "1-0", "0-0 1-1"] + [
        "0-0"
    ] * 2


def test_the_future_is_the_best_sum_of_options_that_cover_a_span() -> None:
    table = read_table("la maison bleue")
    options = table.sentence(["la", "maison", "bleue"])
    total = options.score + table._estimate[options.rows]
    future = options.future
    assert future.shape == (3, 4)
    assert future[0, 1] == pytest.approx(total[0])
    assert future[1, 2] == pytest.approx(total[4])
    assert future[0, 2] == pytest.approx(total[2])  # "home"
    assert future[1, 3] == pytest.approx(total[4] + total[5])
    assert future[0, 3] == pytest.approx(total[2] + total[5])
    assert future[1, 1] == future[2, 1] == -math.inf


def test_other_language_models_count_in_the_choice_of_options_and_in_the_future() -> None:
    tokens = ["la", "maison", "bleue"]
    plain = read_table("la maison bleue").sentence(tokens)
    table = read_table("la maison bleue", other_language_weight=0.25)
    options = table.sentence(tokens)
    assert plain.other_estimate.tolist() == [0] * len(plain.score)
    assert options.other_estimate == pytest.approx(0.5 * table._estimate[options.rows])
    total = options.score + 1.5 * table._estimate[options.rows]
    first_two = max(total[2], total[3], total[0] + total[4])
    assert options.future[0, 3] == pytest.approx(first_two + total[5])


def test_arrays_are_as_kernels_take_them() -> None:
    options = read_table("la maison bleue").sentence(["la", "maison"])
    for name, array in options._asdict().items():
        assert array.flags.c_contiguous, name
    kinds = [array.dtype for array in options]
    assert kinds == [np.int32] * 4 + [np.float64] * 5 + [np.int32]


def test_reordering_scores_are_those_of_the_pair_or_zeros() -> None:
    table = read_table("la 7")
    options = table.sentence(["la", "7"])
    assert listed(table, options) == [(0, 1, "the"), (0, 1, "a"), (1, 2, "7")]
    quarter = math.log(0.25)
    # An unknown word may have scores of its own.
    wanted = [[0] * 6, [math.log(0.5), quarter, quarter, 0, 0, 0]]
    wanted += [[0, 0, 0, math.log(0.5), quarter, quarter]]
    assert options.reordering == pytest.approx(np.array(wanted))


def test_pairs_that_the_table_lacks_have_the_default_scores() -> None:
    ini = INI.replace("path=reordering", "path=reordering default-scores=1,1,0.5,1,1,0.25")
    options = read_table("la", ini=ini).sentence(["la"])
    assert options.reordering[0] == pytest.approx([0, 0, math.log(0.5), 0, 0, math.log(0.25)])


def test_a_model_without_reordering_has_zeros() -> None:
    lines = [line for line in INI.splitlines(keepends=True) if "LR0" not in line]
    options = read_table("la", ini="".join(lines)).sentence(["la"])
    assert not options.reordering.any()


def test_the_words_of_the_list_stay_and_others_follow() -> None:
    table = read_table("la maison bleue")
    assert table.words[:5] == ["<unk>", "<s>", "</s>", "the", "a"]
    assert table.words[8:] == ["her", "bleue", "maison"]


def test_no_limit_keeps_all_and_a_threshold_keeps_the_near_ones() -> None:
    table = read_table("la", ini=INI.replace("table-limit=2", "table-limit=0"))
    options = table.sentence(["la"])
    assert [words for *_, words in listed(table, options)] == ["the", "a", "her"]
    # "a" is a factor of exp(0.5 * ln 10) = 3.16 behind "the": it goes at a third, stays at 0.3.
    for threshold, count in ((0.3, 2), (0.33, 1)):
        ini = INI + f"[translation-option-threshold]\n{threshold}\n"
        assert len(read_table("la", ini=ini).sentence(["la"]).start) == count


def test_dropped_unknown_words_have_no_translation_unless_they_have_digits() -> None:
    table = read_table("la x7 bleue", ini=INI + "[drop-unknown]\n1\n")
    options = table.sentence(["x7", "bleue"])
    assert listed(table, options) == [(0, 1, "x7"), (1, 2, "")]
    assert options.values[:, 0].tolist() == [-100, -100]  # TranslationOptionCollection.cpp
    assert options.values[:, 1].tolist() == [-1, 0]
    assert table._estimate[options.rows[1]] == 0


def test_a_table_without_matches_leaves_unknown_words_alone() -> None:
    Path("table").write_text("rue ||| street ||| 1\n")
    table = read_table("un deux un")
    assert listed(table, table.sentence(["un", "deux", "un"])) == [
        *((0, 1, "un"), (1, 2, "deux"), (2, 3, "un"))
    ]


def test_an_empty_sentence_has_no_options() -> None:
    table = read_table("", "la")
    options = table.sentence([])
    assert (len(options.start), options.offsets.tolist(), options.future.shape) == (0, [0], (0, 1))


def test_the_same_tables_serve_other_weights() -> None:
    Path("moses.ini").write_text(INI)
    configuration = DecoderConfiguration.read("moses.ini")
    first = read_table("la")
    model = read_language_models(configuration)
    options = PhraseOptions(configuration, model, aligned=False, sentences=[("la",)])
    options.use(configuration.with_weights({"LM0": (-0.5,)}), 0.0)
    table = options.of(("la",))
    # Rare words are good now: "a" has ln 0.5 + 0.5 ln 100, "her" ln 0.125 + 0.5 ln 1000.
    assert [words for *_, words in listed(table, table.sentence(["la"]))] == ["a", "her"]
    options.use(configuration, 0.0)
    again = options.of(("la",))
    assert listed(again, again.sentence(["la"])) == listed(first, first.sentence(["la"]))
