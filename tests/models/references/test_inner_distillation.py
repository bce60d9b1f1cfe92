"""Compares the losses of inner layers with the authors' equations, computed by torch over networks of `transformers`.

They are those of TinyBERT (tinybert), MiniLM (minilm) and BERT-PKD.
"""

import numpy as np

from ptmbench.models import published
from tests.models.frozen.inner_distillation import FIT, STUDENT, TEACHER, batch
from tests.models.frozen.networks import VOCABULARY
from tests.models.references.common import ABOUT, long, seeded, torch, transformers


def network(prefix, size):
    cls = transformers.BertForMaskedLM
    config = published.load("bert").config(size, VOCABULARY)
    settings = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
    built = cls(cls.config_class(**settings, attn_implementation="eager"))
    return built, seeded(built, prefix)


def inner_tensors(built, inputs):
    """Returns the hidden states, and queries, keys and values [B, H, T, d] of each layer."""
    hooked = {}
    for number, layer in enumerate(built.bert.encoder.layer):
        for name in ("query", "key", "value"):
            part = getattr(layer.attention.self, name)
            part.register_forward_hook(lambda _, __, out, key=(number, name): hooked.__setitem__(key, out))
    states = built(**inputs, output_hidden_states=True).hidden_states
    heads = built.config.num_attention_heads

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)

    layers = range(len(built.bert.encoder.layer))
    return states, [[split(hooked[number, name]) for name in ("query", "key", "value")] for number in layers]


def test_the_losses_of_inner_layers(hold):
    """The second row is shorter. Only the first is used for TinyBERT, because its authors' means include padding."""
    student, shapes = network("student.", STUDENT)
    teacher, others = network("teacher.", TEACHER)
    given, nn = batch(), torch.nn.functional
    kernel, bias = (torch.tensor(x, dtype=torch.float32) for x in FIT)
    inputs = {"input_ids": long(given["tokens"]), "attention_mask": long(given["tokens"] > 0)}
    ours, qkv = inner_tensors(student, inputs)
    with torch.no_grad():
        theirs, teacher_qkv = inner_tensors(teacher, inputs)

    def scores(layer_qkv):
        q, k, _ = layer_qkv
        return q @ k.transpose(2, 3) / q.shape[-1] ** 0.5

    # TinyBERT, `task_distill.py`: MSELoss to every second layer of the teacher.
    mse = torch.nn.MSELoss()
    hidden = sum(mse((h @ kernel + bias)[:1], theirs[2 * m][:1]) for m, h in enumerate(ours))
    attention = sum(mse(scores(layer_qkv)[:1], scores(teacher_qkv[2 * m + 1])[:1]) for m, layer_qkv in enumerate(qkv))
    (hidden + attention).backward(retain_graph=True)
    layer_gradient = student.bert.embeddings.word_embeddings.weight.grad.clone()
    student.zero_grad()

    # MiniLM: KL divergence of the last attention and of its value relations, averaged over heads and tokens.
    totals, present = {}, given["tokens"] > 0
    for name, relate in (
        ("attention", scores),
        ("relation", lambda layer_qkv: scores((layer_qkv[2], layer_qkv[2], None))),
    ):
        total = 0.0
        for row, count in enumerate(present.sum(1)):
            p = nn.softmax(relate(teacher_qkv[-1])[row, :, :count, :count], -1)
            q = nn.log_softmax(relate(qkv[-1])[row, :, :count, :count], -1)
            total = total + nn.kl_div(q, p, reduction="sum") / p.shape[0]
        totals[name] = total / present.sum()
    (totals["attention"] + totals["relation"]).backward(retain_graph=True)
    relation_gradient = student.bert.embeddings.word_embeddings.weight.grad.clone()

    # BERT-PKD, `KD_loss.py`: both networks have one width. Here the teacher's layers 1 and 2 imitate its 2 and 4.
    patient = nn.mse_loss(
        nn.normalize(torch.stack([theirs[2][:, 0], theirs[4][:, 0]], 1), p=2, dim=2),
        nn.normalize(torch.stack([theirs[1][:, 0], theirs[2][:, 0]], 1), p=2, dim=2),
    )
    expected = {"hidden": hidden, "attention": attention, "last_attention": totals["attention"]}
    expected |= {"relation": totals["relation"], "patience": patient}
    expected = {name: np.asarray(value.detach()) for name, value in expected.items()}
    gradients = {"layer_gradient": layer_gradient, "relation_gradient": relation_gradient}
    hold("inner_distillation", ABOUT, shapes | others, expected | gradients)
