"""``phrasescore generate``: translations, n-best lists and samples."""

import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from phrasescore.generation.beam_search import BeamSettings, beam_search
from phrasescore.generation.generator import Generated, Generator
from phrasescore.generation.sampling import SampleSettings, count_samples, sample_targets
from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
TEXT = "u v\n\nw  w u\nnowhere v\n"
SOURCES = [("u", "v"), ("w", "w", "u"), ("nowhere", "v")]


def run(*arguments: object, stdin: str = "") -> Result:
    text = [str(argument) for argument in arguments]
    return CliRunner().invoke(main, ["generate", *text, "--threads", "1"], input=stdin)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An RNN Encoder-Decoder with random weights."""
    return RandomModel(tmp_path / "model", "uvw", "abcd", seed=6).path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text(TEXT)
    return path


def make_rnnsearch(path: Path, *, seed: int = 0, max_length: int = 100) -> Path:
    save_checkpoint(
        path, RandomNetwork("rnnsearch", "uvw", "abcd", seed=seed, max_length=max_length).checkpoint
    )
    return path


# Translations


def test_a_text_of_another_language_is_warned_of(model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("das haus u\n" * 9)
    result = succeeded(run(model, tmp_path / "text", "--beam", 1, "-o", tmp_path / "out"))
    problem = f"18 of 27 counted words are unknown to {model}, such as "
    assert f"warning: {tmp_path / 'text'}: {problem}'das', 'haus': is it in" in result.stderr
    assert "18 of 27 source words, in 9 lines, are unknown to a network" in result.stderr


def test_the_best_of_each_line_is_written_and_an_empty_line_stays_empty(
    model: Path, text: Path, tmp_path: Path
) -> None:
    result = run(model, text, "--beam", 3, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    generator = Generator([load_checkpoint(model)], CPU)
    best = [found[0] for found in beam_search(generator, SOURCES, BeamSettings(3))]
    first, second, third = (" ".join(target.words) for target in best)
    assert (tmp_path / "out").read_text() == f"{first}\n\n{second}\n{third}\n"
    assert "4 sentences" in result.stderr
    assert "1 of 7 source words, in 4 lines, are unknown to a network" in result.stderr
    assert "is it in the model's language" not in result.stderr
    unknown = sum(target.unknown_words for target in best)
    assert (f"warning: {unknown} <unk> predicted, written as such" in result.stderr) == (
        unknown > 0
    )


def test_the_text_may_come_from_stdin_and_go_to_stdout(model: Path, text: Path) -> None:
    wanted = run(model, text).stdout
    assert wanted.count("\n") == 4
    assert run(model, stdin=TEXT).stdout == wanted
    assert run(model, "-", stdin=TEXT).stdout == wanted


@pytest.mark.parametrize("normalize", [False, True])
def test_an_nbest_list_is_as_moses_has_it(
    model: Path, text: Path, tmp_path: Path, normalize: bool
) -> None:
    nbest = tmp_path / "nbest.gz"
    flags = ["--normalize"] if normalize else []
    result = succeeded(
        run(model, text, "--nbest", nbest, "--nbest-size", 5, "--no-unknown", *flags)
    )
    lists = list(read_nbest(str(nbest)))
    assert [item.id for item in lists] == [0, 1, 2, 3]
    settings = BeamSettings(10, 5, normalize=normalize, unknown=False)
    generator = Generator([load_checkpoint(model)], CPU)
    found = beam_search(generator, SOURCES, settings)
    for item, targets in zip([lists[0], lists[2], lists[3]], found, strict=True):
        words = item.distinct()
        assert [words[hypothesis] for hypothesis in item.hypotheses] == [
            target.words for target in targets
        ]
        for raw, target in zip(item.raws, targets, strict=True):
            score = target.log_prob / (len(target.words) + 1 if normalize else 1)
            shown = f"EncoderDecoder0= {target.log_prob:.7g}"
            shown += f" EncoderDecoder0Norm= {score:.7g}" if normalize else ""
            assert raw.decode().endswith(f" ||| {shown} ||| {score:.7g}")
    assert lists[1].raws[0].startswith(b"1 |||   ||| EncoderDecoder0= 0")
    # The first line of each is the translation.
    firsts = [" ".join(item.distinct()[item.hypotheses[0]]) for item in lists]
    assert result.stdout == "".join(f"{line}\n" for line in firsts)


def test_sentences_beyond_the_training_and_without_an_end_are_reported(tmp_path: Path) -> None:
    model = make_rnnsearch(tmp_path / "model", max_length=3, seed=3)
    long = "u v w u v w"
    result = succeeded(
        run(model, "--beam", 1, "--max-length", 1, stdin=f"{long}\n" * 7 + "u v w\n")
    )
    assert "warning: 7 lines are longer than the longest in training (3 words)" in result.stderr
    assert "the longest has 6" in result.stderr
    cut = [len(line.split()) for line in result.stdout.splitlines()]
    assert len(cut) == 8
    assert "translations did not end and are truncated at the maximum length (--max-length)"
    assert "the first in line 1" in result.stderr


def test_unknown_words_are_counted_in_what_is_written_and_not_in_the_rest_of_a_list(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Generated(("a",), -1.0), Generated(("<unk>",), -2.0)]
    monkeypatch.setattr(
        "phrasescore.generation.generator.TargetWork.targets",
        lambda _, sources, __: [found for _ in sources],
    )
    result = run(model, "--nbest", tmp_path / "nbest", "--nbest-size", 2, stdin="u\n")
    assert (result.exit_code, result.stdout) == (0, "a\n")
    assert "<unk> predicted" not in result.stderr


def test_a_reverse_model_says_which_side_it_writes(tmp_path: Path) -> None:
    # Its shortlists: of the table's source u v w, of its target a b.
    model = RandomModel(tmp_path / "model", "uvw", "ab", reverse=True).path
    result = succeeded(run(model, "--no-unknown", stdin="a b\n"))
    assert "reads the target side, and writes the source side" in result.stderr
    assert set(result.stdout.split()) <= set("uvw")


@pytest.mark.parametrize(
    ("options", "line"),
    [(["--beam=1", "--nbest", "nb", "--nbest-size", 1], 1), (["--sample", 2], 2)],
)
def test_a_word_that_separates_fields_is_not_written_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[object], line: int
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = RandomNetwork("rnnsearch", "uvw", ["a", "|||"], seed=1).checkpoint
    with torch.no_grad():
        checkpoint.model.get_parameter("output.bias")[3] += 3
    save_checkpoint(tmp_path / "model", checkpoint)
    check_refusal(
        run(tmp_path / "model", *options, "-o", "out", stdin="new u\n||| |||\n"),
        f"<stdin>:{line}: the word '|||' separates fields in the output; escape",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# Samples


def test_samples_are_written_as_in_table_3(model: Path) -> None:
    result = succeeded(run(model, "--sample", 50, "--seed", 9, stdin=TEXT))
    generator = Generator([load_checkpoint(model)], CPU)
    # The empty line is the second one, and has its number.
    drawn = sample_targets(generator, SOURCES, SampleSettings(50, seed=9), [0, 2, 3])
    wanted = [
        f"{' '.join(source)} ||| {' '.join(item.target.words)} ||| {item.target.log_prob:.7g} "
        f"||| {item.times}"
        for source, targets in zip(SOURCES, drawn, strict=True)
        for item in count_samples([target for target in targets if target.finished])
    ]
    assert result.stdout.splitlines() == wanted
    left_out = sum(not target.finished for targets in drawn for target in targets)
    assert (f"{left_out} samples did not end and are omitted" in result.stderr) == (left_out > 0)


def test_all_samples_are_counted_and_a_seed_gives_them_again(model: Path) -> None:
    first = run(model, "--sample", 30, stdin="u\nv\n")
    times = [int(line.split(" ||| ")[3]) for line in first.stdout.splitlines()]
    left_out = re.search(r"(\d+) samples did not end", first.stderr)
    assert sum(times) == 60 - int(left_out[1] if left_out else 0)
    assert run(model, "--sample", 30, "--seed", 1, stdin="u\nv\n").stdout == first.stdout
    assert run(model, "--sample", 30, "--seed", 2, stdin="u\nv\n").stdout != first.stdout


# What is refused


def test_an_ensemble_of_different_shortlists_is_refused(model: Path, tmp_path: Path) -> None:
    other = RandomModel(tmp_path / "other", "uvw", "abc").path
    problem = "needs models with the same shortlist, or with the same subwords; rescore accepts any"
    check_refusal(run(model, "--ensemble", other, stdin="u\n"), problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "<stdin>: expected a tokenised text, found no word"),
        ("\n\n", "<stdin>: expected a tokenised text, found no word"),
    ],
)
def test_a_text_without_words_is_refused(model: Path, text: str, problem: str) -> None:
    check_refusal(run(model, stdin=text), problem)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--beam", "0"], "--beam: expected at least 1"),
        (["--beam", "3", "--nbest", "n", "--nbest-size", "4"], "--beam: expected at least 4, for"),
        (["--nbest", "n", "--nbest-size", "0"], "'--nbest-size'"),
        (["--sample", "3", "--beam", "2"], "--beam: has no effect with --sample"),
        (["--sample", "3", "--nbest", "n", "--nbest-size", "2"], "--nbest: has no effect with"),
        (["--sample", "3", "--normalize"], "--normalize: has no effect with --sample"),
        (["--seed", "2"], "--seed: has an effect only with --sample"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    model: Path, text: Path, options: list[str], problem: str
) -> None:
    check_refusal(run(model, text, *options), problem, 2)
