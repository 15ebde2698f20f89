"""The number of torch's threads: set for a while, and then the caller's again."""

from collections.abc import Iterator

import pytest
import torch

from phrasescore.devices import torch_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """Let the caller have set 3 threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def count_threads() -> Iterator[int]:
    with torch_threads(1):
        yield torch.get_num_threads()


def test_the_callers_setting_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="bad"), torch_threads(2), torch_threads(1):
        assert torch.get_num_threads() == 1
        raise ValueError("bad")
    assert torch.get_num_threads() == 3


def test_the_callers_setting_comes_back_after_iterators_that_overlap() -> None:
    first, second = count_threads(), count_threads()
    assert list(zip(first, second, strict=False)) == [(1, 1)]  # the first ends before the second
    assert torch.get_num_threads() == 1
    assert next(second, None) is None
    assert torch.get_num_threads() == 3
