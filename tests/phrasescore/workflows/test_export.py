"""``phrasescore.export``: what Moses gets is what the network says."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import phrasescore
from phrasescore.errors import ConfigError, ModelError, PhrasescoreError
from tests import reference_cslm
from tests.doubles import RandomCslm, RandomJoint, RandomModel
from tests.reference_nplm import ReferenceBilingual, ReferenceNplm

INI = """\
[feature]
WordPenalty
KENLM name=LM0 factor=0 path=/lm order=4

[weight]
WordPenalty0= -1
LM0= 0.5 # tuned

[threads]
4
"""
ORDER = 4
# Sentences of one word and of more than an n-gram, with unknown words and literal symbols.
SENTENCES = ["u", "w v u w v u", "x v x x y", "v </s> <unk> u", ""]


def export_into_ini(folder: Path, output: str) -> None:
    phrasescore.export(
        folder / "cslm",
        folder / output,
        moses_ini=folder / "old.ini",
        moses_ini_out=folder / "new.ini",
    )


@pytest.fixture
def cslm(tmp_path: Path) -> RandomCslm:
    """A 4-gram model of three words in the folder ``cslm``, as if self-normalised."""
    return RandomCslm("uvw", order=ORDER, self_normalization=0.1, path=tmp_path / "cslm")


@pytest.fixture
def exported(cslm: RandomCslm, tmp_path: Path) -> ReferenceNplm:  # noqa: ARG001
    phrasescore.export(tmp_path / "cslm", tmp_path / "nplm")
    return ReferenceNplm(tmp_path / "nplm")


def test_moses_has_the_logits_of_every_word_of_a_sentence(
    cslm: RandomCslm, exported: ReferenceNplm
) -> None:
    for sentence in SENTENCES:
        # Of the literal symbols NPLM knows no other than its own, and the network none.
        words = sentence.replace("</s>", "x").split()
        padded = ["<s>"] * (ORDER - 1) + words + ["</s>"]
        ids = [0] * (ORDER - 1) + cslm.vocabulary.ids(words) + [0]
        for place in range(ORDER - 1, len(padded)):
            begin = place - ORDER + 1
            wanted = reference_cslm.logits(cslm.parameters, ids[begin:place])[ids[place]]
            found = exported.value(padded[begin : place + 1])
            assert found == pytest.approx(wanted, abs=1e-5)


def test_the_sum_over_nplm_s_words_is_the_network_s(
    cslm: RandomCslm, exported: ReferenceNplm
) -> None:
    """NPLM can normalise (testNeuralNetwork), and gives nothing to words that cannot come."""
    values = [exported.value(["u", "v", "w", word]) for word in exported.sections["\\output_vocab"]]
    logits = reference_cslm.logits(cslm.parameters, cslm.vocabulary.ids("uvw"))
    assert np.logaddexp.reduce(values) == pytest.approx(np.logaddexp.reduce(logits), abs=1e-5)


def test_a_word_that_moses_does_not_know_yet_is_the_mean_of_the_shortlist(
    cslm: RandomCslm, exported: ReferenceNplm
) -> None:
    parameters = dict(cslm.parameters)
    mean = parameters["embedding"][2:].mean(axis=0)
    parameters["embedding"] = np.vstack([parameters["embedding"], mean])
    null, u, v = len(cslm.vocabulary), *cslm.vocabulary.ids("uv")
    for words, context in (("v", [null, null, null]), ("uv", [null, null, u])):
        wanted = reference_cslm.logits(parameters, context)[v]
        assert exported.value(words) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.usefixtures("cslm")
def test_moses_ini_gets_the_feature_below_the_others_at_weight_0(tmp_path: Path) -> None:
    (tmp_path / "0.ini").write_text(INI)
    names = []
    for old, new in pairwise(("0.ini", "1.ini", "2.ini")):
        done = phrasescore.export(
            tmp_path / "cslm",
            tmp_path / new[0],
            moses_ini=tmp_path / old,
            moses_ini_out=tmp_path / new,
        )
        names.append(done.name)
    assert names == ["CSLM0", "CSLM1"]
    assert (done.kind, done.order, done.input_words) == ("NeuralLM", ORDER, len("uvw") + 4)
    features = [
        f"NeuralLM name=CSLM{n} factor=0 order=4 path={tmp_path / str(n + 1)}" for n in (0, 1)
    ]
    changed = INI.replace("order=4\n", "\n".join(["order=4", *features, ""]))
    changed = changed.replace("# tuned\n", "# tuned\nCSLM0= 0\nCSLM1= 0\n")
    assert (tmp_path / "2.ini").read_text() == changed


@pytest.mark.usefixtures("cslm")
def test_the_path_in_moses_ini_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.ini").write_text(INI)
    phrasescore.export("cslm", "nplm", moses_ini="old.ini", moses_ini_out="new.ini")
    assert f" path={tmp_path}/nplm\n" in Path("new.ini").read_text()


def test_other_networks_are_refused(tmp_path: Path) -> None:
    RandomModel(tmp_path / "rnn", "ab", "uv")
    with pytest.raises(ModelError) as caught:
        phrasescore.export(tmp_path / "rnn", tmp_path / "nplm")
    problem = "NPLM's text model supports networks of the kind cslm or joint, not encoder-decoder"
    assert str(caught.value) == f"{tmp_path}/rnn: {problem}"


def test_a_network_that_is_not_self_normalised_is_refused(tmp_path: Path) -> None:
    RandomCslm("uvw", path=tmp_path / "cslm")
    with pytest.raises(ModelError) as caught:
        phrasescore.export(tmp_path / "cslm", tmp_path / "nplm")
    assert str(caught.value) == (
        f"{tmp_path}/cslm: Moses omits log Z from NPLM's scores, but this network was trained "
        "without self-normalization; train one with --set model.self_normalization=0.1"
    )
    assert not (tmp_path / "nplm").exists()


def test_a_shortlist_with_a_word_of_nplm_s_own_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    RandomCslm(["u", "<null>"], self_normalization=0.1, path=tmp_path / "cslm")
    (tmp_path / "old.ini").write_text(INI)
    with pytest.raises(
        ModelError, match=r"^\S+/cslm: NPLM's .* hold the shortlist's word '<null>'"
    ):
        export_into_ini(tmp_path, "nplm")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cslm", "old.ini"]


@pytest.mark.usefixtures("cslm")
@pytest.mark.parametrize(
    ("output", "ini", "problem"),
    [
        ("a b", INI, r"^\S+old.ini: \[feature\] CSLM0: expected a path without blanks and '#'"),
        ("nplm", INI.replace("[weight]", "[x]"), r"^\S+old.ini: \[weight\]: expected a section"),
        ("nplm", "", r"^\S+old.ini: \[feature\]: expected a section for CSLM0, found none"),
    ],
)
def test_a_moses_ini_that_cannot_have_the_feature_is_refused(
    tmp_path: Path, output: str, ini: str, problem: str
) -> None:
    (tmp_path / "old.ini").write_text(ini)
    with pytest.raises(ConfigError, match=problem):
        export_into_ini(tmp_path, output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cslm", "old.ini"]


@pytest.mark.usefixtures("cslm")
def test_what_moses_reads_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "old.ini").write_text(INI.replace("/lm", f"{tmp_path}/lm"))
    with pytest.raises(PhrasescoreError, match="/lm: would overwrite another file"):
        export_into_ini(tmp_path, "lm")


def export_joint(folder: Path, **sizes: int) -> tuple[RandomJoint, ReferenceBilingual]:
    """Export a joint model of which each side has a word of the other, and read it as Moses."""
    joint = RandomJoint("abu", "uva", path=folder / "joint", **sizes)
    (folder / "old.ini").write_text(INI)
    done = phrasescore.export(
        folder / "joint",
        folder / "nplm",
        moses_ini=folder / "old.ini",
        moses_ini_out=folder / "new.ini",
    )
    assert (done.kind, done.name, done.input_words) == ("BilingualNPLM", "Joint0", 6 + 7)
    ini = (folder / "new.ini").read_text()
    [line] = [line for line in ini.splitlines() if line.startswith("BilingualNPLM ")]
    assert "Joint0= 0\n" in ini
    arguments = dict(word.split("=", 1) for word in line.split()[1:])
    # Of these alone Moses knows (BilingualLM_NPLM::SetParameter); it ends at another one.
    files = ["path", "source_vocab", "target_vocab"]
    assert list(arguments) == ["name", "order", "source_window", *files]
    assert all(Path(arguments[key]).is_absolute() for key in files)
    return joint, ReferenceBilingual(arguments)


@pytest.mark.parametrize(
    "sizes", [{}, {"upper_size": 0}, {"order": 5, "window": 0}], ids=["", "one layer", "no window"]
)
def test_moses_has_the_joint_model_s_logits_of_every_word_but_the_end(
    tmp_path: Path, sizes: dict[str, int]
) -> None:
    """Moses' phrase-based search does not score </s>. Some words here are unknown on a side."""
    joint, moses = export_joint(tmp_path, **sizes)
    for source, target, affiliations in (
        ("a b u x b a", "u v x a u v v", (0, 1, 4, 5, 2, 3, 3)),
        ("b", "a b", (0, 0)),
        ("v a", "v", (1,)),
    ):
        sentences = source.split(), target.split(), affiliations
        wanted = joint.word_scores(*sentences, normalized=False)[:-1]
        assert moses.word_scores(*sentences) == pytest.approx(wanted, abs=1e-5)


def test_the_target_words_of_moses_own_have_the_rows_of_a_language_model_s(tmp_path: Path) -> None:
    joint, moses = export_joint(tmp_path)
    read, written = joint.parameters["embedding"], moses.nplm.matrix("input_embeddings")
    targets = len("uva") + 2
    wanted = {"<unk>": read[1], "<s>": read[0], "</s>": read[0], "a": read[4]}
    wanted["<null>"] = read[2:targets].mean(axis=0)
    for word, row in wanted.items():
        assert written[moses.target_ids[word]] == pytest.approx(row, abs=1e-6)
    biases = moses.nplm.matrix("output_biases")[:, 0]
    assert biases[moses.target_ids["</s>"]] == pytest.approx(joint.parameters["output.bias"][0])
    assert biases[moses.target_ids["<null>"]] == -100
    assert moses.nplm.sections["\\output_vocab"] == list(moses.target_ids)
    assert moses.nplm.sections["\\input_vocab"] == [*moses.target_ids, *moses.source_ids]


@pytest.mark.parametrize(
    ("words", "settings", "output", "problem"),
    [
        (("ab", "uv"), {"self_normalization": 0.0}, "nplm", "joint: Moses omits log Z from"),
        ((["a", "<s>"], "u"), {}, "nplm", "shortlist's word '<s>': it is one of NPLM's own"),
        (("a", ["u", "b\vc"]), {}, "nplm", r"shortlist's word 'b\\x0bc': it contains a blank"),
        (("a", "u"), {}, "-", "--output: expected a file, not stdout: a joint also"),
        (("a", "u"), {}, "none/nplm", "none/nplm: cannot write: there is no folder"),
    ],
)
def test_a_joint_model_that_moses_cannot_have_is_refused_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, str],
    settings: dict[str, float],
    output: str,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    RandomJoint(*words, path=tmp_path / "joint", **settings)  # type: ignore[arg-type]
    with pytest.raises(PhrasescoreError, match=problem):
        phrasescore.export("joint", output)
    assert [path.name for path in tmp_path.iterdir()] == ["joint"]


def test_vocabularies_that_moses_reads_are_not_overwritten(tmp_path: Path) -> None:
    export_joint(tmp_path)
    for output in ("nplm", "nplm.source_vocab", "nplm.target_vocab"):
        with pytest.raises(PhrasescoreError, match=f"/{output}: would overwrite another file"):
            phrasescore.export(
                tmp_path / "joint",
                tmp_path / output,
                moses_ini=tmp_path / "new.ini",
                moses_ini_out=tmp_path / "newer.ini",
            )
