"""Compares ProphetNet with `transformers` on the same random weights: every layer of all streams, logits and loss.

transformers 5.23 has a bug: `get_predict_relative_pos_embeddings` lays out the values of the distances as
(row, position, stream, head) and reads them as (row, stream, head, position). A predicting stream therefore gets the
values of other positions and heads. The authors' code (microsoft/ProphetNet, ngram_multihead_attention.py) is correct.
The first test patches the bug. The second test uses the unpatched class with values that are the same for all positions
and heads, so that the bug has no effect.
"""

import numpy as np

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

STREAMS = 2


def mended(self, hidden_states, attn_weights, position_ids, predict_relative_position_buckets):
    """Returns biases [B, N, H, S, 2 S], given hidden states [B, S, N, D] and buckets [B, S, 2 S].

    Replaces the buggy method.
    """
    B, S, N, _ = hidden_states.shape
    values = self.relative_pos_embeddings(hidden_states).view(B, S, N, self.num_buckets, self.num_attn_heads)
    values = values.permute(0, 2, 4, 1, 3)  # [B, N, H, S, buckets]
    buckets = predict_relative_position_buckets.long()[:, None, None].expand(B, N, self.num_attn_heads, S, 2 * S)
    return torch.gather(values, 4, buckets)


def network():
    both = {"layers": SIZE.layers, "attention_heads": SIZE.heads}
    return reference(
        transformers.ProphetNetForConditionalGeneration,
        transformers.ProphetNetConfig,
        **{f"num_{part}_{name}": value for part in ("encoder", "decoder") for name, value in both.items()},
        encoder_ffn_dim=SIZE.inner,
        decoder_ffn_dim=SIZE.inner,
        vocab_size=VOCABULARY.size,
        hidden_size=SIZE.width,
        max_position_embeddings=SIZE.length + 1,
        ngram=STREAMS,
    )


def check(theirs):
    """Compares every hidden state of the encoder and of the streams, the logits of the streams, and the loss."""
    built = ours("prophetnet", theirs)
    tokens = batch()["tokens"]
    rng = np.random.default_rng(1)
    previous = rng.integers(1, VOCABULARY.size, (2, 141)).astype(np.int32)  # longer than the farthest bucket
    targets = rng.integers(1, VOCABULARY.size, (2, 141)).astype(np.int32)
    targets[1, 30:] = 0
    expected = theirs(
        input_ids=long(tokens),
        attention_mask=long(tokens > 0),
        decoder_input_ids=long(previous),
        labels=long(np.where(targets > 0, targets, -100)),
        output_hidden_states=True,
    )
    encoding = built.encoder({"tokens": tokens})
    check_layers(encoding, expected.encoder_hidden_states, tokens > 0)
    layers = built.loss.decoder.hidden(previous, encoding.tokens, tokens)
    for layer, main, ahead in zip(
        layers, expected.decoder_hidden_states, expected.decoder_ngram_hidden_states, strict=True
    ):
        assert difference(layer[:, 0], main) < TOLERANCE
        assert difference(np.reshape(layer[:, 1:], ahead.shape), ahead) < TOLERANCE
    logits = built.loss.decoder(previous, encoding.tokens, tokens)
    scale = max(1.0, float(expected.logits.detach().abs().max()))
    assert difference(logits[:, 0], expected.logits) < TOLERANCE * scale
    assert difference(logits[:, 1:], expected.logits_ngram) < TOLERANCE * scale
    assert difference(built.decode({"tokens": tokens, "targets": previous}), expected.logits) < TOLERANCE * scale
    positions = np.tile(np.arange(141, dtype=np.int32), (2, 1))
    given = {"tokens": tokens, "previous": previous, "targets": targets, "positions": positions}
    check_loss(built.loss(given)["loss"], expected.loss, TOLERANCE * expected.loss.item())


def test_prophetnet(monkeypatch):
    kind = transformers.models.prophetnet.modeling_prophetnet.ProphetNetNgramSelfAttention
    monkeypatch.setattr(kind, "get_predict_relative_pos_embeddings", mended)
    check(network())


def test_unpatched_prophetnet_with_equal_biases_for_all_heads():
    theirs = network()
    with torch.no_grad():
        for layer in theirs.prophetnet.decoder.layers:
            linear = layer.self_attn.relative_pos_embeddings
            linear.weight.zero_()
            linear.bias.copy_(linear.bias.view(-1, SIZE.heads)[:, :1].expand(-1, SIZE.heads).reshape(-1) * 10)
    check(theirs)
