"""How workflows tell how far they are."""

from collections.abc import Iterator

import pytest

from phrasescore.progress import Meter, Progress


def test_tracked_items_come_as_they_are_and_lazily() -> None:
    taken = []

    def source() -> Iterator[str]:
        for item in "abc":
            taken.append(item)
            yield item

    with Meter("show", "lines", None) as meter:
        items = meter.track(source())
        assert next(iter(items)) == "a"
        assert (taken, meter.done) == (["a"], 0)
        assert list(items) == ["b", "c"]
        assert meter.done == 3


def test_a_callback_gets_counts_in_between_and_not_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Meter("train", "updates", seen.append, total=9) as meter:
        for turn in range(9):
            now[0] += 0.04
            meter.update(note=f"update {turn}")
    assert [(each.done, each.note, each.finished) for each in seen] == [
        (0, "", False),
        (3, "update 2", False),
        (6, "update 5", False),
        (9, "update 8", False),
        (9, "update 8", True),
    ]


def test_an_error_ends_without_a_last_count() -> None:
    seen: list[Progress] = []
    with pytest.raises(ZeroDivisionError), Meter("show", "lines", seen.append):
        raise ZeroDivisionError
    assert [each.finished for each in seen] == [False]
