"""``phrasescore build``: the files of a system, given parts, text preparation, unfinished runs."""

import fcntl
import gzip
import os
import re
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from phrasescore.io.characters import split_characters
from phrasescore.progress import Progress
from phrasescore.settings.building import Building
from phrasescore.workflows.building import aligner, system
from tests.command_line import check_refusal, run, succeeded
from tests.forked import Forked, run_command
from tests.tiny_bitext import sentence_pairs

PAIRS = sentence_pairs(60)
LINKS = "0-0 1-2 2-1 3-3 4-4 5-6 6-5\n"
FILES = {
    *("aligned.grow-diag-final-and", "corpus.source.gz", "corpus.target.gz"),
    *("lex.e2f", "lex.f2e", "lm.arpa.gz", "moses.ini", "phrase-table.gz"),
    *("reordering-table.wbe-msd-bidirectional-fe.gz", "system.toml", "weights"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("s", [source for source, _ in PAIRS])
    write("t", [target for _, target in PAIRS])
    Path("links").write_text(LINKS * len(PAIRS))
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def build(*options: str, code: int = 0) -> Any:
    # eflomal takes seconds for the smallest texts.
    given = {"--aligner", "--alignments"} & {*options}
    quick = () if given else ("--aligner", "fast-align")
    result = run("build", "s", "t", "-o", "model", "--workers", "1", *quick, *options)
    assert result.exit_code == code, result.output
    return result


def text(name: str) -> str:
    data = Path("model", name).read_bytes()
    return (gzip.decompress(data) if name.endswith(".gz") else data).decode()


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def refused(problem: str, *options: str, code: int = 1) -> None:
    before = sorted(path.name for path in Path().iterdir())
    check_refusal(build(*options, code=code), problem, code)
    assert sorted(path.name for path in Path().iterdir()) == before


# The files of a system


def test_a_system_of_two_texts_translates() -> None:
    build("--aligner", "eflomal")
    assert {path.name for path in Path("model").iterdir()} == FILES
    assert not Path("model.work").exists()
    # The grammar's words have one translation each, and its adjectives come last.
    links = text("aligned.grow-diag-final-and").splitlines()
    assert len(links) == len(PAIRS)
    assert all({*LINKS.split()} <= {*line.split()} for line in links)
    write("new", ["the white key likes the green flower"])
    assert text("system.toml") == 'moses_ini = "moses.ini"\nweights = "weights"\nnbest_size = 100\n'
    os.rename("model", "moved")
    translated = succeeded(run("translate", "moved/system.toml", "new", "--workers", "1")).stdout
    assert translated == "la clé blanche aime la fleur verte\n"


def test_progress_is_the_share_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.progress.INTERVAL", 0.0)
    seen: list[Progress] = []
    system.build("s", "t", "model", settings=Building(aligner="fast-align"), progress=seen.append)
    done = [each.done for each in seen if each.task == "build"]
    assert done == sorted(done)
    assert done[-1] == len(PAIRS)
    aligning = {each.done for each in seen if each.note == "align"}
    tables = {each.done for each in seen if each.note == "tables"}
    # Alignment takes 30 of 40 parts of the time, and is said to.
    assert max(aligning) == min(tables) == 45
    assert max(tables) > 45


def test_the_files_do_not_depend_on_the_number_of_workers() -> None:
    build("--tokenize", "en", "fr", "--truecase", "--lm-text", "t")
    one = contents("model")
    os.rename("model", "one")
    build("--tokenize", "en", "fr", "--truecase", "--lm-text", "t", "--workers", "3")
    assert contents("model") == one


def test_the_moses_ini_is_moses_s_with_its_default_weights() -> None:
    build("--alignments", "links", "--lm-order", "3")
    assert (
        text("moses.ini")
        == """\
#########################
### MOSES CONFIG FILE ###
#########################

# input factors
[input-factors]
0

# mapping steps
[mapping]
0 T 0

[distortion-limit]
6

# feature functions
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=phrase-table.gz input-factor=0 \
output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff \
input-factor=0 output-factor=0 path=reordering-table.wbe-msd-bidirectional-fe.gz
Distortion
KENLM name=LM0 factor=0 path=lm.arpa.gz order=3

# dense weights for feature functions
[weight]
# The default weights are not optimised for translation quality: tune them.
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
"""
    )


def test_given_parts_replace_built_ones() -> None:
    succeeded(run("build-lm", "t", "--order", "2", "--discount-fallback", "-o", "given.arpa"))
    write("more", ["une autre maison"])
    build(
        *("--alignments", "links", "--lm", "given.arpa", "--lm-text", "more"),
        *("--max-phrase-length", "1"),
        *("--lm-order", "3"),
    )
    names = {path.name for path in Path("model").iterdir()}
    assert names == FILES - {"lm.arpa.gz"} | {"lm1.arpa.gz"}
    ini = text("moses.ini")
    assert "KENLM name=LM0 factor=0 path=../given.arpa order=2\n" in ini
    assert "KENLM name=LM1 factor=0 path=lm1.arpa.gz order=3\n" in ini
    assert ini.endswith("LM0= 0.5\nLM1= 0.5\n")
    assert "une autre maison" in text("lm1.arpa.gz")
    assert all(" " not in line.split(" ||| ")[0] for line in text("phrase-table.gz").splitlines())


@pytest.mark.parametrize("kind", ["fast-align", "hmm"])
def test_other_aligners_find_most_links(kind: str) -> None:
    build("--aligner", kind, "--lm-order", "1")
    links = text("aligned.grow-diag-final-and").splitlines()
    assert len(links) == len(PAIRS)
    found = sum(len({*line.split()} & {*LINKS.split()}) for line in links)
    assert found > 0.8 * len(PAIRS) * len(LINKS.split())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_system_of_the_real_task_is_that_of_moses(shared_data: Path) -> None:
    given = ("--alignments", str(shared_data / "aligned.grow-diag-final-and"))
    texts = (str(shared_data / f"train.{side}") for side in ("en", "fr"))
    succeeded(run("build", *texts, "-o", "model", "--lm-order", "4", *given))
    for name in ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz"):
        with gzip.open(Path("model", name)) as ours, gzip.open(shared_data / name) as theirs:
            for block in iter(lambda: list(islice(ours, 10_000)), []):
                assert block == list(islice(theirs, len(block)))
            assert theirs.read() == b""


# Preparation


def test_cleaning_leaves_out_pairs_with_their_alignments() -> None:
    # As clean-corpus-n.perl 1 80: empty, 81 words, and ten times as long; nine times stays.
    rows = [
        ("a", "x", "0-0"),
        ("", "x", ""),
        ("b", " ", ""),
        ("a " * 80, "x " * 9, "0-1"),
        ("a " * 81, "x " * 80, "0-0"),
        ("a " * 9, "x", "8-0"),
        ("a", "x " * 10, "0-9"),
        ("a\tb", "x\r", "1-0"),
    ]
    for name, lines in zip(("s", "t", "links"), zip(*rows, strict=True), strict=True):
        write(name, list(lines))
    result = build("--alignments", "links", "--lm-order", "1")
    assert "skipped 4 of 8 sentence pairs: empty, longer than 80 words" in result.stderr
    assert text("aligned.grow-diag-final-and") == "0-0\n0-1\n8-0\n1-0\n"
    assert text("corpus.source.gz") == f"a\n{'a ' * 79}a\n{'a ' * 8}a\na b\n"
    assert text("corpus.target.gz") == f"x\n{'x ' * 8}x\nx\nx\n"


def test_the_longest_sentence_can_be_chosen() -> None:
    write("s", ["a b c", "a b"])
    write("t", ["x y", "x y"])
    write("links", ["0-0", "1-1"])
    build("--alignments", "links", "--max-sentence-length", "2", "--lm-order", "1")
    assert text("corpus.source.gz") == "a b\n"


def test_characters_are_translated_in_order() -> None:
    # A line of 66 words has 199 characters with the marks between them, and one of 67 has 202,
    # more than the aligner takes.
    long = " ".join(["vn"] * 66)
    write("s", ["vnd jm himel", f"{long} vn", "haus", "vnnd", long, "maus &apos;n"])
    write("t", ["und im himmel", f"{long} un", "haus", "und", long, "maus &apos;n"])
    result = build("--characters", "--aligner", "hmm")
    problem = "skipped 1 of 6 sentence pairs: empty, longer than 80 words or 200 characters"
    assert problem in result.stderr
    wanted = [["vnd", "jm", "himel"], ["maus", "&apos;n"]]
    found = text("corpus.source.gz").splitlines()
    assert len(found) == 5
    assert [found[0], found[4]] == [" ".join(split_characters(words)) for words in wanted]
    assert all(text("aligned.grow-diag-final-and").splitlines())
    ini = text("moses.ini")
    assert "# phrasescore: characters = true\n" in ini
    assert "[distortion-limit]\n0\n" in ini
    assert "LexicalReordering" not in ini
    assert "order=6\n" in ini  # the most that Moses reads unless it is compiled for more


# Bad input


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("a\n", "x\ny\n", "s:2: expected as many lines as t has, found the end of the file"),
        ("a\nb\n", "x\n", "t:2: expected as many lines as s has, found the end of the file"),
        ("", "", "s: expected sentence pairs of 1 to 80 words, found none"),
        ("\n\n", "x\ny\n", "s: expected sentence pairs of 1 to 80 words, found none"),
        ("a\nb|c\n", "x\ny\n", "s:2: expected words, found 'b|c', which Moses reads as"),
        ("a\nb\n", "x\n[Y]\n", "t:2: expected words, found '[Y]', which Moses reads as"),
        ('a\n<b x="1"> c\n', "x\ny\n", "s:2: expected words, found markup"),
        ("a\n<s> b\n", "x\ny\n", "s:2: expected text without <s> and </s>"),
        ("a\nb\n", "x\n<unk>\n", "t:2: expected text without <unk>"),
        ("a\nb ||| c\n", "x\ny\n", "s:2: expected words, found '|||'"),
        ("a\nb\n", "x\n\xff\n", "t:2: expected UTF-8"),
    ],
)
def test_text_that_moses_cannot_read_is_refused(source: str, target: str, problem: str) -> None:
    Path("s").write_bytes(source.encode("latin-1"))
    Path("t").write_bytes(target.encode("latin-1"))
    refused(problem)


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ("0-0\n", "links:2: expected as many lines as s has"),
        ("0-0\n" * 61, "s:61: expected as many lines as links has"),
        ("0-0\n7-0\n" + "0-0\n" * 58, "links:2: the alignment link 7-0 (0-based) is outside"),
        ("0-0\n0:0\n" + "0-0\n" * 58, "links:2: expected a word alignment"),
    ],
)
def test_alignments_of_other_sentences_are_refused(links: str, problem: str) -> None:
    Path("links").write_text(links)
    refused(problem, "--alignments", "links")


def test_an_error_in_another_process_names_the_line() -> None:
    write("s", ["a", "b|c"])
    write("t", ["x", "y"])
    refused("s:2: expected words, found 'b|c'", "--workers", "2")


def test_an_n_gram_model_that_is_none_is_refused() -> None:
    refused("t:1: expected an ARPA file", "--lm", "t")


@pytest.mark.parametrize(
    ("options", "problem", "code"),
    [
        ("--lowercase --truecase", "--lowercase and --truecase cannot be combined", 2),
        ("--alignments links --characters", "--alignments cannot be combined", 2),
        ("--alignments links --tokenize en fr", "--alignments cannot be combined", 2),
        ("--alignments -", "<stdin>: expected a file, as it is read twice", 2),
        ("--max-phrase-length 21", "expected a number from 1 to 20, got 21", 2),
        ("--lm-text nowhere", "nowhere: cannot open", 1),
    ],
)
def test_wrong_options_are_refused(options: str, problem: str, code: int) -> None:
    refused(problem, *options.split(), code=code)


def test_one_sentence_of_one_word_is_a_system_of_unigrams() -> None:
    write("s", ["a"])
    write("t", ["x"])
    build("--lm-order", "1")
    assert text("aligned.grow-diag-final-and") == "0-0\n"
    assert text("phrase-table.gz") == "a ||| x ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||\n"


def test_a_further_text_without_words_is_refused() -> None:
    write("more", ["x y", "x y z"])
    write("blank", ["", ""])
    options = ["--lm-text", "more", "--lm-text", "blank", "--lm-order", "3"]
    refused("blank: expected a text, found no word", *options)


def test_a_text_without_links_has_no_phrase_pair() -> None:
    write("s", ["a b", "a c"])
    write("t", ["x y", "x z"])
    write("links", ["", ""])
    options = ("--alignments", "links", "--lm-order", "2")
    check_refusal(build(*options, code=1), "found no phrase pair of at most 7 words: is the text")
    assert not Path("model").exists()


def test_a_single_phrase_pair_is_counted() -> None:
    write("s", ["a", "a"])
    write("t", ["x", "x"])
    write("links", ["0-0", "0-0"])
    result = build("--alignments", "links", "--lm-order", "1")
    assert text("phrase-table.gz") == "a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 2 2 ||| |||\n"
    assert "model: 2 sentence pairs, 1 phrase pair\n" in result.stderr


def test_a_given_n_gram_model_may_have_an_order_that_kenlm_does_not_read() -> None:
    write("t", [f"{line} ." * 3 for line in Path("t").read_text().splitlines()])
    build("--alignments", "links", "--lm-order", "8")
    Path("model/lm.arpa.gz").rename("eight.arpa.gz")
    shutil.rmtree("model")
    build("--alignments", "links", "--lm", "eight.arpa.gz")
    assert "path=../eight.arpa.gz order=8\n" in text("moses.ini")


def test_the_old_folder_is_kept() -> None:
    Path("model").mkdir()
    refused("model: already exists; remove it or choose another --output")
    assert list(Path("model").iterdir()) == []


@pytest.mark.parametrize("name", ["a b/model", "a#b"])
def test_a_system_in_a_folder_that_a_moses_ini_cannot_name_translates(name: str) -> None:
    options = ("--lm-order", "2", "--lm-text", "t", "-q")
    plain, odd = (run("build", "s", "t", "-o", each, *options) for each in ("model", name))
    assert (plain.exit_code, odd.exit_code) == (0, 0)
    found = [succeeded(run("translate", f"{each}/system.toml", "s")) for each in ("model", name)]
    assert found[0].stdout == found[1].stdout
    # Moses, in the folder of the system, finds the files as well.
    paths = re.findall("path=(.*?)(?: |$)", Path(name, "moses.ini").read_text(), re.MULTILINE)
    assert len(paths) == 4
    assert all(Path(name, path).is_file() for path in paths)


def test_an_n_gram_model_that_a_moses_ini_cannot_name_is_refused() -> None:
    Path("my models").mkdir()
    succeeded(run("build-lm", "t", "--order", "2", "--discount-fallback", "-o", "my models/lm"))
    result = run("build", "s", "t", "-o", "model", "--lm", "my models/lm")
    check_refusal(result, "my models/lm: expected a path without blanks and '#'")
    assert not Path("model").exists()
    inside = run("build", "s", "t", "-o", "my models/model", "--lm", "my models/lm")
    assert inside.exit_code == 0
    succeeded(run("translate", "my models/model/system.toml", "s"))


def test_an_aligner_that_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligner, "__name__", "phrasescore.nothing")
    check_refusal(build(code=1), "the word aligner ended with exit code 1")
    assert not Path("model").exists()


# Unfinished runs


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("damaged", [b"\x1f\x8b", b"\xff\n"])
def test_a_damaged_text_that_the_aligner_reads_is_named(
    monkeypatch: pytest.MonkeyPatch, damaged: bytes
) -> None:
    with monkeypatch.context() as context:
        context.setattr(system, "align", stop)
        build(code=130)
    Path("model.work", "model", "corpus.source.gz").write_bytes(damaged)
    result = build("--resume", code=1)
    assert "\nError: model.work/model/corpus.source.gz:" in f"\n{result.stderr}"


def test_a_stopped_run_continues_after_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    whole = contents("model")
    os.rename("model", "whole")

    with monkeypatch.context() as context:
        context.setattr(system, "build_tables", stop)
        build(code=130)
    assert not Path("model").exists()
    refused("model.work: holds an unfinished run; continue it with --resume")
    refused(
        "was started with another value for --max-sentence-length (80, now 9)",
        *("--resume", "--max-sentence-length=9"),
    )
    write("t", [f"{target} !" for _, target in PAIRS])
    refused("was started with another value for TARGET", "--resume")
    write("t", [target for _, target in PAIRS])
    monkeypatch.setattr(system, "align", stop)
    build("--resume")
    assert contents("model") == whole
    assert not Path("model.work").exists()


def test_a_run_that_was_killed_after_its_end_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--alignments", "links")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("phrasescore.workflows.work_folder.WorkFolder.remove", stop)
        build(*given, code=130)
    assert {path.name for path in Path("model").iterdir()} == FILES
    os.rename("model", "elsewhere")
    refused("model.work: the run has written model, which is gone", "--resume", *given)
    os.rename("elsewhere", "model")
    build("--resume", *given)
    assert not Path("model.work").exists()


def test_another_run_in_the_folder_is_refused() -> None:
    Path("model.work").mkdir()
    with open("model.work/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused("model.work: another run is using this folder")


def test_a_foreign_work_folder_is_kept() -> None:
    Path("model.work").mkdir()
    write("model.work/thesis", ["text"])
    check_refusal(build(code=1), "model.work: expected a folder for this run only, found other")
    assert Path("model.work/thesis").exists()


def build_until_both_are_aligned(*arguments: str) -> None:
    pytest.MonkeyPatch().setattr(system, "symmetrize", lambda *_: os.kill(os.getpid(), 9))
    run_command(*arguments)


def test_a_killed_run_goes_on(folder: Path) -> None:
    build()
    whole = contents("model")
    os.rename("model", "whole")
    command = "build s t -o model --workers 2 --aligner fast-align"
    killed = Forked(build_until_both_are_aligned, *command.split(), cwd=folder)
    killed.communicate()
    assert killed.returncode == -9
    assert not Path("model").exists()
    assert [*Path("model.work").glob("*/forward")]
    build("--resume")
    assert contents("model") == whole
    assert not Path("model.work").exists()
