"""Commands that tests run in this process, and what they must end with."""

import re

from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.features.columns import Column


def run(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def column_options(column: Column) -> list[str]:
    """Return the option, and its value, that adds a column."""
    return ["--column", column.to_toml()]


def succeeded(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def check_refusal(result: Result, problem: str, code: int = 1) -> None:
    """Check that a command wrote nothing to stdout and named its only error in one line."""
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    lines = result.stderr.splitlines(keepends=True)
    (line,) = [line for line in lines if line.startswith("Error: ")]
    assert problem in line, line


def tuned_scores(result: Result) -> str:
    """Return what ``tune`` has written about the scores before and after, such as BLEU 1 -> 2."""
    found = re.findall(r"^phrasescore: (.* \d+\.\d\d -> \d+\.\d\d)$", result.stderr, re.MULTILINE)
    (line,) = [line for line in found if not line.startswith("seed ")]
    return str(line)


def suggested_commands(result: Result) -> list[str]:
    """Return the commands for the next step with which a verb has ended."""
    return re.findall(r"^  ((?:phrasescore|moses) .*)$", result.stderr, re.MULTILINE)
