"""What is no tuning report is refused in one line."""

from pathlib import Path

import pytest

from phrasescore.errors import DataError
from phrasescore.evaluation.tune_report import read_tune_report


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b'{"features": [NaN]}',
        b"[" * 100_000,
        '{"metric": "\u00e9"}'.encode("latin-1"),
        b'{"features": [1], "metric": "BLEU", "start": 1, "reached": 2}',
    ],
    ids=["empty", "other", "nan", "deep", "latin", "bad"],
)
def test_another_file_is_no_tuning_report(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "report.json").write_bytes(text)
    with pytest.raises(DataError, match=r"report\.json: expected JSON written by tune --report"):
        read_tune_report(tmp_path / "report.json")
