"""The NPLM files of `phrasescore.workflows.export`: NPLM reads the numbers and words they had."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phrasescore.errors import ModelError
from phrasescore.workflows.export import (
    MOSES_BLANKS,
    NPLM_BLANKS,
    NplmLayer,
    NplmNetwork,
    check_words,
    write_nplm,
)
from tests.reference_nplm import ReferenceNplm


def numbers(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return float32 numbers of all sizes, down to those that are not normal."""
    exponents = rng.uniform(-44, 38, shape)
    return (rng.choice([-1, 1], shape) * 10.0**exponents).astype(np.float32)


def network(inputs: list[str], outputs: list[str]) -> NplmNetwork:
    rng = np.random.default_rng(1)
    return NplmNetwork(
        inputs,
        outputs,
        "tanh",
        numbers(rng, len(inputs), 2),
        NplmLayer(numbers(rng, 5, 3 * 2), numbers(rng, 5)),
        NplmLayer(numbers(rng, 3, 5), numbers(rng, 3)),
        NplmLayer(numbers(rng, len(outputs), 3), numbers(rng, len(outputs))),
    )


def test_a_file_holds_every_number_to_the_last_bit_and_the_words_of_each_side(
    tmp_path: Path,
) -> None:
    wanted = network(["<unk>", "la", "été", "the"], ["<unk>", "la", "été"])
    path = tmp_path / "nplm"
    with path.open("wb") as output:
        write_nplm(wanted, output)
    found = ReferenceNplm(path)
    # The names are those of NPLM's model::readConfig.
    assert found.config == {
        "version": "1",
        "ngram_size": "4",
        "input_vocab_size": "4",
        "output_vocab_size": "3",
        "input_embedding_dimension": "2",
        "num_hidden": "5",
        "output_embedding_dimension": "3",
        "activation_function": "tanh",
    }
    assert found.sections["\\input_vocab"] == ["<unk>", "la", "été", "the"]
    assert found.sections["\\output_vocab"] == ["<unk>", "la", "été"]
    assert np.array_equal(found.matrix("input_embeddings"), wanted.input_embeddings)
    layers = {"hidden_{} 1": wanted.first, "hidden_{} 2": wanted.second, "output_{}": wanted.output}
    for name, layer in layers.items():
        assert layer is not None
        assert np.array_equal(found.matrix(name.format("weights")), layer.weights)
        assert np.array_equal(found.matrix(name.format("biases"))[:, 0], layer.biases)
    assert path.read_bytes().endswith(b"\n\n\\end\n")


def test_one_layer_is_for_nplm_no_hidden_units_and_the_output_embedding(tmp_path: Path) -> None:
    """NPLM's model::resize: the first layer has output_embedding_dimension units then."""
    two = network(["<unk>", "a"], ["<unk>"])
    one = two._replace(
        second=None, output=NplmLayer(two.first.weights[:1, :5], two.first.biases[:1])
    )
    with (tmp_path / "nplm").open("wb") as output:
        write_nplm(one, output)
    found = ReferenceNplm(tmp_path / "nplm")
    config = found.config
    assert (config["num_hidden"], config["output_embedding_dimension"]) == ("0", "5")
    assert found.matrix("hidden_weights 1").shape == (5, 3 * 2)
    assert "\\hidden_weights 2" not in found.sections


@pytest.mark.parametrize(
    ("words", "blanks", "problem"),
    [
        (["<unk>", "a\tb"], NPLM_BLANKS, "'a\\tb': it contains a blank"),
        # Moses' ``>>`` cuts here, NPLM does not.
        (["<unk>", "a\fb"], MOSES_BLANKS, "'a\\x0cb': it contains a blank"),
        (["<unk>", "<s>", "<s>"], NPLM_BLANKS, "'<s>': it is one of NPLM's own words"),
    ],
)
def test_words_that_are_read_as_others_are_refused(
    words: list[str], blanks: str, problem: str
) -> None:
    with pytest.raises(ModelError) as caught:
        check_words(words, blanks)
    assert str(caught.value) == f"NPLM's text model cannot hold the shortlist's word {problem}"


def test_nplm_reads_words_with_other_white_space_as_they_are() -> None:
    check_words(["<unk>", "a\fb", "a\u00a0b"])
