# The public names, their homes, and examples for `help`. `phrasescore/__init__.py` imports them on
# first use.

# phrasescore.translate("system", "test.en", "test.fr", nbest=("test.nbest", ListRequest(100)))
from moses_integration.decoder.moses import ListRequest as ListRequest

# best: Hypothesis = phrasescore.read_lists("test.nbest")[0][0]
# print(best.words, best.features["LM0"], best.score)
from moses_integration.nbest_values import Hypothesis as Hypothesis

# lists = read_lists("test.nbest.gz")
# print(len(lists), lists[0][0].words)
from moses_integration.nbest_values import read_lists as read_lists

# try:
#     phrasescore.train("cslm", ["train.fr"], "cslm")
# except StoppedError as stopped:  # the run can be resumed
#     print(stopped.signal)
from phrasescore.errors import StoppedError as StoppedError

# table: SystemsTable = phrasescore.run_experiment("experiment.toml", "out")
# print(table.best, table.rows[0].scores["test"].mean)
from phrasescore.evaluation.systems_table import SystemsTable as SystemsTable

# column = CTranslate2Model("ct2-en-fr", target_language="fr")
# phrasescore.rescore("test.nbest", "test.en", [column], "test.rescored")
from phrasescore.features.foreign import CTranslate2Model as CTranslate2Model

# column = GivenScores("lengths", name="Length0")  # a number per hypothesis
# phrasescore.rescore("test.nbest", "test.en", [column], "test.rescored")
from phrasescore.features.given_scores import GivenScores as GivenScores

# phrasescore.rescore("test.nbest", "test.en", [LanguageModel("lm.arpa")], "test.rescored")
from phrasescore.features.language_model import LanguageModel as LanguageModel

# phrasescore.annotate("phrase-table.gz", [Lexicon("lex.f2e")], "new.gz")
from phrasescore.features.lexicon import Lexicon as Lexicon

# phrasescore.annotate("phrase-table.gz", [ReverseLexicon("lex.e2f")], "new.gz")
from phrasescore.features.lexicon import ReverseLexicon as ReverseLexicon

# phrasescore.score("test.en", "test.fr", [Network("joint", unnormalized=True)], "scores")
from phrasescore.features.model import Network as Network

# phrasescore.annotate("moses.ini", ["model", NamedFeature("unknown_words")], "with-rnn")
from phrasescore.features.named import NamedFeature as NamedFeature

# column = Command("python qe.py", timeout=60)
# phrasescore.rescore("test.nbest", "test.en", [column], "test.rescored")
from phrasescore.features.program import Command as Command

# model = phrasescore.load_model("rnnsearch")
# best: Generated = next(iter(model.translate(["the house"])))
# print(best.words, best.log_prob)
from phrasescore.generation.generator import Generated as Generated

# done: SegmentSummary = phrasescore.segment("test.en", "model", "test.fr", reverse_model="back")
# print(done.summary())
from phrasescore.generation.segmentation import SegmentSummary as SegmentSummary

# points: tuple[CurvePoint, ...] = phrasescore.load_model("model").record.curve
# print(points[-1].minutes, points[-1].validation_perplexity)
from phrasescore.models.checkpoint import CurvePoint as CurvePoint

# record: TrainingRecord = phrasescore.train("cslm", ["train.fr"], "cslm")
# print(record.updates, record.stopped_by)
from phrasescore.models.checkpoint import TrainingRecord as TrainingRecord

# translations = HypothesisList("the house", ["la maison", "le chat"])
# print(list(phrasescore.load_model("rnnsearch").score_lists([translations])))
from phrasescore.records import HypothesisList as HypothesisList

# pair = PhrasePair("the house", "la maison")
# print(pair.source, pair.target)
from phrasescore.records import PhrasePair as PhrasePair

# weights = WeightPair({"LM0": (0.5,)}, {"LM0": (0.4,), "RNNsearch0": (0.2,)})
# phrasescore.export_system("system", "moses.ini", weights=weights)
from phrasescore.records import WeightPair as WeightPair

# made: ReportSummary = phrasescore.make_report("report", experiment="out")
# print(made.page, made.sections)
from phrasescore.report.make_report import ReportSummary as ReportSummary

# make_report("report", "phrase-table.gz", models=["model"])
from phrasescore.report.make_report import make_report as make_report

# settings = Building(tokenize=("en", "fr"), truecase=True)
# phrasescore.build("train.en", "train.fr", "system", settings=settings)
from phrasescore.settings.building import Building as Building

# phrasescore.build_lm(["train.fr"], "lm.arpa", settings=Estimating(order=3, prune=(0, 0, 1)))
from phrasescore.settings.building import Estimating as Estimating

# phrasescore.load_model("model", compute=Compute(device="cuda:1", precision="bfloat16"))
from phrasescore.settings.compute import Compute as Compute

# settings = Evaluating(metrics=("bleu", "chrf++"), tokenize="13a", paired="approximate")
# phrasescore.evaluate(["first.fr", "second.fr"], ["test.fr"], settings=settings)
from phrasescore.settings.evaluation import Evaluating as Evaluating

# fifth = Selecting(share=0.2)
# phrasescore.select("all.fr", "part.fr", in_domain="in.arpa", general="all.arpa", settings=fifth)
from phrasescore.settings.evaluation import Selecting as Selecting

# phrasescore.generate("test.en", "rnnsearch", "test.fr", settings=Generating(beam=4))
from phrasescore.settings.scoring import Generating as Generating

# settings = Rescoring(cache="scores.cache")
# phrasescore.rescore("test.nbest", "test.en", ["model"], "test.rescored", settings=settings)
from phrasescore.settings.scoring import Rescoring as Rescoring

# settings = Segmenting(beam=2, max_segment=5)
# phrasescore.segment("test.en", "model", "test.fr", reverse_model="back", settings=settings)
from phrasescore.settings.scoring import Segmenting as Segmenting

# settings = TextScoring(ensemble=True)
# phrasescore.score("test.en", "test.fr", ["one", "two"], "scores", settings=settings)
from phrasescore.settings.scoring import TextScoring as TextScoring

# settings = ListTraining(minutes=10, feature="TranslationModel0_4")
# lists, references = ["dev.nbest"], ["dev.fr"]
# phrasescore.fine_tune("model", lists, "dev.en", references, "weights", "new", settings=settings)
from phrasescore.settings.training import ListTraining as ListTraining

# settings = ListTuning(method="xbleu")
# phrasescore.tune(["dev.nbest"], ["dev.fr"], "moses.ini", "weights", settings=settings)
from phrasescore.settings.training import ListTuning as ListTuning

# settings = NewNetwork(minutes=30, changes=["training.batch_size=64"])
# phrasescore.train("rnnsearch", ["train.en", "train.fr"], "rnnsearch", settings=settings)
from phrasescore.settings.training import NewNetwork as NewNetwork

# settings = RoundTuning(method="xbleu", iterations=6)
# phrasescore.tune_system("system", "dev.en", ["dev.fr"], "tuned", settings=settings)
from phrasescore.settings.training import RoundTuning as RoundTuning

# phrasescore.train("cslm", ["train.fr"], "cslm", state=UnfinishedRun(resume=True))
from phrasescore.settings.training import UnfinishedRun as UnfinishedRun

# system = phrasescore.read_system("system", ["limits.stack=30"])
# write_system(system, pathlib.Path("faster"))
from phrasescore.systems.folder import write_system as write_system

# with phrasescore.load_system("system") as translator:
#     found: Translation = next(iter(translator.translate(["The house is small."])))
# print(found.text, found.words)
from phrasescore.systems.ranking import Translation as Translation

# system: System = phrasescore.read_system("system")
# print(dataclasses.replace(system, nbest_size=200).lists)
from phrasescore.systems.system import System as System

# system = read_system("out/+RNNsearch", ["limits.stack=30"])
# print(system.weights.lists)
from phrasescore.systems.system import read_system as read_system

# with Translator(phrasescore.read_system("system")) as translator:
#     print(next(iter(translator.translate(["The house is small."]))).text)
from phrasescore.systems.translator import Translator as Translator

# with load_system("out") as translator:
#     print(next(iter(translator.translate(["The house is small."]))).text)
from phrasescore.systems.translator import load_system as load_system

# found: TuneOutcome = phrasescore.tune(["dev.nbest"], ["dev.fr"], "moses.ini")
# print(found.report.last_line(), found.weights.lists)
from phrasescore.systems.tuning import TuneOutcome as TuneOutcome
from phrasescore.version import __version__ as __version__

# done: AnnotateSummary = phrasescore.annotate("phrase-table.gz", ["model"], "new.gz")
# print(done.scored, done.columns)
from phrasescore.workflows.annotate import AnnotateSummary as AnnotateSummary

# annotate("moses.ini", ["model"], "with-rnn", resume=True)
from phrasescore.workflows.annotate import annotate as annotate

# text = ("train.en", "train.fr")
# train_for_bleu("encoder-decoder", "moses.ini", text, "model", alignments="aligned")
from phrasescore.workflows.bleu_training import train_for_bleu as train_for_bleu

# done: BuildLmSummary = phrasescore.build_lm(["train.fr"], "lm.arpa")
# print(done.lines, done.ngrams)
from phrasescore.workflows.building.language_model import BuildLmSummary as BuildLmSummary

# build_lm(["train.fr", "more.fr"], "lm.arpa.gz")
from phrasescore.workflows.building.language_model import build_lm as build_lm

# done: BuildSummary = phrasescore.build("train.en", "train.fr", "system")
# print(done.pairs, done.moses_ini)
from phrasescore.workflows.building.system import BuildSummary as BuildSummary

# build("train.en", "train.fr", "system", alignments="aligned.grow-diag-final-and")
from phrasescore.workflows.building.system import build as build

# found: Evaluation = phrasescore.evaluate(["test.out"], ["test.fr"])
# print(found.systems[0].multi_bleu.bleu)  # from 0 to 1
from phrasescore.workflows.evaluate import Evaluation as Evaluation

# evaluate({"one": ["la maison est petite"]}, [["la maison est petite"]])
from phrasescore.workflows.evaluate import evaluate as evaluate

# texts = {"train": ["train.en", "train.fr"], "dev": ["dev.en", "dev.fr"]}
# new: NewExperiment = phrasescore.init_experiment(
#     "system", "experiment.toml", **texts, tests=[["test.en", "test.fr"]]
# )
# print(new.rows, new.seconds)
from phrasescore.workflows.experiment.init import NewExperiment as NewExperiment

# texts = {"train": ["train.en", "train.fr"], "dev": ["dev.en", "dev.fr"]}
# tests = [["test.en", "test.fr"]]
# init_experiment("system", "experiment.toml", **texts, tests=tests, minutes=60)
from phrasescore.workflows.experiment.init import init_experiment as init_experiment

# table = run_experiment("experiment.toml", "out", rows=["+RNNsearch"])
# print(table)
from phrasescore.workflows.experiment.run import run_experiment as run_experiment

# done: ExportSummary = phrasescore.export("joint", "joint.nplm")
# print(done.name, done.order)
from phrasescore.workflows.export import ExportSummary as ExportSummary

# export("cslm", "cslm.nplm", moses_ini="moses.ini", moses_ini_out="moses.nplm.ini")
from phrasescore.workflows.export import export as export

# export_system("tuned", "moses.tuned.ini")
from phrasescore.workflows.export import export_system as export_system

# fine_tune("model", ["dev.nbest"], "dev.en", ["dev.fr"], "weights", "new")
from phrasescore.workflows.fine_tune import fine_tune as fine_tune

# done: GenerateSummary = phrasescore.generate("test.en", "rnnsearch", "test.fr")
# print(done.lines, done.unfinished)
from phrasescore.workflows.generate import GenerateSummary as GenerateSummary

# generate("test.en", "rnnsearch", "test.fr", nbest=("test.nbest", 10))
from phrasescore.workflows.generate import generate as generate

# model: ScoringModel = phrasescore.load_model("model")
# print(model.score(["the house"], ["la maison"]))
from phrasescore.workflows.load_model import ScoringModel as ScoringModel

# model = load_model("model")
# print(model.score(["the house"], ["la maison"]))  # natural logarithms
from phrasescore.workflows.load_model import load_model as load_model

# found: list[TextPerplexities] = phrasescore.perplexity(["test.fr"], model="cslm")
# print(found[0].models["network, <unk>"].including_unknown)
from phrasescore.workflows.perplexity import TextPerplexities as TextPerplexities

# perplexity(["test.fr"], model="cslm", lm="lm.fr.arpa.gz")
from phrasescore.workflows.perplexity import perplexity as perplexity

# done: RerankSummary = phrasescore.rerank("test.nbest", "test.fr", weights="weights")
# print(done.moved, done.sentences)
from phrasescore.workflows.rerank import RerankSummary as RerankSummary

# rerank("test.nbest", "test.fr", weights={"LM0": 0.5, "RNNsearch0": 0.2})
from phrasescore.workflows.rerank import rerank as rerank

# rescore("test.nbest", "test.en", ["rnnsearch"], "test.rescored.gz")
from phrasescore.workflows.rescore import rescore as rescore

# done: ScoreSummary = phrasescore.score("test.en", "test.fr", ["model"], "scores")
# print(done.pairs, done.features)
from phrasescore.workflows.score import ScoreSummary as ScoreSummary

# score("test.en", "test.fr", ["rnnsearch", "back"], "scores")
from phrasescore.workflows.score import score as score

# segment("test.en", "model", "test.fr", reverse_model="back")
from phrasescore.workflows.segment import segment as segment

# models = {"in_domain": "news.arpa", "general": "all.arpa"}
# settings = phrasescore.Selecting(lines=1000)
# done: SelectSummary = phrasescore.select("all.fr", "part.fr", **models, settings=settings)
# print(done.kept, done.highest_difference)
from phrasescore.workflows.select import SelectSummary as SelectSummary

# models = {"in_domain": "news.arpa", "general": "all.arpa"}
# select("all.fr", "part.fr", **models, settings=phrasescore.Selecting(share=0.2))
from phrasescore.workflows.select import select as select

# print(show("system"))  # or a model, or the folder of an experiment
from phrasescore.workflows.show import show as show

# train("rnnsearch", ["train.en", "train.fr"], "rnnsearch")
from phrasescore.workflows.train import train as train

# done: TranslateSummary = phrasescore.translate("system", "test.en", "test.fr")
# print(done.sentences, done.untranslated)
from phrasescore.workflows.translate import TranslateSummary as TranslateSummary

# translate("system", "test.en", "test.fr", changes=["limits.stack=30"])
from phrasescore.workflows.translate import translate as translate

# tune(["dev.nbest"], ["dev.fr"], "moses.ini", "weights")
from phrasescore.workflows.tune_lists import tune as tune

# tune_system("system", "dev.en", ["dev.fr"], "tuned")
from phrasescore.workflows.tune_system import tune_system as tune_system

# settings = TuneSettings(threads=4, starts=10)
# print(settings.fixed)
from tuning.settings import TuneSettings as TuneSettings

__all__: list[str]
