"""``phrasescore doctor``, ``features`` and ``show``: inspect the machine, plug-ins and files."""

from typing import Any

from phrasescore.cli import options
from phrasescore.cli.messages import print_text
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress


def _print(found: Any, report_format: str) -> None:
    print_text(found.to_json() if report_format == "json" else found.to_text())


@options.verb("Show what works on this machine, and what is missing", "doctor")
@options.report_format
def doctor(report_format: str) -> None:
    """Show what phrasescore can use on this machine, and how to install what is missing.

    The report covers the processor, threads, GPU, Moses, KenLM, CTranslate2 and Ray. A missing
    component is not an error: only the verbs and options listed next to it need it.
    """
    from phrasescore.workflows.doctor import doctor as run

    _print(run(), report_format)


@options.verb("List the features and metrics", "features")
@options.report_format
def features(report_format: str) -> None:
    """List the features for --feature and the metrics for --metric.

    Other packages provide features through the entry point phrasescore.features. Unusable ones are
    listed with the reason.
    """
    from phrasescore.workflows.doctor import list_features

    _print(list_features(), report_format)


@options.verb("Show the content of a model or a phrase table", "show phrase-table.gz --model model")
@options.argument("path", metavar="MODEL|TABLE")
@heading("Input")
@options.file("--model", "Report how much of TABLE this model's shortlists cover.", "MODEL")
@options.report_format
def show(path: str, model: str | None, report_format: str) -> None:
    """Report the content of a model folder or a phrase table.

    A table is read once, as a stream; '-' is stdin. Logarithms are natural.
    """
    from phrasescore.workflows.show import show as run

    _print(run(path, model=model, progress=show_progress), report_format)
