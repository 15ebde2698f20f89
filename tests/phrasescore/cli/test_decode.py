"""``phrasescore decode`` as a user meets it: two engines, one interface."""

import gzip
import math
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.alignments import parse_segmentation
from moses_integration.moses_ini import MosesIni
from moses_integration.nbest import read_nbest
from tests.command_line import check_refusal, run, succeeded

INI = """\
[input-factors]
0
[mapping]
0 T 0
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty tuneable=false
PhraseDictionaryMemory name=TM0 num-features=2 path=table input-factor=0 output-factor=0
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[distortion-limit]
2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.5
PhrasePenalty0= 0.25
TM0= 1 0
Distortion0= 1
LM0= 0.5
"""
TABLE = """\
la maison ||| the house ||| 0.25 1 ||| 0-0 1-1
maison ||| home ||| 0.5 1 ||| 0-0
maison ||| house ||| 0.25 0.5 ||| 0-0
la ||| the ||| 0.5 1 ||| 0-0
bleue maison ||| blue house ||| 0.5 1 ||| 0-0 1-1
"""
LM = "\\data\\\nngram 1=6\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n-1\tthe\n"
LM += "-2\thome\n-1.5\thouse\n\n\\2-grams:\n-0.5\thome home\n\n\\end\\\n"
# "la maison", by hand: one phrase, two words, and </s>.
VALUES = {
    "Distortion0": (0.0,),
    "LM0": (-3.5 * math.log(10),),
    "WordPenalty0": (-2.0,),
    "TM0": (math.log(0.25), 0.0),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "source").write_text("la maison\n\nxyz\nmaison\n")
    return tmp_path


def decode(*options: str, source: str = "source", processes: int = 1) -> Result:
    usual = ["decode", source, "--config", "moses.ini", "--processes", str(processes)]
    return run(*usual, *options)


@pytest.mark.usefixtures("folder")
def test_each_line_is_translated_in_its_place() -> None:
    result = decode()
    assert (result.exit_code, result.stdout) == (0, "the house\n\nxyz\nhome\n")
    assert "1 of 4 source words are not in the table" in result.stderr


@pytest.mark.usefixtures("folder")
def test_lists_have_the_values_of_all_features_but_those_that_moses_hides() -> None:
    result = decode("--nbest", "nbest.gz", "--nbest-size", "3", "--alignment", "-o", "out")
    assert (result.exit_code, result.stdout) == (0, "")
    lists = list(read_nbest("nbest.gz"))
    assert [found.id for found in lists] == [0, 1, 2, 3]
    first = lists[0]
    assert first.features(0) == {name: pytest.approx(row, 1e-5) for name, row in VALUES.items()}
    total = 1 + math.log(0.25) + 0.25 - 3.5 * math.log(10) / 2
    assert first.total(0) == pytest.approx(total, 1e-6)
    assert first.raws[0].endswith(b" ||| 0-0 1-1")
    assert lists[1].hypotheses[0].strip() == b""


@pytest.mark.usefixtures("folder")
def test_lists_have_the_phrases_of_each_hypothesis_before_their_alignment() -> None:
    options = [
        "--nbest",
        "nbest",
        "--nbest-size",
        "9",
        "--segmentation",
        "--alignment",
        "-o",
        "out",
    ]
    assert decode(*options).exit_code == 0
    first = next(iter(read_nbest("nbest")))
    # "la maison" is one phrase of the table, or two with "the" for "la".
    assert first.raws[0].endswith(b" ||| 0-1=0-1 ||| 0-0 1-1")
    assert any(raw.endswith(b" ||| 0=0 1=1 ||| 0-0 1-1") for raw in first.raws)
    found = zip(first.raws, first.distinct().values(), strict=False)
    for number, (raw, words) in enumerate(found):
        spans = parse_segmentation(raw, 2, len(words), "nbest", number)
        assert spans[-1].target_end == len(words)


@pytest.mark.usefixtures("folder")
def test_distinct_lists_have_each_text_once() -> None:
    decode("--nbest", "nbest", "--nbest-size", "3", "--distinct", "-o", "out")
    first = next(iter(read_nbest("nbest")))
    # And not "the house" of two phrases beside "the house" of one.
    assert sorted(first.hypotheses) == [b" home the  ", b" the home  ", b" the house  "]


def test_weights_of_a_file_go_before_those_of_the_model(folder: Path) -> None:
    (folder / "weights").write_text("TM0= 0 1\nLSTM0= 0.5\nLM0= 0\n")
    result = decode("--weights", "weights", "--nbest", "nbest", "--nbest-size", "1")
    assert "moses.ini has no features for these weights: LSTM0" in result.stderr
    # p = 1 for "home", 0.5 for "house"; the language model does not count.
    assert result.stdout.splitlines()[3] == "home"
    (folder / "weights").write_text("TM0= 0 1\nLM0= 0\nWordPenalty0= -7\n")
    result = decode("--weights", "weights")
    first = decode("--weights", "weights", "--nbest", "n", "--nbest-size", "1")
    assert first.stdout == result.stdout
    total = next(iter(read_nbest("n"))).total(0)
    assert total == pytest.approx(14 + 2 * 0.25, 1e-6)  # two phrases: a higher penalty


@pytest.mark.parametrize("limit", [["--stack", "1"], ["--stack-size", "1"]])
def test_limits_of_the_command_line_go_before_those_of_the_model(
    folder: Path, limit: list[str]
) -> None:
    (folder / "source").write_text("la bleue maison\n")
    assert decode("--distortion-limit", "0", *limit).stdout.startswith("the blue house")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("la <b>maison</b>", "source:2: expected words, found markup: '<b>'"),
        ("la " * 4001, "source:2: expected a sentence with at most 4,000 words, found 4,001"),
        ("la|DET maison|N", "source:2: expected words without factors, found 'la|DET'"),
        ("la \udcff", "source:2: expected UTF-8, found byte 0xff at byte 4"),
    ],
)
def test_a_line_that_is_no_plain_text_is_refused(folder: Path, line: str, problem: str) -> None:
    (folder / "source").write_bytes(f"la\n{line}\n".encode(errors="surrogateescape"))
    check_refusal(decode("-o", "out", "--nbest", "nbest", "--nbest-size", "2"), problem)
    assert not (folder / "out").exists()
    assert not (folder / "nbest").exists()


def test_a_sentence_of_300_words_is_translated(folder: Path) -> None:
    (folder / "source").write_text("la maison " * 150 + "\n")
    assert decode("--stack", "3").stdout == "the house " * 149 + "the house\n"


def test_a_name_in_brackets_is_a_word_unless_moses_reads_markup(folder: Path) -> None:
    (folder / "source").write_text("maison <num> la\n")
    assert decode().stdout == "home <num> the\n"
    (folder / "moses.ini").write_text(INI + "[xml-input]\nexclusive\n")
    assert "found markup: '<num>'" in decode().stderr


def test_the_brackets_of_markup_are_those_of_moses_ini(folder: Path) -> None:
    (folder / "moses.ini").write_text(INI + "[xml-brackets]\n{{ }}\n")
    (folder / "source").write_text("maison {{zone}} la {{/zone}}\n")
    assert "source:1: expected words, found markup: '{{zone}}'" in decode().stderr
    (folder / "source").write_text("maison <zone> la </zone>\n")
    assert decode().stdout == "home <zone> the </zone>\n"
    (folder / "moses.ini").write_text(INI + "[xml-brackets]\n{{}}\n")
    assert "expected an opening and a closing bracket" in decode().stderr


def test_a_single_less_than_sign_is_a_word(folder: Path) -> None:
    (folder / "source").write_text("maison < la\n")
    assert decode().stdout == "home < the\n"


def test_a_table_without_matches_is_told(folder: Path) -> None:
    (folder / "source").write_text("das haus\n")
    result = decode()
    assert result.stdout == "das haus\n"
    assert "WARNING" in result.stderr.upper()
    assert "2 of 2 source words are not in the table" in result.stderr
    (folder / "source").write_text("das kleine haus ist rot , und la maison\n" * 3)
    assert "warning: 21 of 27 source words" in decode().stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--feature cslm", "expected a --model for each --feature of the search, got 0 for 1"),
        ("--distinct", "--distinct, --alignment and --segmentation require"),
        ("--decoder moses", "--decoder moses and --moses-bin must be given together"),
        ("--nbest nbest --nbest-size 0", "0 is not in the range x>=1"),
        ("--nbest - --nbest-size 5", "two files cannot share stdin or stdout"),
        ("--config -", "--config cannot be stdin"),
        ("--stack -1", "-1 is not in the range x>=0"),
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(options: str, problem: str) -> None:
    check_refusal(decode(*options.split()), problem, 2)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-o", "out", "--nbest", "out", "--nbest-size", "2"], "out: would overwrite another file"),
        (["--weights", "missing"], "missing: cannot open"),
        (["--weights", "short"], "TM0"),
        (["--feature", "cslm", "--model", "."], "config.toml: cannot be read"),
    ],
)
def test_what_cannot_work_is_refused(options: list[str], problem: str) -> None:
    Path("short").write_text("TM0= 1\n")
    check_refusal(decode(*options), problem)


@pytest.mark.parametrize("option", ["-o", "--nbest"])
@pytest.mark.parametrize("name", ["table", "lm.arpa", "lm.arpa.gz", "moses.ini"])
def test_no_file_of_the_model_is_overwritten(folder: Path, option: str, name: str) -> None:
    (folder / "lm.arpa.gz").write_bytes(b"")
    before = (folder / name).read_bytes()
    result = decode(option, name, *(["--nbest-size", "5"] if option == "--nbest" else []))
    assert result.exit_code == 1
    assert result.stderr == f"Error: {name}: would overwrite another file; name another one\n"
    assert (folder / name).read_bytes() == before


def test_a_limit_that_the_search_does_not_have_is_refused_before_tables_are_read(
    folder: Path,
) -> None:
    (folder / "table").write_text("no phrase table\n")
    check_refusal(
        decode("--stack-diversity", "2"),
        "moses.ini: [stack-diversity]: this search does not support stack-diversity",
    )


def test_a_feature_that_is_not_known_is_refused_unless_ignored(folder: Path) -> None:
    ini = INI.replace("[distortion", "OpSequenceModel name=OSM0 path=x\n[distortion") + "OSM0= 1\n"
    (folder / "moses.ini").write_text(ini)
    check_refusal(decode(), "OpSequenceModel")
    assert decode("--ignore", "OSM0").stdout.startswith("the house")


# Moses itself, doubled: prints each line in capitals.
MOSES = """\
#!{python}
import sys
given = sys.argv[1:]
with open("arguments", "w") as file:
    file.write(" ".join(given))
if "fail" in given[given.index("-threads") - 1]:
    sys.exit("cannot load the table")
lines = sys.stdin.read().splitlines()
for line in lines[: 1 if "fewer" in given[1] else None]:
    print(line.upper() + " ")
if "-n-best-list" in given:
    with open(given[given.index("-n-best-list") + 1], "w") as file:
        for number, line in enumerate(lines):
            file.write(f"{{number}} ||| {{line.upper()}}  ||| LM0= -1 ||| -1\\n")
"""


@pytest.fixture
def moses(folder: Path) -> Path:
    binary = folder / "bin" / "moses"
    binary.parent.mkdir()
    binary.write_text(MOSES.format(python=sys.executable))
    binary.chmod(0o755)
    return folder


def drive(*options: str) -> Result:
    return decode("--decoder", "moses", "--moses-bin", "bin", *options, processes=2)


def test_moses_is_driven_by_the_same_options(moses: Path) -> None:
    (moses / "weights").write_text("LM0= 0.25\nLSTM0= 1\n")
    options = [
        "--weights",
        "weights",
        "--nbest",
        "nbest.gz",
        "--nbest-size",
        "5",
        "--distinct",
        "--alignment",
    ]
    options.append("--segmentation")
    result = succeeded(drive(*options, "--stack", "50", "--search-algorithm", "cube", "-o", "out"))
    assert (moses / "out").read_text() == "LA MAISON\n\nXYZ\nMAISON\n"
    assert gzip.decompress((moses / "nbest.gz").read_bytes()).count(b"\n") == 4
    arguments = (moses / "arguments").read_text()
    assert arguments.startswith(
        "-f moses.ini -threads 2 -stack 50 -search-algorithm 1 -weight-overwrite LM0= 0.25 "
    )
    assert arguments.endswith(" -print-alignment-info-in-n-best -include-segmentation-in-n-best")
    assert "LSTM0" in result.stderr


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fail", "the decoder ended with exit code 1: cannot load the table"),
        ("fewer", "expected 4 translations from Moses, found 1"),
    ],
)
def test_what_goes_wrong_in_moses_is_shown(moses: Path, name: str, problem: str) -> None:
    (moses / "moses.ini").rename(moses / name)
    check_refusal(
        drive("--config", name, "-o", "out", "--nbest", "nbest", "--nbest-size", "2"), problem
    )
    assert not (moses / "out").exists()
    assert not (moses / "nbest").exists()


@pytest.mark.usefixtures("folder")
def test_a_binary_that_is_not_there_is_named() -> None:
    check_refusal(drive(), "cannot run the decoder 'bin/moses': No such file")


@pytest.mark.moses
@pytest.mark.parametrize("algorithm", ["normal", "cube"])
def test_both_engines_give_the_same_files(folder: Path, algorithm: str) -> None:
    binary = shutil.which("moses")
    if binary is None:
        pytest.skip("needs moses on the PATH")
    (folder / "source").write_text("la maison\n\nla bleue maison xyz\n")
    # Without a beam: that of Moses cuts small stacks, too, as it happens in the order of its work.
    usual = ["--search-algorithm", algorithm, "--beam-threshold", "0", "--distinct", "--alignment"]
    assert decode(*usual, "--nbest", "one", "--nbest-size", "5", "-o", "one.out").exit_code == 0
    engine = ["--decoder", "moses", "--moses-bin", os.path.dirname(binary)]
    succeeded(decode(*usual, *engine, "--nbest", "two", "--nbest-size", "5", "-o", "two.out"))
    assert (folder / "one.out").read_bytes() == (folder / "two.out").read_bytes()
    for one, two in zip(read_nbest("one"), read_nbest("two"), strict=True):
        assert [text.strip() for text in one.hypotheses] == [
            text.strip() for text in two.hypotheses
        ]
        for place in range(len(one.raws)):
            assert one.total(place) == pytest.approx(two.total(place), 1e-4)
            assert one.features(place).keys() == two.features(place).keys()


def test_moses_gets_absolute_paths_where_they_start_in_the_folder_of_the_ini(
    moses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moses / "bin" / "moses"
    shown = (
        "import pathlib\npathlib.Path('ini').write_text(pathlib.Path(sys.argv[2]).read_text())\n"
    )
    path.write_text(path.read_text().replace("given = ", f"{shown}given = ", 1))
    (moses / "elsewhere").mkdir()
    monkeypatch.chdir(moses / "elsewhere")
    (moses / "elsewhere" / "source").write_bytes((moses / "source").read_bytes())
    options = ("--config", "../moses.ini", "--decoder", "moses", "--moses-bin", "../bin")
    succeeded(run("decode", "source", *options, "-o", "out"))
    ini, written = MosesIni.read("ini"), MosesIni.read("../moses.ini")
    names = [os.path.abspath(written.resolve(name)) for name in written.named_paths()]
    assert ini.named_paths() == names
    assert all(map(os.path.exists, names))
