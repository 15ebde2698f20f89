"""The codes of languages."""

import pytest

from phrasescore.io.languages import language_code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(("en", "en"), ("EN", "en"), ("hau", "hau"), ("en-GB", "en"), ("pt_br", "pt")),
        *(("eng_Latn", "eng"), ("", None), ("en gb", None), ("english", None), ("en\n", None)),
    ],
)
def test_codes_of_languages(text: str, code: str | None) -> None:
    assert language_code(text) == code
