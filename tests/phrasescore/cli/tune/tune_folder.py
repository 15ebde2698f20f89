"""A small list with references and weights, on which ``phrasescore tune --lists`` tunes."""

from pathlib import Path

from click.testing import Result

from tests.command_line import run

# LM0 prefers what is wrong, EncoderDecoder0 what is right. With the last word wrong, the precisions
# of each sentence are 4/5, 3/4, 2/3, 1/2, and BLEU is the fourth root of their product: 66.87.
NBEST = """\
0 ||| a b c d x  ||| LM0= -1 TM0= -1 -2 EncoderDecoder0= -9 ||| -3
0 ||| a b c d e  ||| LM0= -3 TM0= -1 -2 EncoderDecoder0= -5 ||| -4
1 ||| f g h i x  ||| LM0= -1 TM0= -1 -2 EncoderDecoder0= -8 ||| -3
1 ||| f g h i j  ||| LM0= -2 TM0= -1 -2 EncoderDecoder0= -4 ||| -4
2 ||| k l m n x  ||| LM0= -1 TM0= -1 -2 EncoderDecoder0= -7 ||| -3
2 ||| k l m n x  ||| LM0= -1 TM0= -1 -2 EncoderDecoder0= -7 ||| -3
2 ||| k l m n o  ||| LM0= -4 TM0= -1 -2 EncoderDecoder0= -3 ||| -4
"""
REFERENCES = "a b c d e\nf g h i j\nk l m n o\n"
WEIGHTS = "LM0= 1\nTM0= 0.5\nTM0= 0.5\nEncoderDecoder0= 0\n"
INI = """\
# kept
[feature]
UnknownWordPenalty
KENLM name=LM0 path=lm order=3
PhraseDictionaryMemory name=TM0 num-features=2 path=table
[weight]
UnknownWordPenalty0= 1
LM0= 1
TM0= 0.5 0.5
"""


class TuneFolder:
    """A folder with a list, references and weights, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        texts = {"nbest": NBEST, "reference": REFERENCES, "weights": WEIGHTS, "moses.ini": INI}
        for name, text in texts.items():
            (path / name).write_text(text)

    def call(self, *options: str, quiet: bool = False) -> Result:
        arguments = ["tune", *options, "--threads", "1"]
        return run(*(["-q", *arguments] if quiet else arguments))

    def run(self, *options: str, nbest: tuple[str, ...] = ("nbest",)) -> Result:
        usual = ["--lists", *nbest, "--references", "reference"]
        if "--weights" not in options:
            usual += ["--weights", "weights"]
        return self.call(*usual, *options)

    def refusal(self, *options: str, nbest: tuple[str, ...] = ("nbest",)) -> str:
        """Return the message of a run that must fail with one line, and write nothing."""
        output = self.path / "refused"
        result = self.run("-o", str(output), *options, nbest=nbest)
        assert result.exit_code == 1, result.output
        assert not output.exists()
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error")]
        return line.removeprefix("Error: ")
