"""Promises of phrasescore.signals about code that sets handlers of its own."""

import signal
import sys

import pytest

from phrasescore.signals import EndedBySignal, deferring_signals, ending_on_signals


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
        with pytest.raises(error), deferring_signals():
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


def test_an_error_leaves_the_handlers_as_they_were() -> None:
    install, handler = signal.signal, signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match="no"), deferring_signals():
        set_handler()
        raise OSError("no")
    assert (signal.signal, signal.getsignal(signal.SIGTERM)) == (install, handler)
