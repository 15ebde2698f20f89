"""Records, errors, progress and signals."""

import copy
import errno
import signal
import sys
from collections.abc import Iterable, Iterator

import pytest

from phrasescore.errors import ConfigError, DataError, ModelError, PhrasescoreError, file_problem
from phrasescore.progress import Meter, Progress
from phrasescore.records import HypothesisList, PhrasePair, to_words
from phrasescore.signals import EndedBySignal, deferring_signals, ending_on_signals


@pytest.mark.parametrize(
    "text",
    ["la  maison ", ["la", "maison"], ("la", "maison"), iter(["la", "maison"])],
    ids=["string", "list", "tuple", "iterator"],
)
def test_a_text_is_a_string_of_words_or_any_sequence_of_them(text: str | Iterable[str]) -> None:
    assert to_words(text) == ("la", "maison")
    assert to_words("") == ()
    assert to_words("a\u00a0b\u3000c") == ("a\u00a0b\u3000c",)
    assert to_words("la maison\r\n") == ("la", "maison")  # a line as Python reads it


def test_what_is_no_text_is_refused() -> None:
    for wrong in (b"la maison", [1, 2], [("la",), ("maison",)]):
        with pytest.raises(TypeError, match="expected words, or a sentence as a string"):
            to_words(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a list of hypotheses, got the string 'la mai"):
        HypothesisList("the house", "la maison")
    for more in (["la maison"], ("la", "grande maison"), ("la maison",), "la\nmaison", ["la\n"]):
        with pytest.raises(TypeError, match="expected single words, or one sentence"):
            to_words(more)


@pytest.mark.parametrize(
    "affiliations", [[[0, 0], [1, 1]], [[0, 1], [0], [0]], [[0, 3], [0]], [[0, -1], [0]]]
)
def test_affiliations_are_those_of_the_words(affiliations: list[list[int]]) -> None:
    HypothesisList("the house", ["la maison", "le"], [[0, 2], [1]])
    with pytest.raises(ValueError, match=r"expected (an affiliation of each word|affiliations)"):
        HypothesisList("the house", ["la maison", "le"], affiliations)


def test_pairs_and_lists_are_made_of_strings_as_of_words() -> None:
    words = (("the", "house"), ("la", "maison"))
    assert PhrasePair("the house", ["la", "maison"]) == PhrasePair(*words) == words
    expected = (("the", "house"), [("la", "maison"), ("le",)], None)
    assert HypothesisList("the house", ["la maison", ["le"]]) == expected
    found = HypothesisList(["the", "house"], [("la", "maison")], [[0, 1]])
    assert copy.deepcopy(found) == found
    assert found == (("the", "house"), [("la", "maison")], [(0, 1)])
    assert isinstance(copy.deepcopy(found), HypothesisList)


def test_a_pair_is_a_tuple_of_two_phrases_and_can_be_copied() -> None:
    pair = PhrasePair(source=("la", "maison"), target=())
    assert isinstance(pair._replace(target=("x",)), PhrasePair)
    assert copy.deepcopy(pair) == pair
    assert tuple(pair) == (("la", "maison"), ())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("table.gz", 7, "expected x, found y"), "table.gz:7: expected x, found y"),
        (DataError("table.gz", None, "no lines"), "table.gz: no lines"),
        (DataError("-", 7, "no"), "<stdin>:7: no"),
        (DataError("-", None, "no"), "<stdin>: no"),
        (ConfigError("a.toml", "[model] size", "bad"), "a.toml: [model] size: bad"),
        (ConfigError("a.toml", None, "bad"), "a.toml: bad"),
        (ModelError("bad"), "bad"),
    ],
)
def test_the_message_says_where_and_what(error: PhrasescoreError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, PhrasescoreError)


def test_the_parts_of_an_error_stay_available() -> None:
    data = DataError("-", 7, "no")
    assert (data.path, data.line, data.problem) == ("-", 7, "no")
    config = ConfigError("a.toml", "[model] size", "bad")
    assert (config.path, config.key, config.problem) == ("a.toml", "[model] size", "bad")


def test_no_place_for_temporary_files_is_a_problem_of_the_machine() -> None:
    error = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert file_problem(error) == "No usable temporary directory found in ['/tmp']"
    assert file_problem(OSError(errno.EBADF, "Bad file descriptor")) is None  # a bug


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


def set_handler() -> None:
    """Set a handler as Ray does when it starts."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(number))


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, EndedBySignal)]
)
def test_a_signal_waits_for_the_end_and_is_handled_as_before(
    number: signal.Signals, error: type[BaseException]
) -> None:
    done = []
    with pytest.raises(error), ending_on_signals():
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        with pytest.raises(error), deferring_signals(keeps_handlers=True):
            set_handler()
            signal.raise_signal(number)
            done.append("all")
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert done == ["all"]


def test_a_second_ctrl_c_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), ending_on_signals(), deferring_signals():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_handler_that_is_not_pythons_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program, such as R, that set its handlers before it started Python."""
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getsignal", lambda _: None)
        with deferring_signals(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == handler


def test_an_error_leaves_the_handlers_as_they_were() -> None:
    install, handler = signal.signal, signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match="no"), deferring_signals(keeps_handlers=True):
        set_handler()
        raise OSError("no")
    assert (signal.signal, signal.getsignal(signal.SIGTERM)) == (install, handler)
