"""The command line: the verbs, and the one place where errors become exit codes.

===== ==============================================================================
exit  meaning
===== ==============================================================================
0     done
1     the data, the model, a setting or the machine (a full disk) is wrong: one line
      on stderr says where and what
2     the command line itself is wrong
129   SIGHUP (128 + 1): the terminal was closed
130   Ctrl-C (128 + SIGINT)
141   the reader of stdout went away (128 + SIGPIPE); as with ``cat`` and ``sort``, there
      is no message
143   SIGTERM (128 + 15); as with Ctrl-C, the command's child processes are ended, too
===== ==============================================================================

Anything else is a bug and shows its traceback. Importing this module, or any verb, imports
neither torch nor numpy: a verb imports heavy modules inside its function.
"""

import difflib
import functools
import gc
import importlib
import io
import logging
import os
import re
import signal
import sys
import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import click

from phrasescore import errors
from phrasescore.cli import options
from phrasescore.cli.messages import StderrHandler, say
from phrasescore.cli.progress import show_progress
from phrasescore.devices import memory_problem
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.signals import EndedBySignal, ending_on_signals
from phrasescore.version import __version__

# Loading modules and data makes many objects and no garbage: with Python's threshold of 700,
# looking for it took a tenth of a short verb's time.
gc.set_threshold(100_000, 20, 20)

INTERRUPTED = 130
READER_GONE = 141

# What took the place of words of earlier versions. Verbs are keys; options are keys of the table of
# their verb, also with a value: "--method pro".
_SUCCESSORS = Path(__file__).with_name("successors.toml")

# The module of each verb; it defines a command with the verb's name, with _ for -.
VERBS = {
    verb: module
    for module, verbs in {
        "networks": ("export", "train"),
        "report": ("report", "show"),
        "scoring": ("annotate", "rescore", "score"),
        "systems": ("build", "build-lm", "experiment", "init"),
        "texts": ("evaluate", "perplexity", "rerank", "select"),
        "translate": ("generate", "segment", "serve", "translate"),
        "tune": ("tune",),
    }.items()
    for verb in verbs
}
_SECTIONS = {  # of the help
    "Whole systems": ("build", "init", "experiment", "translate", "serve"),
    "Networks and language models": ("train", "build-lm", "export", "generate", "segment"),
    "Phrase tables and n-best lists": ("annotate", "rescore", "rerank"),
    "Decoding and tuning": ("tune",),
    "Text and evaluation": ("evaluate", "perplexity", "score", "select"),
    "Looking inside": ("report", "show"),
}


class VerbGroup(click.Group):
    """A group that imports a verb when it is requested, and maps errors to exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names of all verbs."""
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb with this name, or None if there is no such verb."""
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"phrasescore.cli.{VERBS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb and its arguments; suggest the verb that was meant."""
        verbs = self.list_commands(ctx)
        if args[0].startswith("-") or args[0] in verbs:
            return super().resolve_command(ctx, args)
        if (args[0],) in successors():
            raise click.UsageError(_successor(args[0]), ctx)
        similar = difflib.get_close_matches(args[0], verbs, n=1)
        hint = f" Did you mean {similar[0]!r}?" if similar else ""
        raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs in sections, with their whole short descriptions."""
        for title, verbs in _SECTIONS.items():
            rows = []
            for name in verbs:
                verb = self.get_command(ctx, name)
                rows.append((name.ljust(max(map(len, VERBS))), (verb and verb.short_help) or ""))
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb; turn its exceptions into one line on stderr and an exit code."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            # As on stderr: a letter that the locale cannot encode must not end the command.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            with ending_on_signals():
                return super().invoke(ctx)
        except click.UsageError as error:
            problem = _option_problem(ctx.invoked_subcommand or "", error)
            if problem is None:
                raise
            raise click.UsageError(problem, error.ctx) from error
        except PhrasescoreError as error:
            problem = str(error)
            if isinstance(error, ArgumentError):
                context = click.Context(self._verb(ctx), ctx, ctx.invoked_subcommand)
                raise click.UsageError(errors.show_controls(problem), context) from error
            if isinstance(error, errors.StoppedError):
                say(problem)
                ctx.exit(128 + error.signal)
            raise click.ClickException(_one_line(problem)) from error
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(INTERRUPTED)
        except EndedBySignal as ended:
            say(f"ended by {signal.Signals(ended.number).name}")
            ctx.exit(128 + ended.number)
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(READER_GONE)
        except (MemoryError, RuntimeError) as error:
            raise click.ClickException(_problem(error)) from error
        except OSError as error:
            if (found := errors.file_problem(error)) is None:
                raise
            _discard_stdout()
            raise click.ClickException(_one_line(found)) from error
        finally:
            show_progress.close()

    def _verb(self, ctx: click.Context) -> click.Command:
        return self.get_command(ctx, ctx.invoked_subcommand or "") or self


@functools.cache
def successors() -> Mapping[tuple[str, ...], str]:
    """Return the successor of each word that is gone.

    The keys are a verb; a verb and an option; or a verb, an option and a value.
    """
    found: dict[tuple[str, ...], str] = {}
    for verbs, named in tomllib.loads(_SUCCESSORS.read_text(encoding="utf-8")).items():
        of_verbs = {"": named} if isinstance(named, str) else named
        for named_options, successor in of_verbs.items():
            for verb, option in product(verbs.split(), re.split(" (?=--)", named_options)):
                key = option.removeprefix("--").replace("-", "_")
                found[verb, *option.split()] = successor.replace("OPTION", key)
    return found


def _option_problem(verb: str, error: click.UsageError) -> str | None:
    """Return the error for an option or a value of an earlier version, or None for others."""
    words: list[tuple[str, ...]] = []
    if isinstance(error, click.NoSuchOption):
        words = [(error.option_name,)]
    elif isinstance(error, click.BadParameter) and error.param is not None:
        # click's message for a choice begins with the value in quotation marks.
        value = error.message.partition("'")[2].partition("'")[0]
        words = [(option, value) for option in error.param.opts]
    elif "unexpected extra argument" in error.message and error.ctx is not None:
        if error.ctx.params.get("nbest_file") is None:
            return None
        # In 0.3, --nbest took a file and a number, and the --nbest of rerank took nothing.
        size = "" if verb == "rerank" else "; their number is --nbest-size"
        return f"{error.message}: --nbest takes one word, the file of the lists{size}"
    return next((_successor(verb, *each) for each in words if (verb, *each) in successors()), None)


def _successor(*words: str) -> str:
    return f"{' '.join(words[1:] or words)} is gone: {successors()[words]}"


def _problem(error: MemoryError | RuntimeError) -> str:
    """Return the message for a machine error, such as full memory; re-raise other errors."""
    # numba raises this error if neither the installation nor the user's cache is writable.
    if "no locator available" in str(error):
        return "no folder for compiled code is writable; set NUMBA_CACHE_DIR to a writable folder"
    found = memory_problem(error)
    if found is None:
        raise error
    return found


def _one_line(message: str) -> str:
    # File names may contain line breaks.
    return errors.show_controls(message.replace("\r", "\\r").replace("\n", "\\n"))


def _discard_stdout() -> None:
    """Discard the buffered output of stdout, so that Python does not report an error at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # not a file in tests; None if stdout is closed
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="phrasescore %(version)s")
@options.verbosity
def main() -> None:
    """Improve phrase-based translation with neural networks, with Moses or without.

    To begin: 'init' chooses networks for a system of Moses or of 'build', and 'experiment' trains
    and compares them. Step by step: 'train'; 'annotate' or 'rescore'; 'tune'; then 'translate'
    or 'rerank'. README.md and docs/tutorial.md have examples with figures.

    The name '-' stands for stdin or stdout. Files whose names end in .gz are compressed. Only data
    is written to stdout; progress and messages go to stderr. 'phrasescore COMMAND --help' shows an
    example and the main options of a command, '--help-all' all of them.
    """


for _name in options.LOGGERS:
    logging.getLogger(_name).setLevel(logging.INFO)
    logging.getLogger(_name).addHandler(StderrHandler())
