"""``phrasescore evaluate`` as a user meets it; every figure is worked out by hand."""

import io
import json
import math
import os
from pathlib import Path
from typing import get_args
from urllib.error import URLError

import pytest
from click.testing import Result
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

import phrasescore
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomModel

REFERENCE = "la maison est petite .\nun chien dort\nle chat mange une souris\n"
BASELINE = "la maison est petite .\nun chat dort\nle chat mange\n"
OTHER = "la maison est petite .\nun chien dort\nle chat mange une souris\n"
SOURCE = "the house is small .\na dog sleeps\nthe cat eats a mouse\n"
# Of BASELINE, by hand: 10 of 11 words match, 6 of 8 bigrams, 4 of 5 trigrams, 2 of 2 4-grams; 13
# words in the reference.
BY_HAND = 100 * math.exp(1 - 13 / 11) * (10 / 11 * 6 / 8 * 4 / 5 * 1) ** 0.25
LINE = f"BLEU = {BY_HAND:.2f}, 90.9/75.0/80.0/100.0 (BP=0.834, ratio=0.846, hyp_len=11, ref_len=13)"


class Folder:
    """A folder with small files, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name, text in (("ref", REFERENCE), ("base", BASELINE), ("new", OTHER), ("src", SOURCE)):
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> Result:
        return run("-q", "evaluate", *arguments)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


def test_a_system_has_bleu_once_and_chrf_with_their_signatures(folder: Folder) -> None:
    result = folder.run("base", "--references", "ref")
    assert (result.exit_code, result.stderr) == (0, "")
    bleu, chrf = result.stdout.splitlines()
    assert bleu.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:")
    assert f" = {BY_HAND:.2f} 90.9/75.0/80.0/100.0 (BP = 0.834 " in bleu
    assert chrf.startswith("chrF2|nrefs:1|")
    papers = folder.run("base", "--references", "ref", "--metric", "multi-bleu")
    assert papers.stdout == f"{LINE}\n"


def test_a_name_without_a_file_is_that_of_several_references(folder: Folder) -> None:
    folder.write("refs0", REFERENCE)
    folder.write("refs1", BASELINE)
    result = folder.run("base", "--references", "refs")
    assert " = 100.00 100.0/" in result.stdout
    both = folder.run("base", "--references", "refs0", "--references", "refs1")
    assert result.stdout == both.stdout
    for number in range(2):  # mert-moses.pl and multi-bleu.perl take these, too
        (folder.path / f"refs{number}").rename(folder.path / f"refs.ref{number}")
    assert folder.run("base", "--references", "refs").stdout == both.stdout
    folder.write("refs", REFERENCE)  # a file of the name is meant alone
    assert f" = {BY_HAND:.2f} 90.9/" in folder.run("base", "--references", "refs").stdout


def test_an_n_best_list_is_no_translation(folder: Folder) -> None:
    folder.write("lists", "0 ||| la maison  ||| LM0= -1 ||| -1\n" * 9)
    check_refusal(
        folder.run("base", "lists", "--references", "ref"),
        "lists:1: expected one translation per line, found an n-best list: pass",
    )


def test_several_systems_are_told_apart_and_perfect_is_100(folder: Folder) -> None:
    options = ["--references", "ref", "--metric", "multi-bleu", "--metric", "bleu"]
    lines = folder.run("base", "new", *options).stdout.splitlines()
    assert [lines[0], lines[1], lines[4]] == ["base", f"  {LINE}", "new"]
    assert lines[5].startswith("  BLEU = 100.00, 100.0/100.0/100.0/100.0 (BP=1.000")


def test_each_metric_can_be_asked_for(folder: Folder) -> None:
    metrics = [f"--metric={name}" for name in ("ter", "chrf", "chrf++", "bleu", "ter")]
    lines = folder.run("new", "--references", "ref", *metrics).stdout.splitlines()
    assert [line.split("|")[0] for line in lines] == ["TER", "chrF2", "chrF2++", "BLEU"]
    assert [line.split(" = ")[1].split(" ")[0] for line in lines] == ["0.00", *["100.00"] * 3]


def test_accuracy_and_error_rate_have_signatures_and_tests(folder: Folder) -> None:
    folder.write("ref", "sind\nzu dem\n")
    folder.write("base", "seind\nzudem\n")
    folder.write("new", "sind\nzudem\n")
    metrics = ["--metric", "word_accuracy", "--metric", "cer"]
    result = folder.run("base", "new", "--references", "ref", *metrics, "--paired", "bootstrap")
    lines = result.stdout.splitlines()
    signature = f"nrefs:1|tok:none|package:phrasescore|version:{phrasescore.__version__}"
    # By hand: 3 and 2 of 3 words are wrong, and 2 and 1 of 10 characters.
    assert lines[1:3] == [f"  word accuracy|{signature} = 0.00", f"  CER|{signature} = 20.00"]
    assert [line.split(" = ")[1] for line in lines[5:7]] == ["33.33", "10.00"]
    assert "CER" in lines[-4]


def test_how_bleu_splits_text_is_chosen_and_in_the_signature(folder: Folder) -> None:
    folder.write("ref", "la maison est petite, oui.\n")
    folder.write("base", "la maison est petite , oui .\n")
    result = folder.run("base", "--references", "ref", "--metric", "bleu", "--tokenize", "13a")
    assert "|tok:13a|" in result.stdout
    assert " = 100.00 100.0/" in result.stdout
    assert "ref looks untokenised, unlike base: " in result.stderr


RAW = ["raw", "--references", "raw.ref"]
LIKE = "punctuation is attached to words, such as 'dort.'"
SPLIT = "tokenise the text, as multi-bleu and the figures for groups ignore --tokenize"
MIXED = "compare tokenised texts with each other, or untokenised ones with --tokenize 13a"


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (RAW, f"raw looks untokenised, like raw.ref: {LIKE}: use --tokenize 13a"),
        ([*RAW, "--tokenize", "13a"], ""),
        ([*RAW, "--metric", "chrf"], ""),
        ([*RAW, "--metric", "ter"], ""),
        ([*RAW, "--metric", "multi-bleu"], f"raw looks untokenised, like raw.ref: {LIKE}: {SPLIT}"),
        (
            ["words", *RAW, "--tokenize", "13a"],
            f"raw looks untokenised, like raw.ref, unlike words: {LIKE}: {MIXED}",
        ),
        (["words", "base", "--references", "words", "--references", "base"], ""),
    ],
)
def test_untokenised_text_is_warned_of_once(
    folder: Folder, arguments: list[str], warning: str
) -> None:
    folder.write("words", "Un chien dort .\nOui , un chien dort .\nEt l&apos; art .\n")
    for name in ("raw", "raw.ref"):
        folder.write(name, "Un chien dort.\nOui, un chien dort.\nEt l'art.\n")
    result = succeeded(folder.run(*arguments))
    assert result.stderr == (f"phrasescore: warning: {warning}\n" if warning else "")


def test_references_of_lists_must_be_tokenised(folder: Folder) -> None:
    folder.write("lists", "0 ||| un chien dort . ||| A= 1 ||| 1\n")
    folder.write("ref", "Un chien dort.\n")
    result = succeeded(folder.run("--lists", "lists", "--references", "ref", "--tokenize", "13a"))
    assert "warning: ref looks untokenised, unlike lists: " in result.stderr


def test_spbleu_counts_the_pieces_of_sacrebleu_s_model(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder.path / "pieces.model"
    SentencePieceTrainer.train(
        sentence_iterator=iter([*REFERENCE.splitlines(), *SOURCE.splitlines()]),
        model_writer=(written := io.BytesIO()),
        vocab_size=30,
        minloglevel=2,
    )
    model.write_bytes(written.getvalue())
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(folder.path))
    monkeypatch.setattr(
        "sacrebleu.tokenizers.tokenizer_spm.download_file",
        lambda _url, path: os.renames(model, path),
    )
    result = folder.run("base", "--references", "ref", "--metric", "bleu", "--tokenize=flores200")
    # The same pieces as words, by sentencepiece itself.
    (downloaded,) = (folder.path / "models").iterdir()
    pieces = SentencePieceProcessor(model_file=str(downloaded))
    for name, text in (("ref", REFERENCE), ("base", BASELINE)):
        lines = [" ".join(pieces.encode(line, out_type=str)) for line in text.splitlines()]
        folder.write(f"{name}.pieces", "".join(f"{line}\n" for line in lines))
    expected = folder.run("base.pieces", "--references", "ref.pieces", "--metric", "bleu").stdout
    assert expected.replace("|tok:none|", "|tok:flores200|") == succeeded(result).stdout
    assert " = 100.00 " not in expected


def test_without_the_model_of_spbleu_one_line_says_what_to_do(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(folder.path))
    monkeypatch.setattr("phrasescore.evaluation.comparison.SACREBLEU_DIR", str(folder.path))

    def fail(_url: str, _path: str) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", fail)
    arguments = ["base", "--references", "ref", "--tokenize", "flores200", "-o", "report"]
    message = "--tokenize flores200: sacrebleu cannot load its model, which it downloads once "
    check_refusal(folder.run(*arguments), f"{message}(<urlopen error no route to host>); save http")
    assert not (folder.path / "report").exists()
    damaged = folder.path / "models" / "flores200sacrebleuspm"
    damaged.parent.mkdir()
    damaged.write_bytes(b"")  # as after a download that was stopped
    check_refusal(folder.run(*arguments), f"as {damaged}, in place of an incomplete file")


def test_the_report_is_json_on_request(folder: Folder) -> None:
    folder.write("base", BASELINE.replace("un chat dort", ""))
    result = folder.run("base", "new", "--references", "ref", "--format", "json")
    report = json.loads(result.stdout)
    assert (report["references"], report["sentences"]) == (["ref"], 3)
    base, new = report["systems"]
    assert (base["path"], base["empty_lines"], new["empty_lines"]) == ("base", 1, 0)
    assert new["multi-bleu"]["score"] == pytest.approx(100)
    assert base["multi-bleu"]["length"] == 8
    assert (
        base["BLEU"]["line"]
        == f"BLEU|{base['BLEU']['signature']} = " + base["BLEU"]["line"].partition(" = ")[2]
    )


def test_empty_hypotheses_are_counted_and_allowed(folder: Folder) -> None:
    folder.write("base", "\n\n\n")
    result = succeeded(folder.run("base", "--references", "ref", "--metric", "multi-bleu"))
    assert result.stderr == (
        "phrasescore: warning: base has 3 empty lines\n"
        "phrasescore: warning: base has 0 words, the references 13: are they for the same text, in "
        "the same language, with the same tokenisation?\n"
    )
    assert result.stdout == (
        "BLEU = 0.00, 0.0/0.0/0.0/0.0 (BP=0.000, ratio=0.000, hyp_len=0, ref_len=13)\n"
    )


def test_a_paired_test_has_the_baseline_first_and_a_p_value_for_the_others(folder: Folder) -> None:
    arguments = ["base", "new", "base", "--references", "ref", "--metric", "bleu"]
    lines = folder.run(*arguments, "--paired", "approximate").stdout.splitlines()
    start = lines.index("paired approximate randomization against base")
    assert "|ar:10000|seed:12345|" in lines[start + 1]
    cells = [line.split() for line in lines[start + 2 :]]
    assert cells[0] == ["system", "BLEU", "p"]
    assert cells[1] == ["base", f"{BY_HAND:.2f}", "baseline"]
    assert (cells[2][:2], cells[2][3:]) == (["new", "100.00"], ["best"])
    # Against itself; sacrebleu's own counting would say (0 + 1) / (10000 + 1), as of a sure one.
    assert cells[3] == ["base", f"{BY_HAND:.2f}", "1.0000"]


def test_of_an_error_rate_the_lowest_is_best(folder: Folder) -> None:
    options = ["--references", "ref", "--metric", "ter", "--metric", "bleu"]
    lines = folder.run("new", "base", *options, "--paired", "approximate").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.endswith("  best")] == ["new", "new"]


NBEST = """\
0 ||| la maison ||| A= 1 ||| 1
0 ||| la maison est petite .  ||| A= 1 ||| 1
1 ||| un chat dort ||| A= 1 ||| 1
1 ||| un chat dort  ||| A= 1 ||| 1
1 ||| un chien dort ||| A= 1 ||| 1
2 ||| le chat mange une souris ||| A= 1 ||| 1
"""


def test_the_oracle_of_n_best_lists_is_told(folder: Folder) -> None:
    folder.write("nbest", NBEST)
    lines = folder.run("--lists", "nbest", "--references", "ref").stdout.splitlines()
    # Both lines of "un chat dort" have other blanks, and are two to the reader.
    assert lines[0] == "nbest: 6 distinct hypotheses"
    # First hypotheses, by hand: 9 of 10 words, 5 of 7 bigrams, 3 of 4 trigrams, 2 of 2 4-grams.
    first = 100 * math.exp(1 - 13 / 10) * (9 / 10 * 5 / 7 * 3 / 4) ** 0.25
    assert lines[1].startswith(f"  first   BLEU = {first:.2f}, 90.0/71.4/75.0/100.0 ")
    assert lines[2].startswith("  oracle  BLEU = 100.00, ")
    report = json.loads(
        folder.run("--lists", "nbest", "--references", "ref", "--format", "json").stdout
    )
    assert report["nbest"]["first"]["score"] == pytest.approx(first)


def test_a_sentence_without_a_list_may_have_an_empty_translation(folder: Folder) -> None:
    lines = NBEST.splitlines(keepends=True)
    options = ["--lists", "nbest", "--references", "ref"]
    for missing in ([0, 1], [2, 3, 4], [5]):
        folder.write("nbest", "".join(line for at, line in enumerate(lines) if at not in missing))
        result = folder.run(*options, "--allow-missing")
        empty = [f"{lines[missing[0]][0]} |||  ||| A= 1 ||| 1\n"]
        lines_with_it = [*lines[: missing[0]], *empty, *lines[missing[-1] + 1 :]]
        folder.write("nbest", "".join(lines_with_it))
        assert result.stdout == folder.run(*options).stdout


def test_lists_of_another_length_than_the_references_are_warned_of(folder: Folder) -> None:
    sentences = [f"w{number} x{number} y{number} ." for number in range(20)]
    lists = [f"{number} ||| {text} ||| A= 1 ||| 1\n" for number, text in enumerate(sentences)]
    folder.write("nbest", "".join(lists))
    for references, is_warned in ((sentences, False), ([text * 3 for text in sentences], True)):
        folder.write("ref", "".join(f"{text}\n" for text in references))
        result = succeeded(folder.run("--lists", "nbest", "--references", "ref"))
        said = "warning: nbest has 80 words, the references 200: are they" in result.stderr
        assert said is is_warned


@pytest.mark.parametrize(
    ("nbest", "message"),
    [
        ("0 ||| a ||| A= 1 ||| 1\n2 ||| a ||| A= 1 ||| 1\n", ":2: expected id 1, found 2: a"),
        ("0 ||| a ||| A= 1 ||| 1\n", ": expected lists of 3 sentences, found 1"),
        (f"{NBEST}3 ||| a ||| A= 1 ||| 1\n", ":7: expected lists of 3 sentences, found id"),
    ],
)
def test_lists_that_are_not_those_of_the_references_are_refused(
    folder: Folder, nbest: str, message: str
) -> None:
    folder.write("nbest", nbest)
    check_refusal(folder.run("--lists", "nbest", "--references", "ref"), f"Error: nbest{message}")


def test_bleu_is_told_by_length(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.evaluation.comparison.WIDTH", 4)
    arguments = ["base", "new", "--references", "ref", "--by-length", "source", "--source", "src"]
    lines = folder.run(*arguments).stdout.splitlines()
    start = lines.index("BLEU by words in the source")
    assert [line.split() for line in lines[start + 1 :]] == [
        ["sentences", "base", "new"],
        ["1-4", "1", "0.00", "0.00"],  # three words have no 4-gram
        # By hand: 8 of 8, 6 of 6, 4 of 4, 2 of 2, and 10 words in the reference.
        ["5-8", "2", f"{100 * math.exp(1 - 10 / 8):.2f}", "100.00"],
    ]


def test_bleu_is_told_by_words_that_are_not_in_a_vocabulary(folder: Folder) -> None:
    from phrasescore.vocabulary import Vocabulary

    Vocabulary(["the", "house", "is", "small", ".", "a", "cat", "eats"]).save("vocab")
    arguments = ["base", "--references", "ref", "--by-unknown", "vocab", "--source", "src"]
    report = json.loads(folder.run(*arguments, "--format", "json").stdout)
    exactly, at_most = report["breakdowns"]
    assert exactly["title"] == "unknown words in the source"
    # the house is small . / a DOG SLEEPS / the cat eats a MOUSE
    groups = [(group["label"], group["sentences"]) for group in exactly["groups"]]
    assert groups == [("0", 1), ("1", 1), ("2", 1)]
    assert [group["sentences"] for group in at_most["groups"]] == [1, 2, 3]
    assert at_most["groups"][2]["bleu"] == [pytest.approx(BY_HAND)]
    # Without a source the words are those of the reference, all of them unknown.
    report = json.loads(folder.run(*arguments[:-2], "--format", "json").stdout)
    assert report["breakdowns"][0]["title"] == "unknown words in the reference"
    assert [group["label"] for group in report["breakdowns"][0]["groups"]] == ["3", "4", "5"]


def test_a_model_s_shortlists_are_for_both_sides(folder: Folder) -> None:
    model = RandomModel(folder.path / "model", ["the", "dog"], ["la", "chat"])
    arguments = ["base", "--references", "ref", "--by-unknown", str(model.path)]
    titles = [
        breakdown["title"]
        for breakdown in json.loads(
            folder.run(*arguments, "--source", "src", "--format", "json").stdout
        )["breakdowns"]
    ]
    assert [title for title in titles if not title.startswith("at most")] == [
        "unknown words in the source",
        "unknown words in the reference",
    ]
    assert "unknown words in the source" not in folder.run(*arguments).stdout


# Wrong input


def test_files_of_different_length_are_refused_naming_where_one_ends(folder: Folder) -> None:
    folder.write("base", "a\nb\n")
    result = folder.run("new", "base", "--references", "ref")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: base:2: the text ends with this line, but ref has 3 lines\n"
    folder.write("base", REFERENCE + "more\n")
    result = folder.run("base", "--references", "ref")
    assert result.stderr == "Error: ref:3: the text ends with this line, but base has 4 lines\n"
    folder.write("base", BASELINE)
    folder.write("src", "one\n")
    result = folder.run(
        *("base", "--references", "ref", "--by-length", "source", "--source", "src")
    )
    assert result.stderr == "Error: src:1: the text ends with this line, but ref has 3 lines\n"


def test_an_empty_file_is_refused(folder: Folder) -> None:
    folder.write("base", "")
    result = folder.run("base", "--references", "ref")
    expected = "Error: base: expected sentences, one per line, found an empty file\n"
    assert (result.exit_code, result.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to evaluate"),
        (["base", "--paired", "bootstrap"], "--paired requires a second file of translations"),
        (["base", "new", "--paired", "bootstrap", "--metric", "multi-bleu"], "from sacrebleu"),
        (["base", "--by-length", "source"], "requires --source"),
        (["base", "--source", "src"], "--source requires"),
        (["--lists", "n", "--by-length", "reference"], "require translations"),
        (["base", "--seed", "0"], "--seed is gone: the seed is sacrebleu's, 12345"),
        (["--lists", "n", "--command", "cat"], "require translations"),
        (["base", "--name", "COMET"], "--name requires --command"),
        (["base", "--command", "cat", "--name", "chrF2"], "another metric named 'chrF2'"),
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(
    folder: Folder, arguments: list[str], message: str
) -> None:
    check_refusal(folder.run(*arguments, "--references", "ref"), message, 2)


def test_choices_are_those_of_the_code_behind_them() -> None:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    from phrasescore.arguments import Tokenizer
    from phrasescore.workflows import evaluate

    assert set(get_args(Tokenizer)) <= set(BLEU.TOKENIZERS)
    defaults = PairedTest._DEFAULT_SAMPLES
    assert {"bootstrap": defaults["bs"], "approximate": defaults["ar"]} == evaluate.TRIALS
