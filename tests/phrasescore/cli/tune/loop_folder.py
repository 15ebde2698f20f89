"""A folder where ``phrasescore tune`` runs with a decoder of our own."""

import json
import random
import re
import shlex
import sys
from pathlib import Path

from click.testing import Result

from tests.command_line import run

DECODER = Path(__file__).parents[3] / "tiny_decoder.py"
INI = """\
[feature]
Good
Bad
Edit
UnknownWordPenalty
[weight]
Good0= 0.1
Bad0= 0.5 -0.5
UnknownWordPenalty0= 1
"""


class Folder:
    """A folder with source, references and a moses.ini, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        numbers = random.Random(3)
        words = [f"w{number}" for number in range(40)]
        references = [" ".join(numbers.choices(words, k=12)) for _ in range(30)]
        (path / "reference").write_text("".join(f"{line}\n" for line in references))
        (path / "source").write_text("one two\n" * 30)
        (path / "moses.ini").write_text(INI)
        self.decoder = shlex.join([sys.executable, str(DECODER), "--references", "reference"])
        self.decoder += " --mood mood"

    def arguments(self, *options: str, decoder: str = "") -> list[str]:
        usual = ["--source", "source", "--references", "reference", "--working-dir", "work"]
        command = decoder or f"{self.decoder} -f moses.ini"
        arguments = ["tune", "--decoder", command, *usual, "--nbest-size", "4"]
        return [*arguments, "--threads", "1", "--starts", "4", "-o", "out", *options]

    def run(self, *options: str, decoder: str = "") -> Result:
        return run(*(self.arguments(*options, decoder=decoder)))

    def write_system(self, *lists: str) -> str:
        """Write a system with features of lists, such as 'lexicon = "lex"'; return its name."""
        rows = ", ".join(f"{{ {column} }}" for column in lists)
        text = f'moses_ini = "moses.ini"\nlists = [{rows}]\n'
        (self.path / "system.toml").write_text(text)
        return "system.toml"

    def state(self) -> dict:
        return json.loads((self.path / "work" / "tune.json").read_text())

    def set_mood(self, mood: str) -> None:
        (self.path / "mood").write_text(mood)


def rounds(result: Result) -> list[float]:
    """Return the BLEU of each round as it was shown."""
    return [float(text) for text in re.findall(r"round \d+: BLEU ([0-9.]+)", result.stderr)]
