"""Promises of phrasescore.devices: where networks run, and how their threads wait."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from phrasescore import devices
from phrasescore.devices import torch_threads
from phrasescore.errors import PhrasescoreError


@pytest.mark.parametrize("own", [None, "ACTIVE"])
def test_threads_spin_briefly_unless_the_user_says_otherwise(own: str | None) -> None:
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    given = {} if own is None else {"OMP_WAIT_POLICY": own}
    code = "import phrasescore, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=kept | given, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ("10000" if own is None else "None")


@pytest.mark.parametrize(("count", "chosen"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_a_cuda_device_where_there_is_one(
    count: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert devices.choose_device("auto") == torch.device(chosen)
    assert devices.choose_device("cpu") == torch.device("cpu")
    with pytest.raises(PhrasescoreError, match=f"--device cuda:2: torch sees {count} CUDA devices"):
        devices.choose_device("cuda:2")


def test_threads_are_as_many_as_wanted_or_as_the_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3, 5}, raising=False)
    assert (devices.usable_threads(7), devices.usable_threads(None)) == (7, 3)


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def count_threads() -> Iterator[int]:
    with torch_threads(1):
        yield torch.get_num_threads()


@pytest.mark.usefixtures("three_threads")
def test_the_callers_setting_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="bad"), torch_threads(2), torch_threads(1):
        assert torch.get_num_threads() == 1
        raise ValueError("bad")
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_the_callers_setting_comes_back_after_iterators_that_overlap() -> None:
    first, second = count_threads(), count_threads()
    assert list(zip(first, second, strict=False)) == [(1, 1)]  # the first ends before the second
    assert torch.get_num_threads() == 1
    assert next(second, None) is None
    assert torch.get_num_threads() == 3
