"""``phrasescore generate --augment``: a phrase table with generated pairs."""

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from phrasescore.cli import main
from phrasescore.generation import beam_search as search
from phrasescore.generation.beam_search import BeamSettings, beam_search
from phrasescore.generation.generator import Generated, Generator
from phrasescore.io.resumable import work_files
from phrasescore.models.checkpoint import load_checkpoint, save_checkpoint
from phrasescore.workflows import augment as augmenter
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomModel
from tests.random_networks import RandomNetwork
from tests.table_lines import remove_scores

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
INI = """\
[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table}
[weight]
TranslationModel0= 0.2 0.2 0.2 0.2
"""


def run(*arguments: object) -> Result:
    text = [str(argument) for argument in arguments]
    return CliRunner().invoke(main, ["generate", *text, "--threads", "1"])


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "model", "uvw", "abcd", seed=8)


@pytest.fixture
def table(tmp_path: Path, model: RandomModel) -> Path:
    """A sorted table with what the network finds best for ``u``, and with an unknown word."""
    generator = Generator([load_checkpoint(model.path)], CPU)
    settings = BeamSettings(10, 3, unknown=False, max_length=7)
    (found,) = beam_search(generator, [("u",)], settings)
    best = next(target.words for target in found if target.words)
    pairs = [("u", " ".join(best)), ("u v", "d d d"), ("u v", "x"), ("w", "a"), ("z", "a")]
    lines = [
        f"{source} ||| {target} ||| 0.5 0.25 0.125 1 ||| 0-0 ||| 4 4 {count} ||| |||\n"
        for count, (source, target) in enumerate(pairs, start=1)
    ]
    path = tmp_path / "table"
    path.write_bytes(b"".join(sorted(line.encode() for line in lines)))
    return path


def read(path: Path) -> tuple[list[PhraseTableLine], list[PhraseTableLine]]:
    lines = list(read_phrase_table(str(path)))
    new = [line for line in lines if line.raw.endswith(b"{{Tree generated}}")]
    return [line for line in lines if line not in new], new


def scores(line: PhraseTableLine) -> list[float]:
    return [math.log(float(score)) for score in line.raw.split(b" ||| ")[2].split()]


def test_what_the_network_finds_and_the_table_lacks_is_added(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(model.path, "--augment", table, "-o", out, "--targets", 4)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    old, new = read(out)
    kept = b"".join(remove_scores(line.raw, 1) + line.end for line in old)
    assert kept == table.read_bytes()
    assert all(scores(line)[4] == 0 for line in old)
    sources = [("u",), ("u", "v"), ("w",)]  # the network does not know z
    generator = Generator([load_checkpoint(model.path)], CPU)
    settings = BeamSettings(10, 4, unknown=False, max_length=7)
    known = {line.pair for line in old}
    wanted = {
        (source, target.words)
        for source, targets in zip(sources, beam_search(generator, sources, settings), strict=True)
        for target in targets
        if target.finished and target.words and (source, target.words) not in known
    }
    assert {(line.pair.source, line.pair.target) for line in new} == wanted
    assert 3 <= len(new) == len(wanted)
    assert ("u",) in {source for source, _ in wanted}
    for line in new:
        log_prob = model.log_prob(line.pair.source, line.pair.target)
        floor = math.log(1e-7)
        expected = [floor, floor, log_prob, log_prob, 1.0]
        assert scores(line) == pytest.approx(expected, abs=1e-5)
    tool = ["sort", "-c", str(out)]
    assert subprocess.run(tool, env={"LC_ALL": "C"}, check=False).returncode == 0
    assert "targets generated for 3 of 4 sources; 1 skipped because of unknown" in result.stderr
    assert f"{len(new)} new pairs" in result.stderr
    assert "no --reverse-model: new pairs have 1e-07" in result.stderr


def test_reverse_model_and_lexicons_fill_their_columns(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    reverse = RandomModel(tmp_path / "reverse", "uvw", "abcd", seed=9, reverse=True)
    (tmp_path / "lex.f2e").write_text("a u 0.5\na NULL 0.25\n")
    (tmp_path / "lex.e2f").write_text("u a 0.125\n")
    out = tmp_path / "out"
    options = ["--reverse-model", reverse.path, "--no-indicator", "--targets", 5]
    result = succeeded(run(model.path, "--augment", table, "-o", out, *options))
    assert "warning" not in result.stderr
    old, new = read(out)
    assert b"".join(line.raw + line.end for line in old) == table.read_bytes()
    assert new
    for line in new:
        back, forward = (network.log_prob(*line.pair) for network in (reverse, model))
        assert scores(line) == pytest.approx([back, back, forward, forward], abs=1e-5)
    lexicons = ["--lexicon", tmp_path / "lex.f2e", "--reverse-lexicon", tmp_path / "lex.e2f"]
    assert run(model.path, "--augment", table, "-o", out, *options, *lexicons).exit_code == 0
    for line in read(out)[1]:
        # IBM Model 1, by hand; 1e-7 is the least of a word.
        source, target = line.pair
        lex = [
            max((0.25 + 0.5 * source.count("u")) * (word == "a") / (len(source) + 1), 1e-7)
            for word in target
        ]
        back_lex = [
            max(0.125 * target.count("a") * (word == "u") / (len(target) + 1), 1e-7)
            for word in source
        ]
        found = scores(line)
        assert found[1] == pytest.approx(math.log(math.prod(back_lex)), abs=1e-5)
        assert found[3] == pytest.approx(math.log(math.prod(lex)), abs=1e-5)


def test_a_network_of_another_kind_can_be_the_reverse_one(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    reverse = RandomNetwork("lstm", "abcd", "uvw", reverse=True)
    save_checkpoint(tmp_path / "lstm", reverse.checkpoint)
    result = succeeded(run(model.path, "--augment", table, "--reverse-model", tmp_path / "lstm"))
    assert result.stdout.count("generated") > 2


def test_a_table_of_other_columns_needs_to_be_told(
    model: RandomModel, tmp_path: Path, tiny_table: Path
) -> None:
    result = run(model.path, "--augment", tiny_table)
    assert result.exit_code == 2
    assert "the table has 2 scores, not Moses' 4: --scores must name" in result.stderr
    only = tmp_path / "only"
    only.write_text("u w\n")
    result = succeeded(
        run(
            *(model.path, "--augment", tiny_table, "--sources", only),
            *("--scores", "0.5, forward", "--no-indicator"),
        )
    )
    new = [line for line in result.stdout.splitlines() if line.endswith("generated}}")]
    assert new
    for line in new:
        source, target, values = line.split(" ||| ")[:3]
        first, second = values.split()
        assert (source, first) == ("u w", "0.5")
        wanted = model.log_prob(source.split(), target.split())
        assert math.log(float(second)) == pytest.approx(wanted, abs=1e-5)
    assert "".join(f"{line}\n" for line in result.stdout.splitlines() if line not in new) == (
        tiny_table.read_text()
    )


def test_sources_can_be_chosen_by_count_and_by_file(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    # u was extracted once, u v 5 times, w 4 times.
    result = run(model.path, "--augment", table, "--min-count", 5)
    sources = {line.split(" ||| ")[0] for line in result.stdout.splitlines() if "{{" in line}
    assert sources == {"u v"}
    (tmp_path / "only").write_text("w\n\nv v\n  w  \nz new\n")
    result = succeeded(
        run(
            model.path, "--augment", table, "--sources", tmp_path / "only", "-o", table.parent / "o"
        )
    )
    assert {" ".join(line.pair.source) for line in read(table.parent / "o")[1]} == {"w", "v v"}
    assert "targets generated for 2 of 6 sources; 1 skipped because of" in result.stderr


def test_new_pairs_are_bounded(model: RandomModel, table: Path) -> None:
    for limit in (1, 2):
        result = run(model.path, "--augment", table, "--max-phrase-length", limit, "--targets", 2)
        new = [line for line in result.stdout.splitlines() if "{{" in line]
        assert all(1 <= len(line.split(" ||| ")[1].split()) <= limit for line in new)
        sources = [line.split(" ||| ")[0] for line in new]
        assert max(map(sources.count, sources), default=0) <= 2
    result = run(model.path, "--augment", table, "--min-probability", 0.02, "--targets", 9)
    probable = [float(line.split(" ||| ")[2].split()[2]) for line in result.stdout.splitlines()]
    assert all(value >= 0.02 for value in probable)


def test_a_target_without_its_end_is_no_new_pair(
    model: RandomModel, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = [Generated(("c", "c"), -1.0, finished=False)]
    monkeypatch.setattr(search, "beam_search", lambda _, sources, __: [cut for _ in sources])
    result = succeeded(run(model.path, "--augment", table))
    assert "; 0 new pairs;" in result.stderr


def test_moses_ini_gets_the_indicator_with_weight_0(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    ini = tmp_path / "moses.ini"
    ini.write_text(INI.format(table=table))
    out = tmp_path / "new.gz"
    inis = ["--moses-ini", ini, "--moses-ini-out", tmp_path / "new.ini"]
    succeeded(run(model.path, "--augment", table, "-o", out, *inis))
    wanted = INI.format(table=out).replace("num-features=4", "num-features=5")
    assert (tmp_path / "new.ini").read_text() == wanted.replace("0.2\n", "0.2 0\n")


def test_a_killed_run_goes_on_to_the_same_bytes(
    model: RandomModel, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(augmenter, "GROUP_LINES", 1)
    (tmp_path / "only").write_text("u\nu v\nv\nw\nv w w\nzz\nw w\nu u\n")
    out, whole = tmp_path / "out.gz", tmp_path / "whole.gz"
    options = ["--augment", table, "--sources", tmp_path / "only"]
    assert run(model.path, *options, "-o", whole).exit_code == 0
    original = augmenter.Augmenter.lines
    for groups_done in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(augmenter.Augmenter, "lines", _stopping(original, groups_done, out))
            assert run(model.path, *options, "-o", out).exit_code == 130
        assert not out.exists()
        if groups_done:
            check_refusal(
                run(model.path, *options, "-o", out, "--resume", "--targets", 2),
                "started with another value for num targets (3, now 2)",
            )
        succeeded(run(model.path, *options, "-o", out, "--resume"))
        assert out.read_bytes() == whole.read_bytes()
        out.unlink()


def _stopping(original: Callable, groups_done: int, out: Path) -> Callable:
    calls = iter(range(10))
    journal = Path(work_files(str(out))[1])

    def lines(self: object, *group: object) -> Iterator[bytes]:
        if next(calls) == groups_done:
            while json.loads(journal.read_text())["lines"] < groups_done:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return original(self, *group)

    return lines


# What is refused


def test_models_of_the_wrong_direction_are_refused(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    reverse = RandomModel(tmp_path / "reverse", "uvw", "abcd", reverse=True)
    result = run(reverse.path, "--augment", table)
    assert result.exit_code == 1
    assert "expected a model that predicts the target" in result.stderr
    check_refusal(
        run(model.path, "--augment", table, "--reverse-model", model.path),
        "expected a model trained with --reverse",
    )


def test_a_table_that_is_not_sorted_leaves_nothing_behind(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    table.write_bytes(b"".join(sorted(table.read_bytes().splitlines(True), reverse=True)))
    before = sorted(tmp_path.iterdir())
    check_refusal(
        run(model.path, "--augment", table, "-o", tmp_path / "out"),
        "table:2: expected a table sorted with LC_ALL=C sort",
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_source_that_is_no_phrase_is_named(
    model: RandomModel, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "only").write_text("u\n\nu|N v\n")
    check_refusal(
        run(model.path, "--augment", table, "--sources", tmp_path / "only"),
        "only:3: expected a source phrase, words without '|' and tabs, found 'u|N v'",
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["text"], "SOURCE cannot be used with --augment"),
        (["--sample", "3"], "--sample cannot be used with --augment"),
        (["--nbest", "f", "3"], "--nbest cannot be used with --augment"),
        (["--seed", "3"], "--seed cannot be used with --augment"),
        (["--beam", "2"], "--beam: expected at least 3, for --targets, got 2"),
        (["--moses-ini", "x"], "--moses-ini and --moses-ini-out must be given together"),
        (["--no-indicator", "--moses-ini", "x", "--moses-ini-out", "y"], "--no-indicator"),
        (["--scores", "forward"], "--scores: expected 4 columns, as in the table, got 1"),
        (["--scores", "a,1,1,1"], "--scores: expected forward, reverse, lexicon, reverse-lexicon"),
        (["--scores", "0,1,1,1"], "a probability above 0, got '0'"),
        (["--scores", "nan,1,1,1"], "a probability above 0, got 'nan'"),
        (["--scores", "reverse,1,1,1"], "--scores: reverse requires --reverse-model"),
        (["--scores", "lexicon,1,1,1"], "--scores: lexicon requires --lexicon"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    model: RandomModel, table: Path, options: list[str], problem: str
) -> None:
    check_refusal(run(model.path, *options, "--augment", table), problem, 2)
