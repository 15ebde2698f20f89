"""Promises of workflows.tune.state: which runs a state of another search belongs to."""

import json
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.state import about_search, read_decisions

CSLM = {"features": ("cslm",), "models": ("m=n",)}


@pytest.mark.parametrize(
    ("flags", "settings", "same"),
    [
        ("", {"processes": 3, "threads": 2, "buffer_size": 9}, True),
        ("--processes 2 --buffer-size=7", {}, True),
        ("--stack 9 --feature cslm --model m=n", {"stack_size": 9, **CSLM}, True),
        ("--stack-size=9 --unnormalized -q", {"stack_size": 9, "unnormalized": True}, True),
        ("--ignore A=1 --beam-threshold 0.5", {"ignore": ("A=1",), "beam_threshold": 0.5}, True),
        ("--beam-threshold .5", {"beam_threshold": 0.5}, False),
        ("", {"stack_size": 9}, False),
        ("--stack 9", {"stack_size": 8}, False),
    ],
)
def test_a_search_is_another_run_where_its_translations_are_others(
    tmp_path: Path, flags: str, settings: dict, same: bool
) -> None:
    state = {"format": 1, "about": {"decoder": "embedded", "decoder flags": flags}}
    state |= {"rounds": [], "next": {}, "reason": ""}
    (tmp_path / "tune.json").write_text(json.dumps(state))
    (tmp_path / "run1.nbest").write_text("")
    about = {"decoder": "embedded", "search": about_search(SearchSettings(**settings))}
    if same:
        assert read_decisions(tmp_path, about, resume=True) == []
    else:
        with pytest.raises(PhrasescoreError, match="begun with another search"):
            read_decisions(tmp_path, about, resume=True)
