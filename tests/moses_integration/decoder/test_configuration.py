"""Promises of moses_integration.decoder.configuration: what is understood, and what is refused."""

import gzip
from pathlib import Path

import pytest

from moses_integration.decoder import SearchLimits
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.moses_ini import load_weights
from phrasescore.errors import ConfigError
from tests.log import warnings

INI = """\
[input-factors]
0
[mapping]
0 T 0
[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TM num-features=2 path=table output-factor=0 table-limit=7
LexicalReordering name=LR0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.5
PhrasePenalty0= 0.25
TM= 0.125 2
LR0= 1 2 3 4 5 6
Distortion0= 0.75
LM0= 0.5
"""
LM = "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\ta\n\n"
LM += "\\2-grams:\n-1\ta a\n\n\\end\\\n"
LR_TYPE = "type=wbe-msd-bidirectional-fe-allff"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table").write_text("a ||| b ||| 1 1\n")
    (tmp_path / "reordering.gz").write_bytes(gzip.compress(b"a ||| b ||| 1 1 1 1 1 1\n"))
    (tmp_path / "lm.arpa").write_text(LM)
    return tmp_path


def read(text: str) -> DecoderConfiguration:
    Path("moses.ini").write_text(text, encoding="utf-8")
    return DecoderConfiguration.read("moses.ini")


def test_features_stand_in_the_order_of_moses_nbest_lists() -> None:
    configuration = read(INI)
    # Stateful first: ScoreComponentCollection::OutputAllFeatureScores.
    names = ["LR0", "Distortion0", "LM0", "UnknownWordPenalty0", "WordPenalty0", "PhrasePenalty0"]
    assert [slot.name for slot in configuration.slots] == [*names, "TM"]
    slot = configuration.find("PhraseDictionaryMemory")
    assert slot is not None
    assert (slot.weights, slot.arguments["path"]) == ((0.125, 2.0), "table")
    reordering = configuration.find("LexicalReordering")
    assert reordering is not None
    assert reordering.arguments["path"] == "reordering.gz"  # as Moses looks for it


def test_names_and_order_are_those_of_real_lists(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared_data)
    configuration = DecoderConfiguration.read("moses.tuned.ini")
    with gzip.open("val.1000best.gz", "rt", encoding="utf-8") as lists:
        fields = next(lists).split(" ||| ")[2].split()
    names = [slot.name for slot in configuration.slots if slot.kind != "UnknownWordPenalty"]
    assert [field.removesuffix("=") for field in fields if "=" in field] == names


def test_settings_that_are_not_there_are_those_of_moses() -> None:
    # moses/TypeDef.h; ReorderingOptions.cpp for the distortion limit.
    assert SearchLimits() == SearchLimits(200, 1e-5, -1, 20, 20, 5000, 0.0, algorithm="normal")
    assert SearchLimits().beam_width == pytest.approx(-11.5129254649702)
    search = read(INI).search
    assert search == SearchLimits(distortion_limit=6, table_limit=7)


# The spellings of StaticData::LoadDecodeGraphs.
@pytest.mark.parametrize("step", ["T 0", "0 TM", "  0 \t T   0 ", "T 0 # not 0 T 1", ""])
def test_one_step_of_translation_has_several_spellings(step: str) -> None:
    assert "\n0 T 0\n" in INI
    assert read(INI.replace("\n0 T 0\n", f"\n{step}\n")).slots == read(INI).slots


def test_settings_are_read() -> None:
    text = INI + "[stack]\n50 # few\n[beam-threshold]\n0\n[search-algorithm]\n1\n"
    text += "[cube-pruning-pop-limit]\n300\n[max-phrase-length]\n5\n[drop-unknown]\ntrue\n"
    search = read(text).search
    assert (search.stack_size, search.beam_threshold, search.algorithm) == (50, 0.0, "cube")
    assert (search.pop_limit, search.max_phrase_length, search.drop_unknown) == (300, 5, True)
    assert search.beam_width == -float("inf")


def test_other_weights_take_the_place_of_the_files() -> None:
    configuration = read(INI)
    Path("weights").write_text("LM0= 0.1\nTM= 3\nTM= 0.30000001\n")
    changed = configuration.with_weights(load_weights("weights").lists)
    by_name = {slot.name: slot.weights for slot in changed.slots}
    assert (by_name["LM0"], by_name["TM"]) == ((0.1,), (3.0, 0.30000001))
    assert by_name["LR0"] == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    with pytest.raises(ConfigError, match="found weights for CSLM0"):
        configuration.with_weights({"CSLM0": (1.0,)})
    with pytest.raises(ConfigError, match=r":14: \[feature\] LM0: expected 1 weights, found 2"):
        configuration.with_weights({"LM0": (1.0, 2.0)})
    with pytest.raises(ConfigError, match="LM0: expected weights of at most 1e\\+30"):
        configuration.with_weights({"LM0": (float("nan"),)})


def test_a_feature_that_is_not_known_may_weigh_nothing() -> None:
    text = INI.replace("Distortion\n", "Distortion\nOpSequenceModel name=OSM0 path=osm\n")
    with pytest.raises(ConfigError) as caught:
        read(text)
    wanted = "moses.ini:14: [feature] OSM0: this search does not support OpSequenceModel"
    assert str(caught.value).startswith(wanted)
    with pytest.raises(ConfigError, match="does not support OpSequenceModel"):
        read(text + "OSM0= 0 0.1\n")
    without_weight = read(text + "OSM0= 0 0\n")
    assert len(without_weight.slots) == 7
    assert without_weight.with_weights({"OSM0": (0.0, 0.0)}).slots == without_weight.slots
    with pytest.raises(ConfigError, match="does not support OpSequenceModel"):
        without_weight.with_weights({"OSM0": (0.0, 0.1)})


def test_settings_that_this_search_does_not_know_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read(INI)
    assert warnings(caplog) == []
    text = "[verbose]\n0\n[max-phrase-lenght]\n4\n[n-best-list]\nfile\n10\n"
    text += "[mark-unknown]\nfalse\n"
    assert read(text + INI).search == read(INI).search
    others = "[max-phrase-lenght], [n-best-list], [verbose]"
    assert warnings(caplog) == [f"moses.ini: this search ignores {others}"]


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("path=table", "path=tabel", 11, "cannot open tabel: there is no such file"),
        ("path=table", "", 11, "expected path= with the path of a text table"),
        ("path=table", "path=binary", 11, "found a binary one: binary; name the text file that"),
        ("path=table", "path=compact", 11, "found a binary one: compact.minphr"),
        ("path=lm.arpa", "path=binary", 14, "name the text file that it was made"),
        ("path=lm.arpa", "path=table", 14, "table:1: expected an ARPA file, which begins"),
        ("order=2", "order=3", 14, "expected order=2, as lm.arpa has, found order=3"),
        (
            "PhraseDictionaryMemory",
            "PhraseDictionaryCompact",
            11,
            "the text table that it was made from",
        ),
        ("TM= 0.125 2", "TM= 0.125", 19, "expected 2 weights, found 1"),
        ("TM= 0.125 2", "TM= 0.125 x", 19, "expected a number as weight"),
        ("LM0= 0.5\n", "", 14, "expected a line 'LM0= ...' in [weight] with 1 weights"),
        ("num-features=6", "num-features=4", 12, "expected num-features=6"),
        ("num-features=2", "num-features=" + "2" * 5000, 11, "expected num-features="),
        (LR_TYPE, "type=hier-mslr-bidirectional-fe-allff", 12, "expected the only supported type"),
        (LR_TYPE, LR_TYPE + " default-scores=0.2,0.2", 12, "6 probabilities in default-scores="),
        (LR_TYPE, LR_TYPE + " sparse-words=x", 12, "does not support 'sparse-words=x'"),
        ("output-factor=0", "output-factor=0,1", 11, "expected output-factor=0"),
        ("table-limit=7", "table-limit=many", 11, "expected a number in table-limit="),
        ("table-limit=7", "table-limit=" + "7" * 5000, 11, "expected a number in table-limit="),
        ("PhrasePenalty\n", "PhrasePenalty per-phrase-table=true\n", 10, "one phrase table"),
        ("order=2\n", "order=2\nKENLM name=LM0 path=lm.arpa\n", 15, "one feature of this name"),
        ("Distortion\n", "Distortion\nDistortion name=D1\n", 14, "expected one Distortion"),
        ("0 T 0", "0 T 0\n1 T 0", 5, "expected one step, '0 T 0' or '0 TM', found '0 T 0; 1 T 0'"),
        ("0 T 0", "T 0\nG 0", 5, "expected one step, '0 T 0' or '0 TM', found 'T 0; G 0'"),
        ("0 T 0", "0 G 0", 4, "expected one step, '0 T 0' or '0 TM', found '0 G 0'"),
        ("0 T 0", "T 1", 4, "expected one step, '0 T 0' or '0 TM', found 'T 1'"),
        ("0 T 0", "0 Other", 4, "expected one step, '0 T 0' or '0 TM', found '0 Other'"),
        ("[input-factors]\n0", "[input-factors]\n0,1", 2, "expected factor 0"),
        ("[distortion-limit]\n6", "[distortion-limit]\nsix", 6, "a whole number from -1"),
        ("[weight]", "[search-algorithm]\n3\n[weight]", 16, "expected 0 (stacks) or 1"),
        ("[weight]", "[monotone-at-punctuation]\n1\n[weight]", 16, "not support this setting"),
        ("[weight]", "[stack-diversity]\n2\n[weight]", 16, "not support this setting"),
        ("[weight]", "[factor-delimiter]\n_\n[weight]", 16, "expected the delimiter '|'"),
    ],
)
def test_what_this_search_cannot_follow_is_refused_with_its_line(
    folder: Path, old: str, new: str, line: int, problem: str
) -> None:
    assert old in INI
    (folder / "binary").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    (folder / "compact.minphr").write_bytes(b"\0")
    text = INI.replace(old, new, 1)
    if "D1" in new:
        text += "D1= 1\n"
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(f"moses.ini:{line}: [")
    assert problem in str(caught.value)


@pytest.mark.parametrize("kind", ["KENLM", "PhraseDictionaryMemory", "UnknownWordPenalty"])
def test_a_model_without_what_every_search_needs_is_refused(kind: str) -> None:
    text = "".join(line for line in INI.splitlines(keepends=True) if not line.startswith(kind))
    with pytest.raises(ConfigError, match=f"expected the feature {kind}, found none"):
        read(text)
