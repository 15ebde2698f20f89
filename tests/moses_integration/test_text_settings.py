"""What comments of a moses.ini record of a system's text."""

from pathlib import Path

import pytest

from moses_integration.ini_text import IniText
from moses_integration.moses_ini import MosesIni
from moses_integration.text_settings import TextSettings
from phrasescore.errors import ConfigError

SIMPLE = (Path(__file__).parents[1] / "data" / "train-model.moses.ini").read_bytes()


@pytest.mark.parametrize(
    "settings",
    [
        TextSettings(),
        TextSettings(characters=True, lowercase=True),
        TextSettings(
            tokenize="de en",
            truecase_source='a "b"#\\ö\udcff.model',
            truecase_target="line\nfeed\x7f",
        ),
    ],
)
def test_text_settings_are_read_as_written(settings: TextSettings) -> None:
    text = "\n".join([*settings.lines(), SIMPLE.decode()])
    ini = MosesIni("moses.ini", text.encode(errors="surrogateescape"))
    assert ini.text_settings() == settings
    # Moses and the reader of features ignore them, and edits keep them.
    assert [feature.name for feature in ini.features] == [
        feature.name for feature in MosesIni("moses.ini", SIMPLE).features
    ]
    ini.add_feature("KENLM", "LM", {"path": "b"})
    assert IniText("moses.ini", ini.to_bytes()).text_settings() == settings


def test_text_settings_are_plain_comments() -> None:
    assert TextSettings(characters=True, tokenize="fr en").lines() == [
        "# phrasescore: characters = true",
        '# phrasescore: tokenize = "fr en"',
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("# phrasescore: character = true", "expected KEY = VALUE in TOML, once for characters, "),
        ("# phrasescore: characters = 1", "expected KEY = VALUE in TOML, once for characters, "),
        ("# phrasescore: tokenize = true", "expected KEY = VALUE in TOML, once for characters, "),
        ("# phrasescore: tokenize = 'de'", "expected the languages of source and target "),
        ("# phrasescore: tokenize = 'de '", "expected the languages of source and target "),
        ("# phrasescore: tokenize = 'de en gb'", "expected the languages of source and target "),
        ("#phrasescore:characters", "expected KEY = VALUE in TOML, once for "),
        ("# phrasescore: a = " + "[" * 99_999, "expected KEY = VALUE in TOML, once for "),
        ("# phrasescore: ", "expected KEY = VALUE in TOML, once for "),
        ("# phrasescore: lowercase = true", "expected KEY = VALUE in TOML, once for "),
        ("# phrasescore: truecase_target = 'a'", "expected either lowercase or truecase_source "),
    ],
)
def test_invalid_text_settings_name_file_and_line(line: str, problem: str) -> None:
    ini = IniText("moses.ini", f"[x]\n# phrasescore: lowercase = true\n{line}\n".encode())
    with pytest.raises(ConfigError) as caught:
        ini.text_settings()
    assert str(caught.value).startswith(f"moses.ini:3: # phrasescore: {problem}")
