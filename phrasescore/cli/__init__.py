"""The command line: one verb a file, and the one place where errors become exit codes.

===== ==============================================================================
exit  meaning
===== ==============================================================================
0     done
1     the data, the model, a setting or the machine (a full disk) is at fault: one line
      on stderr says where and what
2     the command line itself is wrong
129   SIGHUP (128 + 1): the terminal was closed
130   Ctrl-C (128 + SIGINT)
141   the reader of stdout went away (128 + SIGPIPE), shown only by the exit code, as
      ``cat`` and ``sort`` do
143   SIGTERM (128 + 15); what a command has started ends with it, as after Ctrl-C
===== ==============================================================================

Anything else is a bug and shows its traceback. Importing this module, or any verb, imports
neither torch nor numpy: a verb imports heavy modules inside its function.
"""

import importlib
import io
import logging
import os
import signal
import sys

import click

from phrasescore.cli import options
from phrasescore.cli.progress import show_progress
from phrasescore.devices import memory_problem
from phrasescore.errors import (
    ArgumentError,
    PhrasescoreError,
    StoppedError,
    file_problem,
    show_controls,
)
from phrasescore.signals import EndedBySignal, ending_on_signals
from phrasescore.version import __version__

INTERRUPTED = 130
READER_GONE = 141

# Each is the module and the command of its name in this package.
VERBS = (
    *("annotate", "combine", "decode", "doctor", "evaluate", "experiment", "export", "features"),
    *("generate", "perplexity", "report", "rerank", "rescore", "score", "segment"),
    *("select", "show", "train", "tune"),
)


class VerbGroup(click.Group):
    """A group that imports a verb when it is asked for, and maps errors to exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs, in the order of the alphabet."""
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb with this name, or None if there is no such verb."""
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"phrasescore.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb; turn what it raises into one line on stderr and an exit code."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            # As stderr does: a locale that lacks a letter of a report costs no report.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            with ending_on_signals():
                return super().invoke(ctx)
        except click.BadOptionUsage as error:
            raise _with_choices(error, self._verb(ctx)) from error
        except PhrasescoreError as error:
            verb = self._verb(ctx)
            problem = str(error)
            if isinstance(error, ArgumentError):
                context = click.Context(verb, ctx, ctx.invoked_subcommand)
                raise click.UsageError(show_controls(problem), context) from error
            if isinstance(error, StoppedError):
                _say(f"phrasescore: {problem}")
                ctx.exit(128 + error.signal)
            raise click.ClickException(_one_line(problem)) from error
        except KeyboardInterrupt:
            _say("phrasescore: interrupted")
            ctx.exit(INTERRUPTED)
        except EndedBySignal as ended:
            _say(f"phrasescore: ended by {signal.Signals(ended.number).name}")
            ctx.exit(128 + ended.number)
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(READER_GONE)
        except (MemoryError, RuntimeError) as error:
            raise click.ClickException(_problem(error)) from error
        except OSError as error:
            if (found := file_problem(error)) is None:
                raise
            _discard_stdout()
            raise click.ClickException(_one_line(found)) from error
        finally:
            show_progress.close()

    def _verb(self, ctx: click.Context) -> click.Command:
        return self.get_command(ctx, ctx.invoked_subcommand or "") or self


def _with_choices(error: click.BadOptionUsage, verb: click.Command) -> click.BadOptionUsage:
    """Return the error about an option without a value, with the values that it takes."""
    for param in verb.params:
        if error.option_name in param.opts and error.message.endswith("requires an argument."):
            kind = param.type
            values = " or ".join(kind.choices) if isinstance(kind, click.Choice) else param.metavar
            message = f"{error.message.removesuffix('.')}: {values}"
            return click.BadOptionUsage(error.option_name, message, error.ctx)
    return error


def _problem(error: MemoryError | RuntimeError) -> str:
    """Return the message for an error of the machine; re-raise any other error, which is a bug."""
    # numba raises it if neither the installation nor the user's cache is writable.
    if "no locator available" in str(error):
        problem = "there is no folder to keep compiled code in; set NUMBA_CACHE_DIR to one"
        return f"{problem} that can be written to"
    found = memory_problem(error)
    if found is None:
        raise error
    return found


def _one_line(message: str) -> str:
    # A file name may hold a line break, and a message is one line.
    return show_controls(message.replace("\r", "\\r").replace("\n", "\\n"))


def _discard_stdout() -> None:
    """Discard the buffer of stdout, so that Python does not report an error at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # a test's stdout is no file, and a closed one is None
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _StderrHandler(logging.Handler):
    """Write ``phrasescore: message`` to what stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        with show_progress.without_bars():
            _say(f"phrasescore: {level}{self.format(record)}")


def _say(line: str) -> None:
    """Write a line to stderr."""
    click.echo(show_controls(line), err=True)


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="phrasescore %(version)s")
@options.verbosity
def main() -> None:
    """Score phrase pairs and translations with neural networks, for Moses.

    Files named '-' are stdin or stdout, files named .gz are compressed. stdout carries data only;
    progress and messages go to stderr.
    """


for _name in options.LOGGERS:
    logging.getLogger(_name).setLevel(logging.INFO)
    logging.getLogger(_name).addHandler(_StderrHandler())
