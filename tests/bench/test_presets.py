"""Checkpoints as presets of keras-hub: loaded by its classes, and imported again."""

from dataclasses import asdict

import h5py
import numpy as np
import pytest

import ptmbench
from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, _keras_arrays
from ptmbench.models.text.template import BERT, ROBERTA
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made, presets

SIZE = Size(layers=2, width=16, heads=2, inner=24, length=400)
TEXTS = [*made.HARD, *made.SPELLED]
DEVIATIONS = {
    "wordpiece": (
        "spaces beyond ASCII, control and format characters, words of more than 100 bytes, Emoji",
        {5, 7, 9, 10},
    ),
    "unigram": ("control and format characters, the sign for spaces (U+2581)", {7, 10, 14}),
    "bpe": ("no characters, spaces at the ends of a text", {2, 3, 7}),
}
"""The warning of the export for each kind of vocabulary, and the `TEXTS` for which keras-hub gives other ids."""
FAMILIES = [
    pytest.param("distilbert", "wordpiece", "DistilBert"),
    pytest.param("gpt2", "bpe", "GPT2"),
    pytest.param("roberta", "bpe", "Roberta", marks=pytest.mark.slow),
    pytest.param("bart", "bpe", "Bart", marks=pytest.mark.slow),
    pytest.param("albert", "unigram", "Albert", marks=pytest.mark.slow),
    pytest.param("t5", "unigram", "T5", marks=pytest.mark.slow),
]


def save(path, model, kind, lowercase=False, size=320):
    """Writes a checkpoint with random weights to ``path``; returns its tokenizer and its network."""
    tokenizer = Tokenizer.train(kind, made.TEXT, size, lowercase=lowercase)
    network = networks.build(model, SIZE, tokenizer, 3)
    rng = np.random.default_rng(1)
    result = networks.weights(network.loss.variables)
    arrays = {name: rng.normal(0, 0.3, array.shape).astype(np.float32) for name, array in result.items()}
    networks.assign(network.loss.variables, arrays)
    about = {"kind": "pretrained", "model": model, "shape": asdict(SIZE)}
    checkpoint.write(path, about=about, arrays={"weights": arrays}, texts={"tokenizer.json": tokenizer.to_json()})
    return tokenizer, network


def export(path, out, *more):
    return main(["export", str(path), "--format", "keras_hub", "--out", str(out), *more])


@pytest.mark.parametrize(("model", "kind", "family"), FAMILIES)
def test_keras_hub_computes_the_same_ids_and_vectors(model, kind, family, tmp_path, capsys):
    import keras_hub

    tokenizer, network = save(tmp_path / "c", model, kind)
    assert export(tmp_path / "c", tmp_path / "p") == 0
    message, deviating = DEVIATIONS[kind]
    assert f"keras-hub's tokenizer gives other ids for texts with: {message}." in capsys.readouterr().err
    theirs = getattr(keras_hub.models, f"{family}Tokenizer").from_preset(str(tmp_path / "p"))
    ids = [np.asarray(theirs(text)).tolist() for text in TEXTS]
    swapped = {0: 1, 1: 0} if model == "roberta" else {}
    ours = [[swapped.get(number, number) for number in row] for row in tokenizer.encode(TEXTS)]
    assert {n for n, (a, b) in enumerate(zip(ids, ours, strict=True)) if a != b} == deviating
    assert theirs.end_token_id == tokenizer.vocabulary.sep
    assert model in ("gpt2", "t5") or theirs.start_token_id == tokenizer.vocabulary.cls

    backbone = getattr(keras_hub.models, f"{family}Backbone").from_preset(str(tmp_path / "p"))
    row = tokenizer.vocabulary.template.lay(tokenizer.encode(["The dog sleeps in K\u00f6ln."]))[0]
    tokens = np.array([row], np.int32)
    answer = backbone(
        {name: tokens * ("segment" not in name) if "mask" not in name else tokens * 0 + 1 for name in backbone.input}
    )
    answer = answer if isinstance(answer, dict) else {"sequence_output": answer}
    vectors = np.asarray(answer.get("encoder_sequence_output", answer.get("sequence_output")))
    expected = np.asarray(network.encoder({"tokens": tokens, "segments": tokens * 0}).tokens)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("model", "kind", "family", "pairs"),
    [
        ("distilbert", "wordpiece", "DistilBert", BERT),
        pytest.param("albert", "unigram", "Albert", BERT, marks=pytest.mark.slow),
        pytest.param("roberta", "bpe", "Roberta", ROBERTA, marks=pytest.mark.slow),
    ],
)
def test_preprocessors_of_keras_hub_use_our_templates(model, kind, family, pairs, tmp_path):
    """One text has our template, and two texts have the template of the model's authors."""
    import keras_hub

    tokenizer, _ = save(tmp_path / "c", model, kind)
    assert export(tmp_path / "c", tmp_path / "p") == 0
    theirs = getattr(keras_hub.models, f"{family}Tokenizer").from_preset(str(tmp_path / "p"))
    preprocessor = getattr(keras_hub.models, f"{family}TextClassifierPreprocessor")(theirs, sequence_length=40)
    texts = ["The dog sleeps.", "It is walking."]
    for given, template in ((texts[:1], tokenizer.vocabulary.template), (texts, pairs)):
        encoded = preprocessor((texts[:1], texts[1:]) if len(given) == 2 else given, y=None)
        result = np.asarray(encoded["token_ids"])[np.asarray(encoded["padding_mask"]).astype(bool)].tolist()
        assert result == list(template.lay(tokenizer.encode(given))[0])


@pytest.mark.parametrize(("model", "kind", "family"), FAMILIES)
def test_an_exported_preset_is_imported_as_the_same_checkpoint(model, kind, family, tmp_path, capsys):
    """All weights of encoder and decoder are equal. A preset does not have the heads of the objective.

    The first export adds RoBERTa's only segment embedding to the positions, so the second round trip is compared.
    """
    tokenizer, _ = save(tmp_path / "c", model, kind)
    names = "cdef" if model == "roberta" else "cd"
    for before, after in zip(names, names[1:], strict=False):
        assert export(tmp_path / before, tmp_path / f"p{after}") == 0
        assert main(["import", str(tmp_path / f"p{after}"), "--out", str(tmp_path / after)]) == 0
    first, last = (checkpoint.read(tmp_path / name) for name in names[-2:])
    again = Tokenizer.load(last.path("tokenizer.json"))
    assert again.vocabulary.size == tokenizer.vocabulary.size
    same = [text for n, text in enumerate(TEXTS) if n not in DEVIATIONS[kind][1]]
    assert again.encode(same) == tokenizer.encode(same)
    before, after = first.arrays(), last.arrays()
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert all(name.startswith(("mlm/", "sop/")) for name in changed)
    if model in ("gpt2", "bart", "t5"):  # without heads
        assert first.weights_sha256 == last.weights_sha256


@pytest.mark.slow
@pytest.mark.parametrize("model", ["distilbert", "gpt2", "roberta", "bart", "t5"])
def test_a_preset_by_keras_hub_round_trips_bit_for_bit(model, tmp_path):
    presets.save(model, tmp_path / "p")
    assert main(["import", str(tmp_path / "p"), "--out", str(tmp_path / "c")]) == 0
    assert export(tmp_path / "c", tmp_path / "q") == 0
    arrays = [{}, {}]
    for result, name in zip(arrays, "pq", strict=True):
        with h5py.File(tmp_path / name / "model.weights.h5") as file:
            file.visititems(
                lambda key, part, result=result: result.update({key: part[()]} if hasattr(part, "shape") else {})
            )
    before, after = ({key: array for key, array in result.items() if array.dtype.kind == "f"} for result in arrays)
    assert before.keys() == after.keys()
    assert [key for key in before if not np.array_equal(before[key], after[key])] == []
    tokenizer = Tokenizer.load(tmp_path / "c" / "tokenizer.json")
    assert main(["import", str(tmp_path / "q"), "--out", str(tmp_path / "d")]) == 0
    again = Tokenizer.load(tmp_path / "d" / "tokenizer.json")
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert again.vocabulary == tokenizer.vocabulary
    first, last = (checkpoint.read(tmp_path / name) for name in "cd")
    assert first.weights_sha256 == last.weights_sha256


@pytest.mark.slow
def test_normalisation_that_keras_hub_lacks_is_refused(tmp_path, capsys):
    presets.save("albert", tmp_path / "p")
    assert main(["import", str(tmp_path / "p"), "--out", str(tmp_path / "c")]) == 0
    assert export(tmp_path / "c", tmp_path / "q") == 4
    message = "normalised (Lowercase, NFKD, StripAccents), which keras-hub's tokenizer does not do. Export with"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "kind", "reason"),
    [
        ("bert", "wordpiece", "BertBackbone computes another network than bert: its hidden_act is 'gelu_new'"),
        ("t5_1_1", "wordpiece", "T5Backbone computes another network than t5_1_1: its feed_forward_proj"),
        ("mpnet", "wordpiece", "keras-hub has no backbone for mpnet. Presets are written of albert, bart, distilbert"),
        ("elmo", "wordpiece", "There is no published layout for elmo"),
        ("gpt2", "wordpiece", "GPT2Tokenizer reads vocabularies of the kind bpe, and this one is wordpiece"),
    ],
)
def test_models_that_keras_hub_cannot_represent_are_refused(model, kind, reason, tmp_path, capsys):
    save(tmp_path / "c", model, kind)
    assert export(tmp_path / "c", tmp_path / "p") == 4
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_lowercasing_is_refused_for_bpe_and_kept_for_wordpiece(tmp_path, capsys):
    import keras_hub

    save(tmp_path / "b", "gpt2", "bpe", lowercase=True)
    assert export(tmp_path / "b", tmp_path / "p") == 4
    assert "normalised (Lowercase, Strip), and keras-hub's BPE takes them as they are" in capsys.readouterr().err
    tokenizer, _ = save(tmp_path / "w", "distilbert", "wordpiece", lowercase=True)
    assert export(tmp_path / "w", tmp_path / "q") == 0
    assert "ligatures and compatibility characters" in capsys.readouterr().err
    theirs = keras_hub.models.DistilBertTokenizer.from_preset(str(tmp_path / "q"))
    text = "Cr\u00e8me in Z\u00dcRICH"
    assert np.asarray(theirs(text)).tolist() == tokenizer.encode([text])[0]


def test_a_preset_with_other_outputs_is_not_written(tmp_path, capsys, monkeypatch):
    import keras_hub

    save(tmp_path / "c", "distilbert", "wordpiece")
    fill, name = _keras_arrays.fill, "transformer.layer.1.ffn.lin1.weight"
    with monkeypatch.context() as patch:
        wrong = lambda backbone, config, arrays: fill(backbone, config, arrays | {name: arrays[name] * 1.01})  # noqa: E731
        patch.setattr(_keras_arrays, "fill", wrong)
        assert export(tmp_path / "c", tmp_path / "p") == 4
    assert "more than the tolerance of 2e-05. Nothing was written." in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
    answer = ptmbench.export(tmp_path / "c", format="keras_hub", out=tmp_path / "p")
    assert answer == {"format": "keras_hub", "out": str(tmp_path / "p")}
    backbone = keras_hub.models.Backbone.from_preset(str(tmp_path / "p"))
    with pytest.raises(PublishedError, match="has the weights .*token_embedding.*, and the model here has none"):
        _keras_arrays.fill(backbone, {"model_type": "distilbert", "n_layers": 2}, {})
