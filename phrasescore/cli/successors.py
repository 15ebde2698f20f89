"""What took the place of the verbs, options and values of earlier versions, for error messages.

An old word is not accepted: the error names its successor, or the cure, in one line.
"""

from collections.abc import Mapping

import click

# The successor of each verb that is gone.
VERBS: Mapping[str, str] = {
    "doctor": "show without an argument says what works on this machine",
    "features": "show without an argument lists the features and metrics",
    "combine": "rerank one system's lists: joining the lists of several systems gained nothing",
}

# The successor of each option that is gone, by verb and option; of a value, by verb, option and
# value.
OPTIONS: Mapping[tuple[str, ...], str] = {
    ("rescore", "--scores-command"): "use --command",
    ("score", "--scores-command"): "use --command",
    ("train", "--preset", "attention-small"): "use rnnsearch-small",
    ("train", "--preset", "small"): "use encoder-decoder-small",
    ("tune", "--rescore-scores-command"): "use --rescore-command",
    ("evaluate", "--nbest"): "name the lists with --lists",
    ("select", "--scores"): "use --differences",
    ("generate", "--augment"): "the new phrase pairs gained little",
    ("generate", "--targets"): "it belonged to --augment, which is gone",
    ("generate", "--min-probability"): "it belonged to --augment, which is gone",
    ("generate", "--min-count"): "it belonged to --augment, which is gone",
    ("generate", "--sources"): "it belonged to --augment, which is gone",
    ("generate", "--max-phrase-length"): "it belonged to --augment, which is gone",
    ("generate", "--reverse-model"): "it belonged to --augment, which is gone",
    ("generate", "--lexicon"): "it belonged to --augment, which is gone",
    ("generate", "--reverse-lexicon"): "it belonged to --augment, which is gone",
    ("generate", "--scores"): "it belonged to --augment, which is gone",
    ("generate", "--no-indicator"): "it belonged to --augment, which is gone",
    ("generate", "--moses-ini"): "it belonged to --augment, which is gone",
    ("generate", "--moses-ini-out"): "it belonged to --augment, which is gone",
    ("generate", "--resume"): "it belonged to --augment, which is gone",
    ("experiment", "--export"): "run experiment itself, with several jobs in [engine]",
    ("experiment", "--folder"): "it belonged to --export, which is gone; -o names the folder",
    ("perplexity", "--log-z"): "score with and without --unnormalized: the difference is log Z",
    ("perplexity", "--mix-on"): "with both as features, tune finds their weights",
    ("select", "--random"): "shuf draws lines; for parallel text: paste SOURCE TARGET | shuf",
    ("select", "--seed"): "it belonged to --random, which is gone",
    ("show", "--model"): "show does not read phrase tables",
    ("generate", "--ctranslate2"): "CTranslate2 translates by itself; rescore has its scores",
    ("generate", "--source-spm"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--target-spm"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--source-language"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--target-language"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--source-prefix"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--source-suffix"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--target-prefix"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--prompt"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--moses-tokens"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--detruecase"): "it belonged to --ctranslate2, which is gone",
    ("generate", "--truecase-model"): "it belonged to --ctranslate2, which is gone",
    ("evaluate", "--plot"): "report --translation draws these groups of sentences",
    ("rerank", "--mbr"): "use --weights or --average; mbrs (PyPI) selects by minimum Bayes risk",
    ("rerank", "--mbr-scale"): "mbrs (PyPI) selects by minimum Bayes risk",
    ("rerank", "--mbr-metric"): "mbrs (PyPI) selects by minimum Bayes risk, with many metrics",
    ("tune", "--input"): "it is --source",
    ("tune", "--refs"): "it is --references",
    ("tune", "--nbest"): "it is --nbest-size",
    ("tune", "--maximum-iterations"): "it is --iterations",
    ("tune", "--random-restarts"): "it is --starts",
    ("tune", "--continue"): "it is --resume",
    ("tune", "--method", "pro"): "use --method xbleu or mira, which were better on the real task",
    ("tune", "--reference-length"): "it is the closest one, as in multi-bleu.perl",
    ("tune", "--replicas"): "use --method xbleu, which is not random, or several --seed",
    ("tune", "--plateau-smoothing"): "--method xbleu maximises a smooth function",
    ("tune", "--cross-validate"): "tune with each --method, and compare them on other text",
    ("tune", "--features"): "give the n-best lists and --references; tune reads no extractor files",
    ("tune", "--scores"): "give the n-best lists and --references; tune reads no extractor files",
    ("tune", "--ifile"): "give the start weights by name: --weights or --moses-ini",
    ("tune", "--features-out"): "Moses' extractor makes its files from n-best lists",
    ("tune", "--scores-out"): "Moses' extractor makes its files from n-best lists",
    ("tune", "--ifile-out"): "mert-moses.pl writes init.opt from a moses.ini: use --moses-ini-out",
    ("rerank", "--source"): "only --mbr, which is gone, had a metric that read the source",
    ("report", "--lines"): "give a --source that has only these lines",
    ("report", "--long"): "source phrases of 4 words or more count as long",
    ("report", "--map-points"): "a map has at most 1,000 points",
    ("report", "--only", "steps"): "the folder's steps.toml has the commands and their times",
    ("report", "--points"): "the plot of scores has 2,000 random pairs",
    ("report", "--seed"): "equal inputs always give equal reports",
    ("report", "--sentences"): "five random sentences are shown",
    ("report", "--table-score"): "Moses' third score is compared, the first one with --reverse",
    ("rescore", "--unnormalized"): "--column 'model = \"M\", unnormalized = true'",
    ("rescore", "--backoff-lm"): '--column \'model = "M", backoff_lm = "FILE"\'',
    ("rescore", "--answer-timeout"): "--column 'command = \"C\", timeout = 60'",
    ("rescore", "--source-spm"): "--column 'ctranslate2 = ..., source_spm = ...'",
    ("rescore", "--target-spm"): "--column 'ctranslate2 = ..., target_spm = ...'",
    ("rescore", "--source-language"): "--column 'ctranslate2 = ..., source_language = ...'",
    ("rescore", "--target-language"): "--column 'ctranslate2 = ..., target_language = ...'",
    ("rescore", "--source-prefix"): "--column 'ctranslate2 = ..., source_prefix = ...'",
    ("rescore", "--source-suffix"): "--column 'ctranslate2 = ..., source_suffix = ...'",
    ("rescore", "--target-prefix"): "--column 'ctranslate2 = ..., target_prefix = ...'",
    ("rescore", "--prompt"): "--column 'ctranslate2 = ..., prompt = ...'",
    ("rescore", "--moses-tokens"): "--column 'ctranslate2 = ..., moses_tokens = ...'",
    ("rescore", "--detruecase"): "--column 'ctranslate2 = ..., detruecase = ...'",
    ("score", "--unnormalized"): "--column 'model = \"M\", unnormalized = true'",
    ("score", "--backoff-lm"): '--column \'model = "M", backoff_lm = "FILE"\'',
    ("score", "--answer-timeout"): "--column 'command = \"C\", timeout = 60'",
    ("score", "--source-spm"): "--column 'ctranslate2 = ..., source_spm = ...'",
    ("score", "--target-spm"): "--column 'ctranslate2 = ..., target_spm = ...'",
    ("score", "--source-language"): "--column 'ctranslate2 = ..., source_language = ...'",
    ("score", "--target-language"): "--column 'ctranslate2 = ..., target_language = ...'",
    ("score", "--source-prefix"): "--column 'ctranslate2 = ..., source_prefix = ...'",
    ("score", "--source-suffix"): "--column 'ctranslate2 = ..., source_suffix = ...'",
    ("score", "--target-prefix"): "--column 'ctranslate2 = ..., target_prefix = ...'",
    ("score", "--prompt"): "--column 'ctranslate2 = ..., prompt = ...'",
    ("score", "--moses-tokens"): "--column 'ctranslate2 = ..., moses_tokens = ...'",
    ("score", "--detruecase"): "--column 'ctranslate2 = ..., detruecase = ...'",
    ("tune", "--unnormalized"): "--rescore-column 'model = \"M\", unnormalized = true'",
    ("tune", "--backoff-lm"): '--rescore-column \'model = "M", backoff_lm = "FILE"\'',
    ("tune", "--answer-timeout"): "--rescore-column 'command = \"C\", timeout = 60'",
    ("tune", "--source-spm"): "--rescore-column 'ctranslate2 = ..., source_spm = ...'",
    ("tune", "--target-spm"): "--rescore-column 'ctranslate2 = ..., target_spm = ...'",
    ("tune", "--source-language"): "--rescore-column 'ctranslate2 = ..., source_language = ...'",
    ("tune", "--target-language"): "--rescore-column 'ctranslate2 = ..., target_language = ...'",
    ("tune", "--source-prefix"): "--rescore-column 'ctranslate2 = ..., source_prefix = ...'",
    ("tune", "--source-suffix"): "--rescore-column 'ctranslate2 = ..., source_suffix = ...'",
    ("tune", "--target-prefix"): "--rescore-column 'ctranslate2 = ..., target_prefix = ...'",
    ("tune", "--prompt"): "--rescore-column 'ctranslate2 = ..., prompt = ...'",
    ("tune", "--moses-tokens"): "--rescore-column 'ctranslate2 = ..., moses_tokens = ...'",
    ("tune", "--detruecase"): "--rescore-column 'ctranslate2 = ..., detruecase = ...'",
    ("rescore", "--normalize"): "--column 'model = \"M\", normalize = true'",
    ("rescore", "--name"): '--column \'model = "M", name = "N"\'',
    ("evaluate", "--scores-command"): "use --command",
    ("report", "--tuning-report"): "tune --report writes the same numbers as text",
    ("evaluate", "--seed"): "the seed is sacrebleu's, 12345",
    ("evaluate", "--trials"): "bootstrap takes 1000 and approximate 10000, as in sacrebleu",
    ("evaluate", "--width"): "a group has ten lengths",
    ("experiment", "--resume"): "the same command continues a run that was stopped",
    ("experiment", "--step"): "experiment runs its steps itself, jobs in [engine] at a time",
    ("annotate", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("annotate", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("rescore", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("rescore", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("score", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("score", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("decode", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("decode", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("generate", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("generate", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("tune", "--ray-address"): "set RAY_ADDRESS, the variable of Ray itself",
    ("tune", "--allow-unlike"): "use machines with equal processors, or a job for each machine",
    ("train", "--work-dir"): "the folder is MODEL.work; for another disk, write MODEL there",
    ("select", "--processes"): "all cores score; taskset limits them",
    ("build", "--reordering"): "it is wbe-msd-bidirectional-fe, or none with --characters",
    ("build", "--symmetrization"): "it is grow-diag-final-and; --alignments takes any other",
    ("build", "--min-count"): "prune the table by significance, or filter the counts in field 5",
    ("export", "--format"): "the format is NPLM's text format, the only one",
    ("annotate", "--keep-others"): "the texts of --for need no other lines",
    ("segment", "--swapped"): "train the reverse model with --reverse",
    ("generate", "--name"): "the lists' feature has the network's name; sed can change it",
    ("generate", "--temperature"): "samples are drawn by the network's own probabilities",
    ("generate", "--top"): "the samples of a line are sorted, the best one first: use awk or head",
    ("segment", "--candidates"): "all hypotheses in the beam are candidates: use --beam",
    ("segment", "--min-length"): "translate the short sentences with generate",
    ("segment", "--seed"): "equal inputs always give equal segments",
}


def verb_problem(verb: str) -> str | None:
    """Return the error for a verb of an earlier version, or None for any other word."""
    return f"{verb} is gone: {VERBS[verb]}" if verb in VERBS else None


def option_problem(verb: str, error: click.UsageError) -> str | None:
    """Return the error for an option or a value of an earlier version, or None for others."""
    words: list[tuple[str, ...]] = []
    if isinstance(error, click.NoSuchOption):
        words = [(error.option_name,)]
    elif isinstance(error, click.BadParameter) and error.param is not None:
        # click's message for a choice begins with the value in quotation marks.
        value = error.message.partition("'")[2].partition("'")[0]
        words = [(option, value) for option in error.param.opts]
    for each in words:
        if (verb, *each) in OPTIONS:
            return f"{' '.join(each)} is gone: {OPTIONS[verb, *each]}"
    return None
