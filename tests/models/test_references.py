"""Our networks against the `transformers` package on the same random weights: 2e-5 in float32 separates right from
wrong.

Skipped where torch or transformers is missing: neither is needed to use the project.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the reference needs torch")
transformers = pytest.importorskip("transformers", reason="the reference needs transformers")

from models import bert, electra, gpt, t5  # noqa: E402
from models.card import Size  # noqa: E402
from models.tokenizers import Vocabulary  # noqa: E402

TOLERANCE = 2e-5
SIZE = Size(layers=2, width=32, heads=4, inner=64, length=160)
VOCABULARY = Vocabulary(size=101)
DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout_rate",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
)


@pytest.fixture
def batch():
    """Two rows of two segments, the second row padded; 150 tokens, since T5's farthest bucket begins at 128."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (2, 150)).astype(np.int32)
    tokens[1, 110:] = 0
    segments = np.zeros_like(tokens)
    segments[:, 60:] = 1
    return {"tokens": tokens, "segments": segments * (tokens > 0)}


def reference(kind, config, **settings):
    """A `transformers` model with random weights everywhere, norms and biases too, ready to be compared."""
    torch.manual_seed(0)
    network = kind(config(**settings, **{name: 0.0 for name in DROPOUTS})).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return network, {name: weight.detach().numpy() for name, weight in network.state_dict().items()}


def fill(layer, values):
    """Assign ``values`` by path; every variable of ``layer`` has to be among them."""
    assert {variable.path for variable in layer.variables} == set(values)
    for variable in layer.variables:
        variable.assign(values[variable.path])


def bert_like(weights, source, target, tables="encoder/embeddings"):
    """The stack (and the embeddings, where ``tables`` names their place) of a BERT-shaped reference below
    ``source``."""
    found = {}
    if tables:
        found = {
            f"{tables}/{ours}": weights[f"{source}embeddings.{theirs}"]
            for ours, theirs in (
                ("tokens", "word_embeddings.weight"),
                ("positions", "position_embeddings.weight"),
                ("segments", "token_type_embeddings.weight"),
                ("norm_scale", "LayerNorm.weight"),
                ("norm_bias", "LayerNorm.bias"),
            )
        }
    for index in range(SIZE.layers):
        layer, place = f"{source}encoder.layer.{index}.", f"{target}/stack/layer_{index}_"
        qkv = [f"{layer}attention.self.{part}." for part in ("query", "key", "value")]
        found[place + "qkv_kernel"] = np.concatenate([weights[part + "weight"].T for part in qkv], axis=1)
        found[place + "qkv_bias"] = np.concatenate([weights[part + "bias"] for part in qkv])
        for ours, theirs in (
            ("output", "attention.output.dense"),
            ("inner", "intermediate.dense"),
            ("outer", "output.dense"),
        ):
            found[f"{place}{ours}_kernel"] = weights[f"{layer}{theirs}.weight"].T
            found[f"{place}{ours}_bias"] = weights[f"{layer}{theirs}.bias"]
        for ours, theirs in (("attention_norm", "attention.output.LayerNorm"), ("norm", "output.LayerNorm")):
            found[f"{place}{ours}_scale"] = weights[f"{layer}{theirs}.weight"]
            found[f"{place}{ours}_bias"] = weights[f"{layer}{theirs}.bias"]
    return found


def difference(ours, theirs, where=None):
    """Largest absolute difference, at the positions that ``where`` [B, T] names."""
    gap = np.abs(np.asarray(ours) - theirs.detach().numpy())
    return float((gap if where is None else gap[where]).max())


def shape_of_bert():
    return {
        "vocab_size": VOCABULARY.size,
        "hidden_size": SIZE.width,
        "num_hidden_layers": SIZE.layers,
        "num_attention_heads": SIZE.heads,
        "intermediate_size": SIZE.inner,
        "max_position_embeddings": SIZE.length,
        "layer_norm_eps": 1e-12,
    }


def inputs(batch):
    return {
        "input_ids": torch.tensor(batch["tokens"].astype(np.int64)),
        "token_type_ids": torch.tensor(batch["segments"].astype(np.int64)),
        "attention_mask": torch.tensor((batch["tokens"] > 0).astype(np.int64)),
    }


def check_layers(encoding, hidden_states, present):
    assert len(encoding.layers) == len(hidden_states) == SIZE.layers + 1
    gaps = [difference(*pair, present) for pair in zip(encoding.layers, hidden_states, strict=True)]
    assert max(gaps) < TOLERANCE, gaps


def test_bert(batch):
    network, weights = reference(transformers.BertForPreTraining, transformers.BertConfig, **shape_of_bert())
    built = bert.build(SIZE, VOCABULARY)
    values = bert_like(weights, "bert.", "encoder")
    values["encoder/pooler_kernel"] = weights["bert.pooler.dense.weight"].T
    values["encoder/pooler_bias"] = weights["bert.pooler.dense.bias"]
    head = "cls.predictions."
    values["mlm/kernel"] = weights[head + "transform.dense.weight"].T
    values["mlm/bias"] = weights[head + "transform.dense.bias"]
    values["mlm/norm_scale"] = weights[head + "transform.LayerNorm.weight"]
    values["mlm/norm_bias"] = weights[head + "transform.LayerNorm.bias"]
    values["mlm/output_bias"] = weights[head + "bias"]
    values["nsp/kernel"] = weights["cls.seq_relationship.weight"].T
    values["nsp/bias"] = weights["cls.seq_relationship.bias"]
    fill(built.loss, values)
    positions = np.array([[1, 5, 140], [2, 100, 30]], np.int32)
    labels = np.array([[7, 50, 99], [11, 100, 64]], np.int32)
    given = {"masked_positions": positions, "masked_labels": labels, "masked_weights": np.ones((2, 3), np.float32)}
    ours = built.loss({**batch, **given, "next": np.array([0, 1], np.int32)})
    full = np.full(batch["tokens"].shape, -100)
    np.put_along_axis(full, positions, labels, axis=1)
    # The classes of NSP are named the other way round there; the numbers are the same.
    theirs = network(
        **inputs(batch), labels=torch.tensor(full), next_sentence_label=torch.tensor([0, 1]), output_hidden_states=True
    )
    encoding = built.encoder(batch)
    check_layers(encoding, theirs.hidden_states, batch["tokens"] > 0)
    pooled = network.bert(**inputs(batch)).pooler_output
    assert difference(encoding.pooled, pooled) < TOLERANCE
    assert float(ours["loss"]) == pytest.approx(theirs.loss.item(), abs=TOLERANCE)


def test_gpt(batch):
    network, weights = reference(
        transformers.OpenAIGPTLMHeadModel,
        transformers.OpenAIGPTConfig,
        vocab_size=VOCABULARY.size,
        n_embd=SIZE.width,
        n_layer=SIZE.layers,
        n_head=SIZE.heads,
        n_positions=SIZE.length,
    )
    # The reference fixes the inner width at four times the width.
    size = Size(layers=SIZE.layers, width=SIZE.width, heads=SIZE.heads, inner=4 * SIZE.width, length=SIZE.length)
    built = gpt.build(size, VOCABULARY)
    values = {
        "encoder/tokens": weights["transformer.tokens_embed.weight"],
        "encoder/positions": weights["transformer.positions_embed.weight"],
    }
    names = {"qkv": "attn.c_attn", "output": "attn.c_proj", "inner": "mlp.c_fc", "outer": "mlp.c_proj"}
    for index in range(SIZE.layers):
        for ours, theirs in names.items():
            values[f"encoder/layer_{index}_{ours}_kernel"] = weights[f"transformer.h.{index}.{theirs}.weight"]
            values[f"encoder/layer_{index}_{ours}_bias"] = weights[f"transformer.h.{index}.{theirs}.bias"]
        for ours, theirs in {"attention_norm": "ln_1", "norm": "ln_2"}.items():
            values[f"encoder/layer_{index}_{ours}_scale"] = weights[f"transformer.h.{index}.{theirs}.weight"]
            values[f"encoder/layer_{index}_{ours}_bias"] = weights[f"transformer.h.{index}.{theirs}.bias"]
    fill(built.loss, values)
    tokens, present = batch["tokens"], batch["tokens"] > 0
    theirs = network(input_ids=torch.tensor(tokens.astype(np.int64)), output_hidden_states=True)
    check_layers(built.encoder({"tokens": tokens}), theirs.hidden_states, present)
    expected = torch.log_softmax(theirs.logits, -1)[:, :-1].gather(
        2, torch.tensor(tokens[:, 1:, None].astype(np.int64))
    )
    assert difference(built.log_likelihood({"tokens": tokens})[:, 1:], expected[:, :, 0], present[:, 1:]) < TOLERANCE
    # A continuation of a padded source is a continuation of the source without its padding.
    source, targets = tokens[1:, :150], tokens[:1, :10]
    logits = built.decode({"tokens": source, "targets": targets})
    joined = np.concatenate([source[:, :110], targets], axis=1).astype(np.int64)
    assert difference(logits, network(input_ids=torch.tensor(joined)).logits[:, 110:]) < TOLERANCE


def test_electra(batch):
    small = electra.generator(SIZE)
    shape = shape_of_bert() | {"embedding_size": SIZE.width}
    narrow = {"hidden_size": small.width, "intermediate_size": small.inner, "num_attention_heads": small.heads}
    network, weights = reference(transformers.ElectraForPreTraining, transformers.ElectraConfig, **shape)
    generator, inner = reference(transformers.ElectraForMaskedLM, transformers.ElectraConfig, **(shape | narrow))
    with torch.no_grad():  # as the authors train them: one table of embeddings for both
        generator.electra.embeddings.load_state_dict(network.electra.embeddings.state_dict())
    built = electra.build(SIZE, VOCABULARY)
    values = bert_like(weights, "electra.", "encoder") | bert_like(inner, "electra.", "generator", tables="")
    for ours, theirs in {"kernel": "dense", "output_kernel": "dense_prediction"}.items():
        values[f"rtd/{ours}"] = weights[f"discriminator_predictions.{theirs}.weight"].T
        values[f"rtd/{ours}".replace("kernel", "bias")] = weights[f"discriminator_predictions.{theirs}.bias"]
    values["rtd/projection_kernel"] = inner["electra.embeddings_project.weight"].T
    values["rtd/projection_bias"] = inner["electra.embeddings_project.bias"]
    values["generator/mlm/kernel"] = inner["generator_predictions.dense.weight"].T
    values["generator/mlm/bias"] = inner["generator_predictions.dense.bias"]
    values["generator/mlm/norm_scale"] = inner["generator_predictions.LayerNorm.weight"]
    values["generator/mlm/norm_bias"] = inner["generator_predictions.LayerNorm.bias"]
    values["generator/mlm/output_bias"] = inner["generator_lm_head.bias"]
    fill(built.loss, values)
    present = batch["tokens"] > 0
    hidden = network(**inputs(batch), output_hidden_states=True).hidden_states
    check_layers(built.encoder(batch), hidden, present)
    positions = np.array([[1, 5, 140], [2, 100, 30]], np.int32)
    labels = np.array([[7, 50, 99], [11, 99, 64]], np.int32)
    original = batch["tokens"].copy()
    np.put_along_axis(original, positions, labels, axis=1)
    masked = original.copy()
    np.put_along_axis(masked, positions, VOCABULARY.mask, axis=1)
    ours = built.loss(
        {
            "tokens": masked,
            "segments": batch["segments"],
            "original": original,
            "masked_positions": positions,
            "masked_labels": labels,
            "masked_weights": np.ones((2, 3), np.float32),
        }
    )
    logits = generator(**inputs(batch | {"tokens": masked})).logits
    chosen = np.take_along_axis(logits.detach().numpy(), positions[:, :, None], axis=1)
    nll = torch.nn.functional.cross_entropy(
        torch.tensor(chosen.reshape(6, -1)), torch.tensor(labels.reshape(-1).astype(np.int64))
    )
    replaced = original.copy()
    np.put_along_axis(replaced, positions, chosen.argmax(-1).astype(np.int32), axis=1)  # no seed: the likeliest piece
    theirs = network(
        **inputs(batch | {"tokens": replaced}), labels=torch.tensor((replaced != original).astype(np.int64))
    )
    assert float(ours["mlm_loss"]) == pytest.approx(nll.item(), abs=TOLERANCE)
    assert float(ours["rtd_loss"]) == pytest.approx(theirs.loss.item(), abs=TOLERANCE)
    assert float(ours["loss"]) == pytest.approx(nll.item() + 50 * theirs.loss.item(), abs=50 * TOLERANCE)


def test_t5(batch):
    network, weights = reference(
        transformers.T5ForConditionalGeneration,
        transformers.T5Config,
        vocab_size=VOCABULARY.size,
        d_model=SIZE.width,
        d_kv=SIZE.width // SIZE.heads,
        d_ff=SIZE.inner,
        num_layers=SIZE.layers,
        num_heads=SIZE.heads,
        feed_forward_proj="relu",
        tie_word_embeddings=True,
    )
    built = t5.build(SIZE, VOCABULARY)
    values = {"encoder/tokens": weights["shared.weight"]}
    for part in ("encoder", "decoder"):
        values[f"{part}/norm_scale"] = weights[f"{part}.final_layer_norm.weight"]
        bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        values[f"{part}/distances"] = weights[f"{part}.{bias}"]
        feed = 1 if part == "encoder" else 2
        for index in range(SIZE.layers):
            layer, place = f"{part}.block.{index}.layer.", f"{part}/layer_{index}_"
            own, norm = f"{layer}0.SelfAttention.", "layer_norm.weight"
            values[place + "qkv_kernel"] = np.concatenate([weights[f"{own}{k}.weight"].T for k in "qkv"], axis=1)
            values[place + "output_kernel"] = weights[own + "o.weight"].T
            values[place + "attention_norm_scale"] = weights[f"{layer}0.{norm}"]
            values[place + "inner_kernel"] = weights[f"{layer}{feed}.DenseReluDense.wi.weight"].T
            values[place + "outer_kernel"] = weights[f"{layer}{feed}.DenseReluDense.wo.weight"].T
            values[place + "norm_scale"] = weights[f"{layer}{feed}.{norm}"]
            if part == "decoder":
                cross = f"{layer}1.EncDecAttention."
                values[place + "cross_q_kernel"] = weights[cross + "q.weight"].T
                values[place + "cross_kv_kernel"] = np.concatenate(
                    [weights[f"{cross}{k}.weight"].T for k in "kv"], axis=1
                )
                values[place + "cross_output_kernel"] = weights[cross + "o.weight"].T
                values[place + "cross_norm_scale"] = weights[f"{layer}1.{norm}"]
    fill(built.loss, values)
    targets = np.random.default_rng(1).integers(1, VOCABULARY.size, (2, 40)).astype(np.int32)
    given = inputs(batch)
    theirs = network(
        input_ids=given["input_ids"],
        attention_mask=given["attention_mask"],
        decoder_input_ids=torch.tensor(targets.astype(np.int64)),
        output_hidden_states=True,
    )
    present = batch["tokens"] > 0
    encoding = built.encoder(batch)
    check_layers(encoding, theirs.encoder_hidden_states, present)
    assert difference(built.decode({**batch, "targets": targets}), theirs.logits) < TOLERANCE * np.abs(
        theirs.logits.detach().numpy()
    ).max().clip(1)
