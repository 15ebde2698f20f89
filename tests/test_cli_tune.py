"""``phrasescore tune`` on lists, as a user meets it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moses_integration.weights import read_weights
from phrasescore.cli import main, tune_search
from phrasescore.cli.tune_options import METHODS

# LM0 prefers what is wrong, RNN0 what is right. With the last word wrong, the precisions of each
# sentence are 4/5, 3/4, 2/3, 1/2, and BLEU is the fourth root of their product: 66.87.
NBEST = """\
0 ||| a b c d x  ||| LM0= -1 TM0= -1 -2 RNN0= -9 ||| -3
0 ||| a b c d e  ||| LM0= -3 TM0= -1 -2 RNN0= -5 ||| -4
1 ||| f g h i x  ||| LM0= -1 TM0= -1 -2 RNN0= -8 ||| -3
1 ||| f g h i j  ||| LM0= -2 TM0= -1 -2 RNN0= -4 ||| -4
2 ||| k l m n x  ||| LM0= -1 TM0= -1 -2 RNN0= -7 ||| -3
2 ||| k l m n x  ||| LM0= -1 TM0= -1 -2 RNN0= -7 ||| -3
2 ||| k l m n o  ||| LM0= -4 TM0= -1 -2 RNN0= -3 ||| -4
"""
REFERENCES = "a b c d e\nf g h i j\nk l m n o\n"
WEIGHTS = "LM0= 1\nTM0= 0.5\nTM0= 0.5\nRNN0= 0\n"
INI = """\
# kept
[feature]
UnknownWordPenalty
KENLM name=LM0 path=lm order=3
PhraseDictionaryMemory name=TM0 num-features=2 path=table
[weight]
UnknownWordPenalty0= 1
LM0= 1
TM0= 0.5 0.5
"""
FEATURES = """\
FEATURES_TXT_BEGIN_0 0 2 2 LM0_0 RNN0_0
-1 -9
-3 -5
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 1 2 2 LM0_0 RNN0_0
-1 -8
-2 -4
FEATURES_TXT_END_0
"""
SCORES = """\
SCORES_TXT_BEGIN_0 0 2 9 BLEU
4 5 3 4 2 3 1 2 5
5 5 4 4 3 3 2 2 5
SCORES_TXT_END_0
SCORES_TXT_BEGIN_0 1 2 9 BLEU
4 5 3 4 2 3 1 2 5
5 5 4 4 3 3 2 2 5
SCORES_TXT_END_0
"""


class Folder:
    """A folder with a list, references and weights, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        texts = {
            "nbest": NBEST,
            "reference": REFERENCES,
            "weights": WEIGHTS,
            "moses.ini": INI,
            "features": FEATURES,
            "scores": SCORES,
            "init.opt": "1 0\n",
        }
        for name, text in texts.items():
            (path / name).write_text(text)

    def call(self, *options: str, quiet: bool = False) -> Result:
        arguments = ["tune", *options, "--threads", "1"]
        return CliRunner().invoke(main, ["-q", *arguments] if quiet else arguments)

    def run(self, *options: str, nbest: tuple[str, ...] = ("nbest",)) -> Result:
        usual = [*nbest, "--references", "reference"]
        if not any(option in ("--moses-ini", "--weights") for option in options):
            usual += ["--weights", "weights"]
        return self.call(*usual, *options)

    def refusal(self, *options: str, nbest: tuple[str, ...] = ("nbest",)) -> str:
        """Return the message of a run that must fail with one line, and write nothing."""
        output = self.path / "refused"
        result = self.run("-o", str(output), *options, nbest=nbest)
        assert result.exit_code == 1, result.output
        assert not output.exists()
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error")]
        return line.removeprefix("Error: ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_raises_bleu(folder: Folder, method: str) -> None:
    result = folder.run("--method", method, "-o", "out")
    assert result.exit_code == 0, result.output
    metric, score = result.stderr.splitlines()[-1].removeprefix("phrasescore: ").split()
    assert metric == "BLEU"
    assert float(score) > 66.87
    assert read_weights("out")["RNN0"][0] > 0


@pytest.mark.parametrize("method", ["mert", "pro", "xbleu"])
def test_the_weights_found_choose_what_is_right(folder: Folder, method: str) -> None:
    result = folder.run("--method", method, "-o", "out")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1] == "phrasescore: BLEU 100.00"
    assert result.stdout == ""
    weights = read_weights("out")
    assert list(weights) == ["LM0", "TM0", "RNN0"]
    # 4 times RNN0 is more than 1, 2 or 3 times LM0; TM0 is constant and keeps its weights.
    assert all(4 * weights["RNN0"][0] > times * weights["LM0"][0] for times in (2, 1, 3))
    assert weights["TM0"] == (0.5, 0.5)


def test_methods_of_the_command_are_those_of_the_tuner() -> None:
    from tuning import methods

    assert sorted(methods.METHODS) == sorted(METHODS)


def test_rerank_takes_the_weights_as_they_are(folder: Folder) -> None:
    assert folder.run("-o", "out").exit_code == 0
    result = CliRunner().invoke(main, ["-q", "rerank", "nbest", "--weights", "out"])
    assert (result.exit_code, result.stdout) == (0, REFERENCES)


def test_the_same_seed_gives_the_same_bytes(folder: Folder) -> None:
    found = [folder.run("--seed", seed).stdout for seed in ("7", "7")]
    assert found[0] == found[1] != ""


def test_the_dev_score_reached_is_the_one_that_evaluate_measures(folder: Folder) -> None:
    (folder.path / "weights").write_text("LM0= 1\nTM0= 1\nTM0= 1\nRNN0= 0\n")
    # Only RNN0 can choose otherwise, and it may not.
    result = folder.run("--fix", "RNN0", "--fix", "LM0", "-o", "out")
    assert result.stderr.splitlines()[-1] == "phrasescore: BLEU 66.87"
    CliRunner().invoke(main, ["-q", "rerank", "nbest", "--weights", "out", "-o", "best"])
    options = ["--references", "reference", "--metric", "multi-bleu"]
    measured = CliRunner().invoke(main, ["evaluate", "best", *options])
    assert measured.stdout.startswith("BLEU = 66.87, ")


def test_fixed_weights_stay_and_may_be_single_values(folder: Folder) -> None:
    varied = NBEST.replace("e  ||| LM0= -3 TM0= -1", "e  ||| LM0= -3 TM0= -4")
    (folder.path / "nbest").write_text(varied)
    assert folder.run("--fix", "LM0", "--fix", "TM0_0", "-o", "out").exit_code == 0
    weights = read_weights("out")
    assert (weights["LM0"], weights["TM0"][0]) == ((1.0,), 0.5)
    assert folder.refusal("--fix", "TM1").startswith("--fix TM1: there is no such feature; there")


def test_several_lists_are_pooled(folder: Folder) -> None:
    lines = NBEST.splitlines(keepends=True)
    (folder.path / "one").write_text(lines[0] + lines[2] + lines[4])
    (folder.path / "two").write_text(lines[1] + lines[3] + lines[6])
    result = folder.run("-o", "out", nbest=("one", "two"))
    assert result.exit_code == 0, result.output
    assert "phrasescore: 3 sentences, 6 hypotheses, 4 weights\n" in result.stderr
    assert result.stderr.endswith("BLEU 100.00\n")


def test_moses_ini_gets_the_weights_of_its_features_and_keeps_the_others(folder: Folder) -> None:
    result = folder.run("--moses-ini", "moses.ini", "--moses-ini-out", "tuned.ini", "-o", "out")
    assert result.exit_code == 0, result.output
    weights = read_weights("out")
    text = (folder.path / "tuned.ini").read_text()
    head, _, lines = text.partition("[weight]\n")
    assert head == INI.partition("[weight]\n")[0]
    assert lines.startswith("UnknownWordPenalty0= 1\nLM0= ")
    assert read_weights("tuned.ini")["LM0"] == pytest.approx(weights["LM0"])
    assert "from 0: RNN0" in result.stderr
    assert "moses.ini has no features for these weights: RNN0" in result.stderr


def test_weights_of_no_feature_are_named_and_left_out(folder: Folder) -> None:
    (folder.path / "weights").write_text(WEIGHTS + "Gone0= 1\n")
    result = folder.run("-o", "out")
    assert "warning: no list has these features of weights: Gone0" in result.stderr
    assert "Gone0" not in read_weights("out")


def test_what_the_extractor_wrote_is_tuned_on(folder: Folder) -> None:
    extracted = ["--features", "features", "--scores", "scores", "-o", "out"]
    (folder.path / "two").write_text("LM0= 1\nRNN0= 0\n")
    for start in (["--ifile", "init.opt"], ["--weights", "two"]):
        result = folder.call(*extracted, *start)
        assert result.exit_code == 0, result.output
        assert result.stderr.endswith("phrasescore: BLEU 100.00\n")
        assert list(read_weights("out")) == ["LM0", "RNN0"]


def test_the_pool_is_written_as_the_extractor_would(folder: Folder) -> None:
    extracted = ["--features", "features", "--scores", "scores", "--ifile", "init.opt"]
    out = ["-o", "out", "--features-out", "f", "--scores-out", "s", "--ifile-out", "i"]
    assert folder.call(*extracted, *out).exit_code == 0
    for name, text in (("f", FEATURES), ("s", SCORES)):
        lines = (folder.path / name).read_text().splitlines()
        assert [line.rstrip() for line in lines] == text.splitlines()
    first = (folder.path / "i").read_text().splitlines()[0].split()
    weights = [value for values in read_weights("out").values() for value in values]
    assert list(map(float, first)) == pytest.approx(weights)
    again = folder.call("--features", "f", "--scores", "s", "--ifile", "i", "-o", "out")
    assert again.exit_code == 0, again.output


def test_chrf_and_its_mean_with_bleu_are_metrics_too(folder: Folder) -> None:
    found = folder.run("--metric", "chrf", "-o", "out").stderr.splitlines()[-1]
    assert found == "phrasescore: chrF2 100.00"
    both = ["--metric", "bleu=3", "--metric", "chrf"]
    found = folder.run(*both, "-o", "out").stderr.splitlines()[-1]
    assert found == "phrasescore: 0.75 BLEU + 0.25 chrF2 100.00"


def test_the_report_says_of_each_feature_what_it_has_and_gives(folder: Folder) -> None:
    assert folder.run("-o", "out", "--report", "report", "--format", "json").exit_code == 0
    report = json.loads((folder.path / "report").read_text())
    assert (report["method"], report["metric"], report["seed"]) == ("mert", "BLEU", 1)
    assert (report["sentences"], report["hypotheses"]) == (3, 6)
    assert report["start"] == pytest.approx(66.874, abs=1e-3)
    assert report["reached"] == pytest.approx(100)
    rows = {row["name"]: row for row in report["features"]}
    assert list(rows) == ["LM0_0", "TM0_0", "TM0_1", "RNN0_0"]
    weights = read_weights("out")
    assert rows["RNN0_0"]["weight"] == weights["RNN0"][0]
    assert rows["LM0_0"]["start"] == 1
    assert rows["TM0_0"]["left_out"] == pytest.approx(100)
    assert rows["TM0_0"]["contribution"] == 0
    assert rows["RNN0_0"]["contribution"] > 0
    assert sum(row["share"] for row in report["features"]) == pytest.approx(1)
    assert folder.run("-o", "out", "--report", "report").exit_code == 0
    text = (folder.path / "report").read_text()
    assert text.startswith("mert, seed 1: BLEU 66.87 -> 100.00\n3 sentences, 6 hypotheses\n")
    assert "BLEU without" in text


def test_replicas_are_reported_with_their_spread_and_averaged(folder: Folder) -> None:
    single = []
    for seed in ("3", "4", "5"):
        assert folder.run("--seed", seed, "-o", "one").exit_code == 0
        single.append(read_weights("one"))
    options = ["--seed", "3", "--replicas", "3", "-o", "out", "--report", "report"]
    result = folder.run(*options, "--format", "json")
    assert result.exit_code == 0, result.output
    line = "3 replicas: mean 100.00 ± 0.00, average of the weights 100.00"
    assert f"phrasescore: {line}\n" in result.stderr
    for name, values in read_weights("out").items():
        mean = sum(weights[name][0] for weights in single) / 3
        assert values[0] == pytest.approx(mean)
    report = json.loads((folder.path / "report").read_text())
    assert [row["seed"] for row in report["replicas"]] == [3, 4, 5]
    assert [row["score"] for row in report["replicas"]] == pytest.approx([100] * 3)
    assert line in report["notes"]


def test_methods_are_compared_on_sentences_that_they_were_not_tuned_on(folder: Folder) -> None:
    options = ["--cross-validate", "3", "-o", "out", "--report", "report"]
    result = folder.run(*options, "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads((folder.path / "report").read_text())["cross_validation"]
    assert [row["method"] for row in rows] == ["start", *METHODS]
    assert rows[0]["held_out"] == pytest.approx(66.874, abs=1e-3)
    assert "cross-validation: mert: 100.00 where tuned, " in result.stderr
    assert folder.run(*options).exit_code == 0
    assert "held out" in (folder.path / "report").read_text()
    assert folder.refusal("--cross-validate", "4").startswith("cross-validation: expected 2 to 3")


def test_references_may_be_numbered_as_for_mert_moses(folder: Folder) -> None:
    (folder.path / "reference").rename("reference0")
    (folder.path / "reference1").write_text("z z z z x\n" * 3)
    result = folder.run("--refs", "nothing", "-o", "out")
    assert result.exit_code == 1
    assert folder.run("-o", "out").stderr.endswith("phrasescore: BLEU 100.00\n")


# What is wrong with the input


def test_a_sentence_without_hypotheses_is_refused(folder: Folder) -> None:
    lines = NBEST.splitlines(keepends=True)
    (folder.path / "nbest").write_text("".join(lines[:2] + lines[4:]))
    assert folder.refusal() == "nbest:3: expected id 1, found 2: a sentence has no hypotheses"
    (folder.path / "nbest").write_text("".join(lines[:4]))
    assert folder.refusal().startswith("nbest: expected lists of 3 sentences, as there are refer")


def test_references_that_do_not_match_in_number_are_refused(folder: Folder) -> None:
    (folder.path / "reference").write_text("a b c d e\nf g h i j\n")
    assert folder.refusal() == "nbest:5: id 2 is beyond the references, which have 2 lines"
    (folder.path / "second").write_text("a\n")
    assert folder.refusal("--references", "second").startswith("second:1: the file ends with this")


def test_a_feature_that_some_hypotheses_lack_is_refused(folder: Folder) -> None:
    (folder.path / "nbest").write_text(NBEST.replace(" RNN0= -4", ""))
    problem = "nbest:4: this hypothesis lacks the feature RNN0, which earlier ones have"
    assert folder.refusal() == problem


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_a_value_that_is_no_finite_number_is_refused(folder: Folder, value: str) -> None:
    (folder.path / "nbest").write_text(NBEST.replace("RNN0= -4", f"RNN0= {value}"))
    assert folder.refusal() == f"nbest:4: expected a number, found b'{value}'"


def test_names_with_blanks_or_equals_signs_are_refused(folder: Folder) -> None:
    (folder.path / "nbest").write_text(NBEST.replace("LM0=", "L=M="))
    assert "nbest:1: expected the name of a feature without blanks, '='" in folder.refusal()
    (folder.path / "nbest").write_text(NBEST.replace("LM0=", "My LM0="))
    assert "nbest:1: expected the name of a feature, as 'LM0=', found b'My'" in folder.refusal()


def test_dense_and_sparse_features_may_be_mixed(folder: Folder) -> None:
    (folder.path / "nbest").write_text(NBEST.replace("o  ||| ", "o  ||| WT_o= 1 "))
    result = folder.run("-o", "out")
    assert result.exit_code == 0, result.output
    assert set(read_weights("out")) == {"LM0", "TM0", "RNN0", "WT_o"}
    (folder.path / "nbest").write_text(NBEST.replace("o  ||| ", "o  ||| WT_o= 1 2 "))
    assert "nbest:7: the feature WT_o has '_' in its name" in folder.refusal()


def test_weights_that_are_not_one_a_value_are_refused(folder: Folder) -> None:
    (folder.path / "weights").write_text(WEIGHTS + "RNN0= 1\n")
    assert folder.refusal() == "weights: expected 1 weights of RNN0, as there are values, found 2"


def test_start_weights_that_are_all_zero_are_refused(folder: Folder) -> None:
    (folder.path / "weights").write_text("LM0= 0\nTM0= 0\nTM0= 0\nRNN0= 0\n")
    assert folder.refusal() == "expected start weights that are not all zero"


def unchanged(folder: Folder, reason: str, bleu: str, nbest: str, references: str) -> None:
    """Check that the start weights are kept, and that it is said why."""
    (folder.path / "nbest").write_text(nbest)
    (folder.path / "reference").write_text(references)
    result = folder.run("-o", "out")
    assert result.exit_code == 0, result.output
    assert reason in result.stderr
    assert result.stderr.endswith(f"phrasescore: BLEU {bleu}\n")
    assert read_weights("out") == {"LM0": (1.0,), "TM0": (0.5, 0.5), "RNN0": (0.0,)}


def test_one_sentence_only_is_said_and_keeps_the_weights(folder: Folder) -> None:
    first = "".join(NBEST.splitlines(keepends=True)[:2])
    unchanged(folder, "only one segment: the weights stay", "66.87", first, "a b c d e\n")


def test_hypotheses_all_alike_are_said_and_keep_the_weights(folder: Folder) -> None:
    line = "{} ||| a b c d  ||| LM0= -1 TM0= -1 -2 RNN0= -9 ||| -3\n"
    alike = "".join(line.format(number) * 3 for number in range(3))
    # Of 12 1-grams 4 match, of 9, 6 and 3 longer ones 3, 2 and 1; 12 words for 15.
    unchanged(folder, "all alike: the weights stay", "25.96", alike, REFERENCES)


def test_bleu_0_everywhere_is_said_and_keeps_the_weights(folder: Folder) -> None:
    nothing = "z z z z z\n" * 3
    unchanged(folder, "BLEU is 0 with all weights tried: the weights stay", "0.00", NBEST, nothing)


def test_a_full_disk_leaves_no_file(folder: Folder) -> None:
    result = folder.run("-o", "/dev/full")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(
        "Error: /dev/full: cannot write: No space left"
    )


# The user


def test_ctrl_c_writes_the_best_weights_so_far(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    from tuning.methods import StopTuning, load_method

    calls = []

    def load(name: str):  # type: ignore[no-untyped-def]
        optimise = load_method(name)

        def interrupted(pool, metric, start, settings, *, seed, report):  # type: ignore[no-untyped-def]
            found = optimise(pool, metric, start, settings, seed=seed)
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(StopTuning):
                report("half way")
            calls.append(seed)
            return found

        return interrupted

    monkeypatch.setattr(tune_search, "load_method", load)
    result = folder.run("-o", "out")
    assert (result.exit_code, calls) == (130, [1])
    assert result.stderr.endswith("phrasescore: BLEU 100.00\nphrasescore: interrupted\n")
    assert read_weights("out")["RNN0"][0] > 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "give one of NBEST, --features with --scores, and --decoder"),
        (["nbest", "--decoder", "x"], "give one of NBEST, --features with --scores, and --deco"),
        (["nbest"], "--references is needed"),
        (["nbest", "--references", "reference"], "the weights that the lists were made with are"),
        (["--features", "features"], "--features and --scores come in pairs"),
        (["--features", "features", "--scores", "scores"], "the weights that the lists were mad"),
        (
            ["--features", "features", "--scores", "scores", "--references", "reference"],
            "--references goes with NBEST",
        ),
        (
            ["--features", "features", "--scores", "scores", "--metric", "chrf"],
            "--metric and --reference-length go with NBEST",
        ),
        (["nbest", "--references", "reference", "--ifile", "init.opt"], "--ifile goes with --feat"),
        (["nbest", "--references", "reference", "--weights", "weights", "--resume"], "--source,"),
        (["nbest", "--metric", "ter"], "expected bleu or chrf once, or bleu=WEIGHT, got 'ter'"),
        (["nbest", "--metric", "bleu=0"], "expected bleu or chrf once, or bleu=WEIGHT, got 'bl"),
        (["nbest", "--metric", "bleu", "--metric", "bleu=2"], "expected bleu or chrf once"),
        (["--decoder", "moses", "--references", "reference"], "--decoder needs --source"),
        (
            ["--decoder", "moses", "--references", "-", "--source", "reference"],
            "cannot be stdin with --decoder: they are read more than once",
        ),
        (
            ["nbest", "--references", "reference", "--weights", "weights", "--moses-ini-out", "x"],
            "--moses-ini-out needs the --moses-ini to change",
        ),
        (["-", "--references", "-", "--weights", "weights"], "only one of the files can be stdin"),
        (
            ["nbest", "--references", "reference", "--weights", "weights", "--report", "-"],
            "only one of the files that are written can be stdout",
        ),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command_line(
    folder: Folder, options: list[str], problem: str
) -> None:
    result = folder.call(*options)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


def test_no_input_is_overwritten(folder: Folder) -> None:
    for name in ("nbest", "weights", "reference"):
        result = folder.run("-o", name)
        assert result.exit_code == 1
        assert f"{name}: would overwrite another file" in result.stderr
    assert (folder.path / "nbest").read_text() == NBEST


@pytest.mark.slow
def test_real_files_of_the_extractor_reach_more_than_mosess_mert(
    shared_data: Path, tmp_path: Path
) -> None:
    # shared/data/README.md: Moses' mert, from the same start with 20 random starts, reached 56.95.
    files = shared_data / "mert"
    extracted = ["--features", str(files / "features.dat.gz")]
    extracted += ["--scores", str(files / "scores.dat.gz"), "--starts", "3"]
    start = ["--ifile", str(files / "init.default.opt"), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["tune", *extracted, *start])
    assert result.exit_code == 0, result.output
    assert float(result.stderr.split()[-1]) >= 56.95
