"""Promises of workflows.tune.rounds: which runs the journal of another search belongs to."""

import json
from pathlib import Path

import pytest

from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.search_settings import SearchSettings
from phrasescore.workflows.tune.rounds import about_search, read_decisions

CSLM = {"features": ("cslm",), "models": ("m=n",)}


@pytest.mark.parametrize(
    ("begun", "now", "same"),
    [
        ({}, {"processes": 3, "threads": 2, "buffer_size": 9}, True),
        ({"stack_size": 9, **CSLM, "processes": 2}, {"stack_size": 9, **CSLM}, True),
        ({"unnormalized": True}, {"unnormalized": True}, True),
        ({}, {"stack_size": 9}, False),
        ({"stack_size": 9}, {"stack_size": 8}, False),
    ],
)
def test_a_search_is_another_run_where_its_translations_are_others(
    tmp_path: Path, begun: dict, now: dict, same: bool
) -> None:
    old, new = (
        {"decoder": "embedded", "search": about_search(SearchSettings(**settings))}
        for settings in (begun, now)
    )
    state = {"format": 2, "settings": old, "rounds": [], "next": {}, "reason": ""}
    (tmp_path / "tune.json").write_text(json.dumps(state))
    (tmp_path / "run1.nbest").write_text("")
    if same:
        assert read_decisions(tmp_path, new, resume=True) == []
    else:
        with pytest.raises(PhrasescoreError, match="started with another search"):
            read_decisions(tmp_path, new, resume=True)
