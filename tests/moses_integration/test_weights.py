"""Promises of moses_integration.weight_lines: Moses' own files, and back without losing a bit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from moses_integration.moses_ini import MosesIni, load_weights
from moses_integration.weight_lines import check_weights, format_weight, write_weights
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.records import WeightPair, Weights

DATA = Path(__file__).parents[1] / "data"


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(PhrasescoreError) as caught:
        call()
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights"


def test_weights_are_read_in_the_order_of_the_file(path: Path) -> None:
    path.write_text("# ours\n\nLM0= 0.5 # after\nTM0= 1 -2e-3 .5\r\nWT_la= +3.\n")
    assert load_weights(str(path)).lists == {
        "LM0": (0.5,),
        "TM0": (1.0, -0.002, 0.5),
        "WT_la": (3.0,),
    }
    assert list(load_weights(str(path)).lists) == ["LM0", "TM0", "WT_la"]


def test_a_feature_may_have_a_line_for_each_value_as_mert_moses_writes_it(path: Path) -> None:
    path.write_text("TM0= 0.1\nTM0= 0.2\nLM0= 0.5\n")
    assert load_weights(str(path)).lists == {"TM0": (0.1, 0.2), "LM0": (0.5,)}


def test_the_section_of_a_moses_ini_is_read_without_what_n_best_lists_do_not_show() -> None:
    # several.moses.ini: First has tuneable-components=true,false, Second tuneable=false; the last
    # line of PhraseDictionaryMemory1 counts.
    assert load_weights(str(DATA / "several.moses.ini")).lists == {
        "WordPenalty0": (-1.0,),
        "First": (0.1,),
        "PhraseDictionaryMemory0": (0.4,),
        "PhraseDictionaryCompact0": (1.0, 1.0, 1.0, 1.0),
        "PhraseDictionaryMemory1": (0.1, 0.1, 0.1),
        "First_sparse": (1.0,),
        "LM0": (0.5,),
    }


def test_the_real_moses_ini_and_dense_file_name_what_the_lists_hold(shared_data: Path) -> None:
    ini = load_weights(str(shared_data / "moses.tuned.ini")).lists
    dense = load_weights(str(shared_data / "mert" / "init.default.dense")).lists
    assert {name: len(values) for name, values in ini.items()} == {
        "LexicalReordering0": 6,
        "Distortion0": 1,
        "LM0": 1,
        "WordPenalty0": 1,
        "PhrasePenalty0": 1,
        "TranslationModel0": 4,
    }
    assert {name: len(values) for name, values in dense.items()} == {
        name: len(values) for name, values in ini.items()
    }


def test_what_is_written_is_read_again_bit_for_bit(path: Path) -> None:
    weights = {"TM0": (0.1, -1 / 3, 1e-300), "LM0": (2.0,), "Zero": (0.0,)}
    write_weights(str(path), weights)
    assert load_weights(str(path)).lists == weights
    assert path.read_text().startswith("TM0= 0.1\nTM0= -0.333")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": expected weights such as 'LM0= 0.5', found none"),
        (b"# nothing\n", ": expected weights such as 'LM0= 0.5', found none"),
        (b"\xef\xbb\xbfLM0= 1\n", ":1: expected text, found a byte order mark before it: save the"),
        (b"CP_a 1 2\n", ":1: expected 'Name= value', found 'CP_a 1 2'"),
        (b"CP_a 1\nCP_a 1\n", ":2: expected the weights for CP_a in consecutive lines, found more"),
        (b"LM0= 1\nCP_a 1\nCP_b= 1\n", ":3: expected all sparse features as 'name value', like"),
        (b"LM0= 1\nLM1 2\n", ":2: expected 'Name= value', found 'LM1 2'"),
        (b"LM0=1\n", ":1: expected 'Name= value', found 'LM0=1'"),
        (b"LM0=\n", ":1: expected 'Name= value', found 'LM0='"),
        (b"LM 0= 1\n", ":1: expected 'Name= value', found 'LM 0= 1'"),
        (b"LM0= 1 x\n", ":1: expected a number as weight for LM0, found 'x'"),
        (b"LM0= nan\n", ":1: expected a number as weight for LM0, found 'nan'"),
        (b"LM0= 1e999\n", ":1: expected a number as weight for LM0, found '1e999'"),
        (b"LM0= 1_0\n", ":1: expected a number as weight for LM0, found '1_0'"),
        (b"A= 1\nB= 1\nA= 1\n", ":3: expected the weights for A in consecutive lines, found more"),
        (b"A= 1\n\xff= 2\n", ":2: expected UTF-8, found byte 0xff at byte 1 of the line"),
        (b"F0 0.5\nF1 0.5\n", ":1: expected 'Name= value', found 'F0 0.5'"),
        (b"[search]\nA= 1\n[lists]\nA= 1\nB 2\n", ":5: expected 'Name= value', found 'B 2'"),
        (b"A= 1\n[search]\nA= 1\n[lists]\nA= 1\n", ":1: expected [search] or [lists] above the fi"),
        (b"[search]\nA= 1\n[lists]\n", ": expected weights such as 'LM0= 0.5', found none"),
        (b"[feature]\nWordPenalty\n", ": expected weights such as 'LM0= 0.5', found none"),
        (b"[weight]\nLM0= x\n", ":2: [weight] LM0: expected a number as weight, found 'x'"),
        (b"[weight]\nLM0 1\n", ":2: [weight] LM0: expected 'Name= value ...'"),
        (b"[weight]\nLM0=\n", ":2: [weight] LM0=: expected 'Name= value ...'"),
        (b"[weight]\nLM0= 1\n[weight-overwrite]\nLM0= 2\n", ":4: [weight-overwrite] : expected we"),
        (
            b"[feature]\nA name=A tuneable-components=true,false\n[weight]\nA= 1 2 3\n",
            ":2: [feature] A: expected 3 values in tuneable-components=, found 'true,false'",
        ),
    ],
)
def test_what_is_no_weights_file_is_refused_with_file_and_line(
    path: Path, content: bytes, message: str
) -> None:
    path.write_bytes(content)
    assert refusal(lambda: load_weights(str(path))).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"a b": (1.0,)}, "expected a name that a weight file can hold, found 'a b'"),
        ({"a\u00a0b\rc": (1.0,)}, "expected a name that a weight file can hold, found 'a\\xa0b"),
        ({"#WT_a": (1.0,)}, "expected a name that a weight file can hold, found '#WT_a'"),
        ({"[lists]_": (1.0,)}, "expected a name that a weight file can hold, found '[lists]_'"),
        ({"a": (float("nan"),)}, "expected a finite weight for a, found nan"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    path: Path, weights: dict[str, tuple[float, ...]], problem: str
) -> None:
    assert refusal(lambda: write_weights(str(path), weights)).startswith(f"{path}: {problem}")
    assert not path.exists()


def test_an_unknown_word_penalty_of_any_name_is_not_in_n_best_lists() -> None:
    text = b"[feature]\nUnknownWordPenalty name=U\nLM name=L tuneable=No\nW name=W tuneable=1\n"
    ini = MosesIni("moses.ini", text + b"[weight]\nU= 1\nL= 2\nW= 3\n")
    assert ini.tuneable_weights() == {"W": (3.0,)}


def test_two_sets_of_weights_come_back_bit_for_bit(path: Path) -> None:
    search: Weights = {"LM0": (0.1 + 0.2,), "TM0": (1e-300, -2.0)}
    lists: Weights = {**search, "RNNsearch0": (0.3,)}
    write_weights(str(path), WeightPair(search, lists))
    assert load_weights(str(path)) == WeightPair(search, lists)
    # One set is a file as Moses' tools read it.
    write_weights(str(path), WeightPair(search, search))
    assert path.read_text().startswith("LM0= 0.30000000000000004\nTM0= 1e-300\n")
    assert load_weights(str(path)) == WeightPair(search, search)


def test_values_are_weights_as_a_file_of_them_is(path: Path) -> None:
    weights: Weights = {"LM0": (0.5,)}
    write_weights(str(path), weights)
    pair = WeightPair(weights, {**weights, "RNNsearch0": (0.3,)})
    for source in (str(path), path, weights):
        assert load_weights(source) == WeightPair(weights, weights)
    assert load_weights(pair) == pair


def test_sparse_weights_are_read_as_moses_tuners_write_them(path: Path) -> None:
    path.write_text("LM0= 0.5\nTM0= 1 2\n# sparse\nCP_a 2\nWT_#~a=b -1e-3\t# after\n")
    dense: Weights = {"LM0": (0.5,), "TM0": (1.0, 2.0)}
    assert load_weights(str(path)).lists == {**dense, "CP_a": (2.0,), "WT_#~a=b": (-0.001,)}


def test_any_name_that_a_list_can_hold_is_written_and_read_again(path: Path) -> None:
    names = ["WT_#~foo", "WT_a=b~c", "WT_a~=", "WT_==", "WT_[a]"]
    names += ["WT_\u00a0\u3000~\u2028", "WT_'\"", "LM=", "LM#", "\u00a0"]
    weights: Weights = {name: (float(place),) for place, name in enumerate(names, start=1)}
    for pair in (WeightPair(weights, weights), WeightPair({"LM0": (1.0,)}, weights)):
        write_weights(str(path), pair)
        assert load_weights(str(path)) == pair


def test_weights_that_are_commented_out_do_not_count(path: Path) -> None:
    path.write_text("LM0= 1\n#LM1= 2\n#WT_a= 2\n  # WT_a= 2\n  #LM0= 2\n")
    assert load_weights(str(path)).lists == {"LM0": (1.0,)}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((), "expected weights that are not all zero"),
        ((0.0, -0.0), "expected weights that are not all zero"),
        ((1e-40, 0.0), "expected a largest weight between 1e-30 and 1e+30, found 1e-40; rescale"),
        ((1.0, -1e31), "expected a largest weight between 1e-30 and 1e+30, found 1e+31; rescale"),
        ((1.0, 1e-300), None),
        ((1e-20,), None),
        ((-1e30,), None),
    ],
)
def test_weights_that_put_nothing_in_order_are_refused(
    values: tuple[float, ...], problem: str | None
) -> None:
    if problem is None:
        check_weights({"LM0": values}, "w")
        return
    with pytest.raises(DataError) as caught:
        check_weights({"LM0": values}, "w")
    assert str(caught.value).startswith(f"w: {problem}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-20, "0.00000000000000000001"),
        (-5e-324, "-0." + "0" * 323 + "494065646"),
        (1e30, "1" + "0" * 30),
        (123456.7891, "123456.789"),
        (0.0, "0"),
    ],
)
def test_a_weight_has_nine_digits_and_no_exponent(value: float, text: str) -> None:
    assert format_weight(value) == text
    assert float(text) == float(f"{value:.9g}")
