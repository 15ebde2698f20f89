"""Promises of moses_integration.weight_lines: numbers as Moses' tools read them."""

import pytest

from moses_integration.weight_lines import format_weight


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-20, "0.00000000000000000001"),
        (-5e-324, "-0." + "0" * 323 + "494065646"),
        (1e30, "1" + "0" * 30),
        (123456.7891, "123456.789"),
        (0.0, "0"),
    ],
)
def test_a_weight_has_nine_digits_and_no_exponent(value: float, text: str) -> None:
    assert format_weight(value) == text
    assert float(text) == float(f"{value:.9g}")
