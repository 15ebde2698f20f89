"""Checks of arguments: what each refuses, and that the message names the parameter."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from phrasescore.arguments import AtLeastOne, Positive, check_sequences, language_code
from phrasescore.errors import ArgumentError
from phrasescore.settings.declaration import check

NAN = float("nan")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: check(Literal["a", "b"], side="c"), "--side: expected one of a, b, got 'c'"),
        (lambda: check(AtLeastOne, beam=5, top=0), "--top: expected at least 1, got 0"),
        (lambda: check(Positive, rate=NAN), "--rate: expected a finite number, got nan"),
        (lambda: check_sequences(texts="a"), "texts: expected a sequence, got the string 'a'"),
        (lambda: check_sequences(texts=Path("a")), "texts: expected a sequence, got the string"),
    ],
)
def test_a_refused_value_is_shown_with_its_parameter(
    call: Callable[[], None], problem: str
) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert str(raised.value).startswith(problem)


def test_values_at_a_bound_and_none_pass() -> None:
    check(Literal["a", "b"], one="a", other=None)
    check(AtLeastOne, one=np.int64(1), other=None)
    check_sequences(one=["a"], other=(), last=None)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(("en", "en"), ("EN", "en"), ("hau", "hau"), ("en-GB", "en"), ("pt_br", "pt")),
        *(("eng_Latn", "eng"), ("", None), ("en gb", None), ("english", None), ("en\n", None)),
    ],
)
def test_codes_of_languages(text: str, code: str | None) -> None:
    assert language_code(text) == code
