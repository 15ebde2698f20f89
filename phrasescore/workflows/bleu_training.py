"""Train a network for a column of a system's phrase table, first for likelihood, then for BLEU."""

from dataclasses import replace
from pathlib import Path

from moses_integration.decoder.configuration import DecoderConfiguration
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError
from phrasescore.io.journal import digest_content
from phrasescore.io.output import check_files, optional_path
from phrasescore.models.checkpoint import TrainingRecord, load_checkpoint
from phrasescore.progress import ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import layer_settings
from phrasescore.settings.kinds import find_kind
from phrasescore.settings.training import ListTraining, NewNetwork, UnfinishedRun
from phrasescore.systems.system import read_system
from phrasescore.workflows.column_training import fine_tune_column
from phrasescore.workflows.experiment.texts import SystemText, find_alignment
from phrasescore.workflows.fold_lists import check_folds, write_fold_lists
from phrasescore.workflows.train import train
from phrasescore.workflows.work_folder import open_work_folder

# Training for BLEU needs less time: it learned no more after 6 minutes, with a network of 30.
BLEU_SHARE = 0.5


def train_for_bleu(
    kind: str,
    system: StrPath,
    text: tuple[StrPath, StrPath],
    output: StrPath,
    *,
    alignments: StrPath | None = None,
    model: StrPath | None = None,
    settings: NewNetwork = NewNetwork(),
    state: UnfinishedRun = UnfinishedRun(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TrainingRecord:
    """Train a network on a system's phrase table, and then for BLEU as a column of the table.

    `write_fold_lists` makes the lists for the second part, and `fine_tune_column` trains on them.
    Everything unfinished is in the folder ``OUTPUT.work``.

    :param system: the system, whose weights are tuned; its own features of lists are not used.
    :param text: the text that the system was built from, raw or in the system's words.
    :param alignments: the word alignment of the text; by default the file that `build` wrote.
    :param model: a network that was trained on the table, which is trained for BLEU only.
    :param settings: settings of the first part. The second part has at most half of its minutes, or
        all of them if it is the only one.
    """
    for each in (kind, *(() if model is None else (load_checkpoint(model).config.kind,))):
        if not find_kind(each).scores_phrases:
            raise ArgumentError(f"--system: expected a network for phrase tables, got a {each}")
    config = optional_path(settings.config)
    # A wrong setting is found here, before there is a folder.
    layer_settings(find_kind(kind), settings.preset, config, settings.all_changes())
    read = read_system(system)
    ini = read.read_ini()
    table = DecoderConfiguration.read(ini.path, read.paths_from).slot("PhraseDictionaryMemory")
    path = Path(table.arguments["path"])
    aligned, pair = optional_path(alignments), (Path(text[0]), Path(text[1]))
    check_files((*map(str, pair), aligned), ())
    inputs = {
        "the settings": repr((kind, settings, optional_path(model))),
        "the text": repr([digest_content(str(each)) for each in pair]),
        "the weights": repr(sorted(read.weights.search.items())),
    }
    with open_work_folder(output, inputs, resume=state.resume) as run:
        if run.is_published:
            run.publish(keep=state.keep_work)
            return load_checkpoint(output).record
        work = run.path
        own = SystemText.of(ini, path)
        source, target = own.prepare({"train": pair}, work / "text")["train"]
        links = find_alignment((path.parent, read.folder), (source, target))
        links = links if aligned is None else Path(aligned)
        if links is None:
            problem = "found no file aligned.* of the text beside the phrase table"
            raise ArgumentError(f"--alignments is missing: {problem}")
        check_folds(read, source, target, links)
        run.finish_step("text")
        start = work / "start" if model is None else Path(model)
        again = {
            "state": UnfinishedRun(resume=state.resume),
            "compute": compute,
            "progress": progress,
        }
        if not start.exists():
            train(kind, [path], start, settings=settings, **again)  # type: ignore[arg-type]
        lists = work / "lists"
        if not lists.exists():
            write_fold_lists(
                *(system, source, target, links, lists),
                resume=state.resume,
                compute=replace(compute, workers=compute.threads),
                progress=progress,
            )
        minutes = settings.minutes and settings.minutes * (BLEU_SHARE if model is None else 1)
        feature = f"{table.name}_{len(table.weights)}"
        if not run.files.exists():
            fine_tune_column(
                start,
                lists,
                source,
                target,
                run.files,
                kind=kind,
                settings=ListTraining(feature=feature, minutes=minutes, seed=settings.seed),
                **again,  # type: ignore[arg-type]
            )
        record = load_checkpoint(run.files).record
        run.publish(keep=state.keep_work)
    return record
