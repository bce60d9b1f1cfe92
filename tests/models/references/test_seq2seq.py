"""Compares encoder-decoders with `transformers` on the same random weights: every layer of both, logits and loss."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.published import folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.references.common import (
    SIZE,
    TOLERANCE,
    VOCABULARY,
    batch,
    check_layers,
    check_loss,
    difference,
    long,
    ours,
    reference,
    torch,
    transformers,
)


def targets(length: int = 41) -> np.ndarray:
    """Returns two rows of targets. The second one is padded."""
    result = np.random.default_rng(1).integers(1, VOCABULARY.size, (2, length)).astype(np.int32)
    result[1, 30:] = 0
    return result


def bart_like(**more):
    """Returns the settings that BART and PEGASUS share."""
    both = {"layers": SIZE.layers, "attention_heads": SIZE.heads, "ffn_dim": SIZE.inner}
    return {
        **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in both.items()},
        "vocab_size": VOCABULARY.size,
        "d_model": SIZE.width,
        "max_position_embeddings": SIZE.length,
        "pad_token_id": 0,
        **more,
    }


def check(built, network, allowed=TOLERANCE):
    """Compares every hidden state of encoder and decoder, the logits and the loss, with padding."""
    given, target_tokens = batch()["tokens"], targets()
    theirs = network(
        input_ids=long(given),
        attention_mask=long(given > 0),
        decoder_input_ids=long(target_tokens[:, :-1]),
        labels=long(np.where(target_tokens[:, 1:] > 0, target_tokens[:, 1:], -100)),
        output_hidden_states=True,
    )
    encoding = built.encoder({"tokens": given})
    check_layers(encoding, theirs.encoder_hidden_states, given > 0)
    layers = built.loss.decoder.hidden(target_tokens[:, :-1], encoding.tokens, given)
    assert len(layers) == len(theirs.decoder_hidden_states) == SIZE.layers + 1
    gaps = [
        difference(np.reshape(layer, (*target_tokens[:, :-1].shape, -1)), other, target_tokens[:, :-1] > 0)
        for layer, other in zip(layers, theirs.decoder_hidden_states, strict=True)
    ]
    assert max(gaps) < TOLERANCE, gaps
    logits = built.decode({"tokens": given, "targets": target_tokens[:, :-1]})
    scale = max(1.0, float(theirs.logits.detach().abs().max()))
    assert difference(logits, theirs.logits, target_tokens[:, :-1] > 0) < allowed * scale
    loss = built.loss({"tokens": given, "targets": target_tokens})["loss"]
    check_loss(loss, theirs.loss, TOLERANCE * max(1.0, theirs.loss.item()))


def test_bart():
    network = reference(
        transformers.BartForConditionalGeneration, transformers.BartConfig, **bart_like(activation_function="gelu")
    )
    check(ours("bart", network), network)


def test_t5_1_1():
    network = reference(
        transformers.T5ForConditionalGeneration,
        transformers.T5Config,
        vocab_size=VOCABULARY.size,
        d_model=SIZE.width,
        d_kv=SIZE.width // SIZE.heads,
        d_ff=SIZE.inner,
        num_layers=SIZE.layers,
        num_heads=SIZE.heads,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    # This release ties the two tables in spite of the setting, so the output layer gets its own table.
    network.lm_head.weight = torch.nn.Parameter(torch.randn(VOCABULARY.size, SIZE.width))
    check(ours("t5_1_1", network), network)


def test_pegasus():
    network = reference(
        transformers.PegasusForConditionalGeneration,
        transformers.PegasusConfig,
        **bart_like(activation_function="relu", scale_embedding=True),
    )
    with torch.no_grad():  # positions are fixed, not weights
        for part in (network.model.encoder, network.model.decoder):
            part.embed_positions.weight.copy_(part.embed_positions.create_weight())
    check(ours("pegasus", network), network)


@pytest.mark.parametrize("name", ["bart", "pegasus"])
def test_transformers_loads_models_that_were_trained_here(name, tmp_path):
    """`transformers` computes the same logits from our folders. Reading them here restores every weight exactly."""
    tokenizer = Tokenizer.train("wordpiece", ["The dog sleeps, walking on and on.", "Who walks a dog asleep?"] * 9, 101)
    built = models.load(name).build(SIZE, tokenizer.vocabulary)
    arrays = {v.path: v.numpy() for v in built.loss.variables}
    folder.write(tmp_path / "f", model=name, size=SIZE, tokenizer=tokenizer, arrays=arrays)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "f").eval()
    rng = np.random.default_rng(0)
    tokens, written = (rng.integers(5, tokenizer.vocabulary.size, (2, n)).astype(np.int32) for n in (21, 9))
    theirs = network(input_ids=long(tokens), decoder_input_ids=long(written)).logits
    assert difference(built.decode({"tokens": tokens, "targets": written}), theirs) < TOLERANCE
    result = folder.read(tmp_path / "f")
    assert (result.model, result.size) == (name, SIZE)
    again, absent, unused = result.weights({path: array.shape for path, array in arrays.items()})
    assert not absent and not unused
    for path, array in arrays.items():
        np.testing.assert_array_equal(again[path], array, err_msg=path)


def test_unsupported_settings_are_refused():
    given = published.load("bart").config(SIZE, VOCABULARY)
    for name, changes, match in (
        ("bart", {"activation_function": "relu"}, "activation_function is 'relu'"),
        ("bart", {"decoder_layers": 3}, "decoder_layers is 3"),
        ("bart", {"scale_embedding": True}, "scale_embedding is True"),
        ("pegasus", {"model_type": "pegasus"}, "activation_function is 'gelu'"),
    ):
        with pytest.raises(published.Unsupported, match=match):
            published.load(name).size(given | changes)
    given = published.load("t5").config(SIZE, VOCABULARY)
    with pytest.raises(published.Unsupported, match="feed_forward_proj is 'relu'"):
        published.load("t5_1_1").size(given)
    given = published.load("t5_1_1").config(SIZE, VOCABULARY)
    assert published.load("t5_1_1").size(given) == SIZE
    with pytest.raises(published.Unsupported, match="feed_forward_proj is 'gated-gelu'"):
        published.load("t5").size(given)
