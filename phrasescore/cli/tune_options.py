"""The command line's options of ``phrasescore tune``, in groups."""

from typing import get_args

import click

from phrasescore.cli import from_settings, options
from phrasescore.cli.subjects import heading
from phrasescore.settings.compute import Compute
from tuning.settings import METHODS, METRICS, ReferenceLength


def _parse_metrics(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        name, separator, share = value.partition("=")
        try:
            weight = float(share) if separator else 1.0
        except ValueError:
            weight = 0.0
        if not name or not 0 < weight < float("inf") or name in found:
            problem = f"expected a metric once, as {METRICS[0]} or {METRICS[0]}=0.5, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
        found[name] = weight
    return found


# The options of ``tune`` that no other verb has.
own_options = options.together(
    # The lists, and the weights to start from.
    heading("Input"),
    options.files(
        "--references --refs",
        "Reference translations, line by line; again for another set. FILE0, FILE1 and so on "
        "where there is no FILE, as in mert-moses.pl.",
    ),
    options.flag("--allow-missing", "Take an empty translation for a sentence without a list."),
    options.files("--features", "Features as Moses' extractor writes them, in place of NBEST."),
    options.files("--scores", "Their BLEU statistics, in place of references."),
    options.file(
        "--weights start",
        "Start weights, those the lists were made with: 'Name= value' lines, or a moses.ini. "
        "Features without a weight start at 0.",
    ),
    options.file(
        "--ifile", "Start weights as mert has them (init.opt): numbers in the order of --features."
    ),
    options.file(
        "--moses-ini --config moses_ini",
        "The moses.ini to change; its weights are the start where --weights is not.",
    ),
    heading("Output"),
    options.file(
        "--moses-ini-out",
        "Where it goes with the new weights; features that no list has keep theirs.",
    ),
    options.file("--features-out", "Write the pooled lists for Moses' mert and kbmira (--ffile)."),
    options.file("--scores-out", "Write their BLEU statistics (--scfile)."),
    options.file("--ifile-out", "Write the weights for Moses' mert (--ifile)."),
    # The method.
    heading("Method"),
    options.choice(
        "--method",
        "mert for up to some twenty features; pro, mira and xbleu for many.",
        tuple(METHODS),
        default="mert",
    ),
    options.option(
        "--metric metrics",
        f"The metric to raise: {', '.join(METRICS)}, or another package's (phrasescore features "
        "lists them); of several, their weighted mean.",
        multiple=True,
        metavar="NAME[=WEIGHT]",
        default=("bleu",),
        callback=_parse_metrics,
    ),
    options.choice(
        "--reference-length",
        "Of several references, whose length BLEU takes.",
        get_args(ReferenceLength),
        default="closest",
    ),
    options.count(
        "--starts --random-restarts starts",
        "Of mert: random starts besides the given weights.",
        least=0,
        default=20,
    ),
    options.count(
        "--plateau-smoothing",
        "Of mert: a weight is worth no more than the worst of the N intervals of its line on "
        "each side.",
        least=0,
        default=0,
    ),
    options.count(
        "--replicas", "Run with N seeds, report the spread, and average the weights.", default=1
    ),
    options.count(
        "--cross-validate",
        "Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
        least=2,
        metavar="K",
    ),
    options.option(
        "--fix fixed",
        "Leave the weights of this feature alone; NAME_0 for its first value.",
        multiple=True,
        metavar="NAME",
    ),
    # Rounds with a decoder; second names are those of mert-moses.pl.
    heading("Rounds with a decoder"),
    options.option(
        "--decoder",
        "Decode, pool and optimise in rounds. Moses' command, as 'moses -f moses.ini'; "
        "'embedded', the search of phrasescore decode, with --config; or another command, with "
        "{nbest}, {weights} and {size} in it.",
        metavar="COMMAND",
    ),
    options.option(
        "--decoder-flags",
        "More options of that command; of embedded, options of phrasescore decode.",
        metavar="FLAGS",
        default="",
        show_default=False,
    ),
    options.file("--source --input", "The text that is decoded."),
    options.file(
        "--working-dir folder",
        "Where the loop keeps lists, logs, its state and the best moses.ini.",
        "DIR",
        default="mert-work",
    ),
    options.count("--iterations --maximum-iterations iterations", "Rounds at most.", default=25),
    options.count("--nbest-size --nbest nbest_size", "Hypotheses per list.", default=100),
    options.count(
        "--patience", "Rounds without a better translation after which the loop ends.", default=5
    ),
    heading("Output"),
    options.file(
        "--translations", "Write the best round's translations of --source: its lists, reranked."
    ),
    heading("Networks and features"),
    options.files(
        "--rescore rescore_models", "Add this model's score to the lists of each round.", "MODEL"
    ),
    options.files(
        "--rescore-lm rescore_language_models",
        "Add an n-gram model's score to them, as rescore --lm does.",
    ),
    options.files(
        "--rescore-lexicon rescore_lexicons",
        "Add the score of Moses' lex.f2e to them, as rescore --lexicon does.",
    ),
    options.files(
        "--rescore-reverse-lexicon rescore_reverse_lexicons",
        "Add the score of Moses' lex.e2f to them, as rescore --reverse-lexicon does.",
    ),
    options.option(
        "--rescore-feature rescore_features",
        "Add this feature to them, as rescore --feature does.",
        multiple=True,
        metavar="NAME[@N]",
        callback=options.check_features,
    ),
    from_settings.of(Compute, only=("engine", "workers", "ray_address", "allow_unlike")),
    heading("Long runs"),
    options.flag("--resume --continue resume", "Go on with the run in --working-dir."),
    heading("Output"),
    options.file(
        "--report", "Write each feature's weight, its contribution, and the metric without it."
    ),
)
