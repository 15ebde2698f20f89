"""A language model on the command line: ``train cslm``, ``perplexity``, ``rescore``, ``show``."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from phrasescore.features.model import Network
from phrasescore.models.checkpoint import load_checkpoint
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.doubles import RandomCslm, RandomJoint, RandomModel
from tests.reference_cslm import logits, word_log_probs

TINY = [
    "--set=model.embedding_size=3",
    "--set=model.hidden_size=5",
    "--set=model.upper_size=4",
    "--set=training.batch_size=4",
    "--set=training.validation_share=0.2",
    "--threads=1",
    "--device=cpu",
]
# p(<unk>) = 0.1, p(</s>) = 0.3, p(a) = 0.4, p(b) = 0.2, whatever the context.
LM = """\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
-1\t<unk>
-99\t<s>
-0.5228787\t</s>
-0.39794\ta\t0
-0.69897\tb

\\2-grams:
-0.69897\ta b

\\end\\
"""


@pytest.fixture(name="text")
def written_text(tmp_path: Path) -> Path:
    path = tmp_path / "train.fr"
    path.write_text("".join(f"un chien {'blanc ' * (i % 3)}dort\n" for i in range(30)) + "\n")
    return path


@pytest.fixture(name="lm")
def written_lm(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(LM)
    return path


@pytest.fixture(name="model")
def random_model(tmp_path: Path) -> RandomCslm:
    return RandomCslm(["a", "c"], order=3, path=tmp_path / "model")


def test_one_text_becomes_a_model_that_show_tells_of(text: Path, tmp_path: Path) -> None:
    result = succeeded(run("train", "cslm", text, "-o", tmp_path / "model", "--updates", 9, *TINY))
    # Sentences that come again count again, and the empty line is one of no words.
    assert "6 held out; the vocabulary covers all words; " in result.stderr
    checkpoint = load_checkpoint(tmp_path / "model")
    assert (checkpoint.config.kind, checkpoint.config.model.dropout) == ("cslm", 0.2)
    assert len(checkpoint.source_vocabulary) == 2
    assert "chien" in checkpoint.target_vocabulary
    shown = run("show", tmp_path / "model").stdout
    assert "p(word | the words before it)" in shown
    line = "predicts a text: shortlist of 4 words, 100.00% of the training data's"
    assert line in " ".join(shown.split())
    assert "25 for training (0 duplicates, 0 too long)" in shown


def test_several_texts_are_learned_as_one(text: Path, tmp_path: Path) -> None:
    lines = text.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / "one", tmp_path / "two"]
    parts[0].write_bytes(b"".join(lines[:20]).removesuffix(b"\n"))
    parts[1].write_bytes(b"".join(lines[20:]))
    models = [tmp_path / "whole", tmp_path / "parts"]
    for inputs, model in zip(([text], parts), models, strict=True):
        succeeded(run("train", "cslm", *inputs, "-o", model, "--updates", 9, *TINY, "--keep-work"))
    further = ("-o", models[1], "--updates", 12, "--resume")
    check_refusal(run("train", "cslm", *parts[::-1], *further), "not the text that the run in")
    succeeded(run("train", "cslm", *parts, *further, "--threads=1", "--device=cpu"))
    succeeded(run("train", "cslm", text, "-o", models[0], "--updates", 12, *TINY, "--resume"))
    one, other = ((model / "model.safetensors").read_bytes() for model in models)
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.fr", "--reverse"], "reads no source"),
        (["train.fr", "--right-to-left"], "--right-to-left: cslm predicts from left to right"),
    ],
)
def test_a_language_model_has_no_source(
    arguments: list[str], message: str, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text.parent)
    check_refusal(run("train", "cslm", "-o", "model", *arguments), message, 2)


def test_perplexities_of_a_network_and_an_n_gram_model(
    model: RandomCslm, lm: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("a b\nc a\n")
    command = ["perplexity", text, "--model", tmp_path / "model", "--lm", lm]
    result = succeeded(run(*command, "--format", "json", "--device", "cpu"))
    (found,) = json.loads(result.stdout)
    assert (found["sentences"], found["models"][0]["tokens"]) == (2, 6)
    ngrams, alone, _ = found["models"]
    # a b </s> <unk> a </s>
    p = [0.4, 0.2, 0.3, 0.1, 0.4, 0.3]
    assert ngrams["including_unknown"] == pytest.approx(math.prod(p) ** (-1 / 6), rel=1e-5)
    known = math.prod(p) / 0.1
    assert ngrams["excluding_unknown"] == pytest.approx(known ** (-1 / 5), rel=1e-5)
    # The network knows a and c: b is <unk>.
    log_probs = [
        *word_log_probs(model.parameters, 3, [2, 1]),
        *word_log_probs(model.parameters, 3, [3, 2]),
    ]
    assert alone["including_unknown"] == pytest.approx(math.exp(-sum(log_probs) / 6), rel=1e-5)
    assert [row["unknown"] for row in found["models"]] == [1, 1, 1]
    shown = run(*command, "--device", "cpu").stdout.splitlines()
    assert shown[0] == f"{text}: 2 sentences, 6 tokens (words and </s>)"
    assert shown[2].split() == ["lm.arpa", "1", "3.8914", "3.2220"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "nothing to measure"),
        (["--lm", "text"], 1, "text:1: expected an ARPA file"),
        (["--model", "pairs"], 1, "use `score` for networks that read a source"),
        (["--model", "joint"], 1, "use `rescore` for networks that read a source"),
        (["--lm", "lm.arpa", "empty"], 1, "empty: expected a tokenised text, found no word"),
    ],
)
def test_perplexity_refuses_what_it_cannot_measure(
    arguments: list[str],
    code: int,
    message: str,
    lm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(lm.parent)
    (tmp_path / "text").write_text("a b\n")
    (tmp_path / "empty").write_text("\n")
    RandomModel(tmp_path / "pairs", ["a"], ["b"])
    RandomJoint(["a"], ["b"], path=tmp_path / "joint")
    check_refusal(run("perplexity", "text", "--device", "cpu", *arguments), message, code)


@pytest.fixture(name="nbest")
def written_nbest(tmp_path: Path) -> Path:
    (tmp_path / "source").write_text("x y\n")
    path = tmp_path / "nbest"
    path.write_text("0 ||| a b  ||| LM0= -1 ||| -1\n0 ||| a  ||| LM0= -2 ||| -2\n")
    return path


def features(output: str) -> list[dict[str, float]]:
    found = []
    for line in output.splitlines():
        words = line.split(" ||| ")[2].split()
        found.append({words[i][:-1]: float(words[i + 1]) for i in range(0, len(words), 2)})
    return found


def test_rescore_takes_a_language_model_beside_other_kinds(
    model: RandomCslm, nbest: Path, tmp_path: Path
) -> None:
    RandomModel(tmp_path / "pairs", ["x"], ["a"])
    command = ["rescore", nbest, "--source", tmp_path / "source", "--device", "cpu"]
    models = ["--model", tmp_path / "pairs", "--model", tmp_path / "model"]
    result = succeeded(run(*command, *models))
    first, second = features(result.stdout)
    assert list(first) == ["LM0", "EncoderDecoder0", "CSLM0"]
    expected = [sum(word_log_probs(model.parameters, 3, ids)) for ids in ([2, 1], [2])]
    assert first["CSLM0"] == pytest.approx(expected[0], abs=1e-5)
    assert second["CSLM0"] == pytest.approx(expected[1], abs=1e-5)


def test_rescore_backs_off_or_leaves_log_z_out(
    model: RandomCslm, nbest: Path, lm: Path, tmp_path: Path
) -> None:
    command = ["rescore", nbest, "--source", tmp_path / "source", "--device", "cpu"]
    folder = str(tmp_path / "model")
    backed_off, raw = Network(folder, backoff_lm=str(lm)), Network(folder, unnormalized=True)
    found = []
    for column in (Network(folder), backed_off, raw):
        result = succeeded(run(*command, *column_options(column)))
        found.append([row["CSLM0"] for row in features(result.stdout)])
        assert ("was trained without self_normalization" in result.stderr) == (len(found) == 3)
    assert len({tuple(row) for row in found}) == 3
    # Of "a </s>" both are in both vocabularies, which share 0.7 of the n-gram model's mass (b has
    # 0.2 and <unk> 0.1), and the network's is divided among them alone.
    scores = [logits(model.parameters, context) for context in ([0, 0], [0, 2])]
    shares = [
        values[word] - np.log(np.exp(values[[0, 2]]).sum())
        for values, word in zip(scores, (2, 0), strict=True)
    ]
    assert found[1][1] == pytest.approx(sum(shares) + 2 * math.log(0.7), abs=1e-5)
    both = Network(folder, backoff_lm=str(lm), unnormalized=True)
    problem = "backoff_lm cannot be used with unnormalized"
    check_refusal(run(*command, *column_options(both)), problem, 2)
    RandomModel(tmp_path / "pairs", ["x"], ["a"])
    pairs = Network(str(tmp_path / "pairs"), backoff_lm=str(lm))
    problem = "backoff_lm requires a model of the kind cslm"
    check_refusal(run(*command, *column_options(pairs)), problem, 2)


def test_a_phrase_table_has_no_column_of_a_language_model(
    model: RandomCslm, tiny_table: Path, tmp_path: Path
) -> None:
    assert model.checkpoint.config.kind == "cslm"
    annotated = run("annotate", tiny_table, "--model", tmp_path / "model", "-o", tmp_path / "out")
    assert annotated.exit_code == 1
    problem = f"{tmp_path / 'model'}: a model of the kind cslm does not score phrase pairs; use it"
    assert problem in annotated.stderr
    assert not (tmp_path / "out").exists()
