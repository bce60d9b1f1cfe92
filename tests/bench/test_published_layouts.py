"""Layouts of published models: import, export, and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.bench.engine import networks
from ptmbench.models import published
from ptmbench.models.published import PublishedError, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench.foreign import SIZE, foreign, run
from tests.models.published import made


@pytest.mark.parametrize("name", published.names())
def test_a_layout_covers_all_weights_and_the_shape(name):
    """Each variable has one entry that is read back unchanged, and config.json restores the shape."""
    tokenizer, table = Tokenizer.train("wordpiece", made.TEXT, 200), published.load(name)
    model = name
    shapes = {v.path: tuple(v.shape) for v in networks.build(model, SIZE, tokenizer, 0).loss.variables}
    weights = {weight.ours: weight for weight in table.weights(SIZE)}
    assert weights.keys() == shapes.keys()
    for path, weight in weights.items():
        array = np.random.default_rng(0).normal(size=shapes[path]).astype(np.float32)
        if weight.theirs:
            np.testing.assert_array_equal(weight.read(weight.write(array), shapes[path]), array, err_msg=path)
    if model == name:
        assert replace(table.size(table.config(SIZE, tokenizer.vocabulary)), length=SIZE.length) == SIZE


def test_fine_tuning_can_learn_an_end_token_that_the_vocabulary_lacks(tmp_path):
    """GPT's vocabulary has no end token. The published model never predicts one, and fine-tuning can learn it."""
    foreign("gpt", tmp_path, "endings")
    result = folder.read(tmp_path)
    sep, size = result.tokenizer.vocabulary.sep, result.size
    assert sep in result.tokenizer.vocabulary.absent
    batch = {"tokens": np.array([[40, 41]], np.int32), "targets": np.array([[2, 50]], np.int32)}
    published_logits, adapted = (
        networks.build("gpt", size, result.tokenizer, 0, ending=ending).decode(batch).numpy()
        for ending in (False, True)
    )
    assert published_logits[0, 1, sep] == np.float32(-1e9) and abs(adapted[0, 1, sep]) < 100
    rest = [number for number in result.tokenizer.vocabulary.absent if number != sep]
    assert (adapted[0, :, rest] == np.float32(-1e9)).all()


def test_label_smoothing_ignores_absent_ids():
    """The smoothing mass goes only to ids that the model can predict, so the loss is the same without the others."""
    from ptmbench.bench.adapt.heads.generation import Head

    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    with_absent_ids = np.concatenate([logits, np.full((2, 3, 2), -1e9, np.float32)], axis=2)
    batch = {"targets": np.array([[2, 3, 4], [2, 4, 0]], np.int32)}
    losses = [float(Head(0.1).loss(given, batch)) for given in (logits, with_absent_ids)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6) and losses[0] < 5


@pytest.mark.parametrize(("name", "kind"), [("bert", "wordpiece"), ("t5", "unigram"), ("roberta", "bytewise")])
def test_special_tokens_around_texts_are_exported(name, kind, tmp_path):
    """tokenizer.json has no post-processor: transformers adds the special tokens in code, our export in the file."""
    import tokenizers

    foreign(name, tmp_path / "theirs", kind)
    spec = json.loads((tmp_path / "theirs" / "tokenizer.json").read_text())
    whole = tokenizers.Tokenizer.from_file(str(tmp_path / "theirs" / "tokenizer.json"))
    if name == "t5":
        whole.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", whole.token_to_id("</s>"))]
        )
    whole.no_truncation(), whole.no_padding()
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(spec | {"post_processor": None}))
    result = folder.read(tmp_path / "theirs")
    network = networks.build(result.model, result.size, result.tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    folder.write(tmp_path / "back", model=name, size=result.size, tokenizer=result.tokenizer, arrays=arrays)
    back = tokenizers.Tokenizer.from_file(str(tmp_path / "back" / "tokenizer.json"))
    for texts in (("The dog sleeps.",), ("The dog sleeps.", "A caf\u00e9")):
        ours, expected = back.encode(*texts), whole.encode(*texts)
        assert (ours.ids, ours.type_ids) == (expected.ids, expected.type_ids)
    again = folder.read(tmp_path / "back")
    assert again.tokenizer.vocabulary == result.tokenizer.vocabulary


@pytest.mark.parametrize("name", ["bart", "pegasus"])
def test_a_logits_bias_is_refused_unless_it_is_zero(name, tmp_path, capsys):
    from safetensors.numpy import save_file

    arrays = foreign(name, tmp_path / "theirs")
    bias = np.zeros((1, 400), np.float32)
    save_file(arrays | {"final_logits_bias": bias}, tmp_path / "theirs" / "model.safetensors")
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "zeros") == 0
    assert "final_logits_bias" not in capsys.readouterr().err
    bias[0, 7] = 1.5
    save_file(arrays | {"final_logits_bias": bias}, tmp_path / "theirs" / "model.safetensors")
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "ones") == 4
    message = capsys.readouterr().err
    assert "final_logits_bias" in message and str(tmp_path / "theirs") in message and "transformers" in message


def test_t5_1_1_saved_by_transformers_5_is_imported(tmp_path):
    """It sets "tie_word_embeddings" to true. Only "scale_decoder_outputs" distinguishes the model from T5 1.0."""
    from safetensors.numpy import save_file

    arrays = foreign("t5_1_1", tmp_path, "unigram")
    config = json.loads((tmp_path / "config.json").read_text()) | {"tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = folder.read(tmp_path)
    assert result.model == "t5_1_1"
    shapes = {v.path: tuple(v.shape) for v in networks.build("t5_1_1", SIZE, result.tokenizer, 0).loss.variables}
    untied_table = result.weights(shapes)[0]["decoder/logits/table"]
    save_file({k: v for k, v in arrays.items() if k != "lm_head.weight"}, tmp_path / "model.safetensors")
    read = folder.read(tmp_path).weights(shapes)[0]
    np.testing.assert_array_equal(read["decoder/logits/table"], read["encoder/embeddings/tokens/table"])
    assert not np.array_equal(untied_table, read["decoder/logits/table"])
    (tmp_path / "config.json").write_text(json.dumps(config | {"scale_decoder_outputs": True}))
    with pytest.raises(published.Unsupported, match="As t5_1_1: its scale_decoder_outputs is True"):
        folder.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "changes"),
    [
        ("bert", "wordpiece", {"model_type": "mamba"}),
        ("bert", "wordpiece", {"hidden_act": "relu"}),
        ("bert", "wordpiece", {"hidden_size": 15}),
        ("gpt2", "bytewise", {"activation_function": "relu"}),
        ("t5", "unigram", {"feed_forward_proj": "gated-silu"}),
        ("bert", "wordpiece", {"vocab_size": 10**9}),
    ],
)
def test_errors_name_the_folder_the_problem_and_the_next_step(name, kind, changes, tmp_path):
    foreign(name, tmp_path, kind, **changes)
    with pytest.raises(PublishedError) as error:
        folder.read(tmp_path)
    message = str(error.value)
    assert str(tmp_path) in message and message.endswith(".")
    assert any(str(value) in message for value in changes.values()) or "(Size" in message
    assert "Fetch" in message or "Import a checkpoint" in message


def test_an_encoder_without_its_decoder_is_reported(tmp_path):
    from safetensors.numpy import save_file

    arrays = foreign("t5", tmp_path, "unigram", architectures=["T5EncoderModel"])
    kept = {key: value for key, value in arrays.items() if not key.startswith("decoder.")}
    save_file(kept, tmp_path / "model.safetensors")
    result = folder.read(tmp_path)
    shapes = {v.path: tuple(v.shape) for v in networks.build("t5", SIZE, result.tokenizer, 0).loss.variables}
    with pytest.raises(
        published.Unsupported, match="no decoder .its class is T5EncoderModel.*ForConditionalGeneration"
    ):
        result.weights(shapes)
