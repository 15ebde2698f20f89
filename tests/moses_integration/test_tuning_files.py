"""Promises of moses_integration.tuning_files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moses_integration.tuning_files import (
    check_pair,
    read_features,
    read_scores,
    read_start_weights,
    write_features,
    write_scores,
    write_start_weights,
)
from phrasescore.errors import PhrasescoreError
from phrasescore.io.output import open_output

# The first hypotheses of two sentences of real lists, as Moses' extractor wrote them.
FEATURES = """\
FEATURES_TXT_BEGIN_0 0 2 3 LM0_0 TranslationModel0_0 TranslationModel0_1\x20
-50.6981 -3.21417 -5.746\x20
-50.6981 -3.33274 1e-05\x20
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 1 1 3 LM0_0 TranslationModel0_0 TranslationModel0_1\x20
-30.9018 0 -1.79196\x20
FEATURES_TXT_END_0
"""  # Moses writes a blank after each number
SCORES = """\
SCORES_TXT_BEGIN_0 0 2 9 BLEU
9 11 6 10 3 9 1 8 10\x20
10 12 7 11 3 10 1 9 10\x20
SCORES_TXT_END_0
SCORES_TXT_BEGIN_0 1 1 9 BLEU
8 11 4 10 2 9 1 8 10\x20
SCORES_TXT_END_0
"""
DENSE = "FEATURES_TXT_BEGIN_0 0 2 1 LM0_0\n"
END = "FEATURES_TXT_END_0\n"
NINES = "9" * 5000


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(PhrasescoreError) as caught:
        call()
    return str(caught.value)


class Files:
    """A features file and a scores file."""

    def __init__(self, folder: Path) -> None:
        self.features = folder / "features.dat"
        self.scores = folder / "scores.dat"
        self.features.write_text(FEATURES)
        self.scores.write_text(SCORES)

    def refused_features(self, text: str) -> str:
        self.features.write_text(text)
        message = refusal(lambda: read_features(str(self.features)))
        assert message.startswith(str(self.features))
        return message.removeprefix(str(self.features))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_features_are_read_with_their_names_and_places(files: Files) -> None:
    found = read_features(str(files.features))
    assert found.labels == (("LM0", 0), ("TranslationModel0", 0), ("TranslationModel0", 1))
    assert found.values.tolist() == [
        [-50.6981, -3.21417, -5.746],
        [-50.6981, -3.33274, 1e-05],
        [-30.9018, 0, -1.79196],
    ]
    assert (found.lines, found.starts.tolist()) == ({0: 1, 1: 5}, [0, 2, 3])


def test_scores_are_put_into_the_order_of_this_projects_bleu(files: Files) -> None:
    found = read_scores(str(files.scores))
    # Matches of each order, n-grams of each order, reference length.
    assert found.values.tolist() == [
        [9, 6, 3, 1, 11, 10, 9, 8, 10],
        [10, 7, 3, 1, 12, 11, 10, 9, 10],
        [8, 4, 2, 1, 11, 10, 9, 8, 10],
    ]
    check_pair(read_features(str(files.features)), found)


def test_what_is_read_is_written_again_byte_for_byte(files: Files, tmp_path: Path) -> None:
    features, scores = read_features(str(files.features)), read_scores(str(files.scores))
    again = tmp_path / "again"
    write_features(str(again), features.labels, features.values, features.starts)
    assert again.read_text() == FEATURES
    write_scores(str(again), scores.values, scores.starts)
    assert again.read_text() == SCORES


def test_gzip_is_read_and_written_by_name(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "features.gz")
    with open_output(path) as output:
        output.write(FEATURES.encode())
    assert Path(path).read_bytes()[:2] == b"\x1f\x8b"
    found, plain = read_features(path), read_features(str(files.features))
    assert (found.labels, found.values.tolist()) == (plain.labels, plain.values.tolist())


def test_a_block_longer_than_what_is_read_at_a_time_is_whole(files: Files) -> None:
    rows = "".join(f"{number} -0.5\n" for number in range(60_000))
    head = "FEATURES_TXT_BEGIN_0 {} 60000 2 LM0_0 LM1_0\n"
    text = head.format(0) + rows + END + head.format(1) + rows + END
    files.features.write_text(text)
    found = read_features(str(files.features))
    assert found.values[:, 0].tolist() == [*range(60_000)] * 2
    assert found.lines == {0: 1, 1: 60_003}


def test_sparse_features_become_columns_of_their_own(files: Files, tmp_path: Path) -> None:
    # mert/FeatureStats.cpp writes name=value after the dense ones, and nothing where it is 0.
    text = f"{DENSE}-1 WT_a~b=0.5 \n-2 WT_c=-1 WT_a~b=2 \n{END}"
    files.features.write_text(text)
    found = read_features(str(files.features))
    assert found.labels == (("LM0", 0), ("WT_a~b", 0), ("WT_c", 0))
    assert found.values.tolist() == [[-1, 0.5, 0], [-2, 2, -1]]
    again = tmp_path / "again"
    write_features(str(again), found.labels, found.values, found.starts)
    rewritten = read_features(str(again))
    assert (rewritten.labels, rewritten.values.tolist()) == (found.labels, found.values.tolist())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": expected blocks that begin with FEATURES_TXT_BEGIN_0, found none"),
        (f"{DENSE}1\n{END}", ":1: expected 2 lines after this header, found 1"),
        (f"{DENSE}1\nnan\n{END}", ":3: expected a number, found 'nan'"),
        (f"{DENSE}inf\n1\n{END}", ":2: expected a number, found 'inf'"),
        (f"{DENSE}1e999\n1\n{END}", ":2: expected a number, found '1e999'"),
        (f"{DENSE}1e39\n1\n{END}", ":2: expected a number, found '1e39'"),
        (f"{DENSE}1\n0,5\n{END}", ":3: expected a number, found '0,5'"),
        (f"{DENSE}1\n1-2\n{END}", ":3: expected a number, found '1-2'"),
        (f"{DENSE}1 2\n1\n{END}", ":2: expected 1 numbers as in the header, found 2"),
        (f"{DENSE}1\n\n{END}", ":3: expected 1 numbers as in the header, found 0"),
        (f"{DENSE}1\n2 S_a=x\n{END}", ":3: expected a number, found 'x'"),
        (f"{DENSE}1\n2 =1\n{END}", ":3: expected a new name before '=', found '=1'"),
        (f"{DENSE}1\n2 A=1 A=1\n{END}", ":3: expected a new name before '=', found 'A=1'"),
        (f"{DENSE}1\n2\n", ":1: the block that begins here has no FEATURES_TXT_END_0: the file "),
        (
            f"{DENSE}1\n2\n{END}{DENSE}1\n2\n{END}",
            ":5: sentence 0 again; its first block is in line 1",
        ),
        ("0 ||| la ||| LM0= 1 ||| 1\n", ":1: expected 'FEATURES_TXT_BEGIN_0 sentence hypotheses"),
        (f"{DENSE.replace(' 2 ', ' 0 ')}{END}", ":1: sentence 0 has no hypotheses"),
        (f"{DENSE.replace('TXT', 'BIN')}1\n2\n{END}", ":1: expected a text file, found a binary"),
        (f"{DENSE.replace(' 1 ', ' 99999999999 ')}1\n2\n{END}", ":2: expected 99999999999 numbers"),
        (f"{DENSE.replace(' 1 ', f' {NINES} ')}1\n2\n{END}", ":1: expected 'FEATURES_TXT_BEGIN_0 "),
        (f"{DENSE.replace(' LM0_0', '')}1\n2\n{END}", ":1: expected names for 1 values in the "),
        (f"{DENSE.replace('_0', '_1', 2)}1\n2\n{END}", ":1: expected 'FEATURES_TXT_BEGIN_0 "),
        (f"{DENSE.replace('LM0_0', 'LM0_1')}1\n2\n{END}", ":1: expected a name and an index"),
        (f"{DENSE.replace('LM0_0', 'LM0')}1\n2\n{END}", ":1: expected a name and an index"),
        (
            f"{DENSE}1\n2\n{END}{DENSE.replace(' 0 2 ', ' 1 2 ').replace('LM', 'TM')}1\n2\n{END}",
            ":5: expected 1 values, 'LM0_0', as before, found 1, 'TM0_0'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(files: Files, text: str, message: str) -> None:
    assert files.refused_features(text).startswith(message)


def test_a_file_that_is_not_utf_8_is_refused(files: Files) -> None:
    files.features.write_bytes(DENSE.encode().replace(b"LM", b"\xff") + b"1\n2\n" + END.encode())
    assert "expected UTF-8" in refusal(lambda: read_features(str(files.features)))


def test_scores_of_another_metric_are_refused_where_bleu_is_wanted(files: Files) -> None:
    files.scores.write_text("SCORES_TXT_BEGIN_0 0 1 2 TER\n1 2\nSCORES_TXT_END_0\n")
    assert refusal(lambda: read_scores(str(files.scores))).endswith(
        "scores.dat:1: expected 9 statistics for BLEU (extractor --sctype BLEU), found 2 of TER"
    )


def test_scores_hold_nothing_but_numbers_of_one_metric(files: Files) -> None:
    for old, new, problem in (
        ("9 11 6", "9 11 a=6", ":2: expected 9 numbers as in the header, found 8"),
        ("8 10 \n", "8 10 a=6 \n", ":2: expected numbers, found 'a'"),
        ("1 1 9 BLEU", "1 1 9 PER", ":5: expected 9 values, 'BLEU', as before, found 9, 'PER'"),
    ):
        files.scores.write_text(SCORES.replace(old, new, 1))
        assert problem in refusal(lambda: read_scores(str(files.scores)))


def test_files_about_different_hypotheses_are_no_pair(files: Files) -> None:
    features = read_features(str(files.features))
    files.scores.write_text(SCORES.replace("BEGIN_0 1 ", "BEGIN_0 7 "))
    other = read_scores(str(files.scores))
    assert refusal(lambda: check_pair(features, other)) == (
        f"{files.scores}:5: expected sentence 1 with 1 hypotheses, as {files.features}:5 has, "
        "found sentence 7 with 1"
    )
    files.scores.write_text(SCORES.partition("SCORES_TXT_BEGIN_0 1")[0])
    fewer = read_scores(str(files.scores))
    assert refusal(lambda: check_pair(features, fewer)) == (
        f"{files.scores}: expected 2 sentences, as {files.features} has, found 1"
    )


def test_lines_may_end_with_a_carriage_return(files: Files) -> None:
    sparse = FEATURES.replace("1e-05", "1e-05 WT_a=2")
    for text in (FEATURES, sparse):
        files.features.write_text(text)
        expected = read_features(str(files.features))
        files.features.write_text(text.replace("\n", "\r\n"))
        found = read_features(str(files.features))
        assert found.labels == expected.labels
        assert found.values.tolist() == expected.values.tolist()
    expected = read_scores(str(files.scores))
    files.scores.write_text(SCORES.replace("\n", "\r\n"))
    assert read_scores(str(files.scores)).values.tolist() == expected.values.tolist()


def test_start_weights_are_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "init.opt"
    for text in ("0.3 -1\n0 -2\n1 2\n", "0.3 -1\n"):
        path.write_text(text)
        assert read_start_weights(str(path), 2).tolist() == [0.3, -1]


def test_start_weights_are_written_as_mert_moses_does(tmp_path: Path) -> None:
    path = tmp_path / "init.opt"
    write_start_weights(str(path), np.array([0.3, -1.0]))
    assert path.read_text() == "0.3 -1\n0 0\n1 1\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": expected a line with the start weights, found none"),
        ("1 2\n", ":1: expected 3 numbers, one per feature value, found 2"),
        ("1 2 nan\n", ":1: expected a number, found 'nan'"),
        ("1 2 3\n" * 4, ":4: expected 3 lines: start, lowest and highest weights"),
    ],
)
def test_wrong_start_weights_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "init.opt"
    path.write_text(text)
    assert refusal(lambda: read_start_weights(str(path), 3)) == f"{path}{problem}"


@pytest.mark.slow
def test_the_real_files_come_back_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    from phrasescore.io.text import open_input

    again = str(tmp_path / "again")
    features = read_features(str(shared_data / "mert" / "features.dat.gz"))
    scores = read_scores(str(shared_data / "mert" / "scores.dat.gz"))
    check_pair(features, scores)
    write_features(again, features.labels, features.values, features.starts)
    with open_input(features.path) as stream:
        assert stream.read() == Path(again).read_bytes()
    write_scores(again, scores.values, scores.starts)
    with open_input(scores.path) as stream:
        assert stream.read() == Path(again).read_bytes()
