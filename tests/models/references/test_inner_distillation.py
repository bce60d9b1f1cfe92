"""The losses of inner layers over networks of `transformers`: TinyBERT's (tinybert) and MiniLM's (minilm), and the loss
of BERT-PKD, by the authors' equations with torch."""

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


def inside(built, seen):
    """Hidden states, and queries, keys and values [B, H, T, d] of each layer."""
    kept = {}
    for number, layer in enumerate(built.bert.encoder.layer):
        for name in ("query", "key", "value"):
            part = getattr(layer.attention.self, name)
            part.register_forward_hook(lambda _, __, out, key=(number, name): kept.__setitem__(key, out))
    states = built(**seen, output_hidden_states=True).hidden_states
    heads = built.config.num_attention_heads

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)

    layers = range(len(built.bert.encoder.layer))
    return states, [[split(kept[number, name]) for name in ("query", "key", "value")] for number in layers]


def test_the_losses_of_inner_layers(hold):
    """The second row is shorter. The first is alone for TinyBERT's authors, whose means run over padding too."""
    student, shapes = network("student.", STUDENT)
    teacher, others = network("teacher.", TEACHER)
    given, nn = batch(), torch.nn.functional
    kernel, bias = (torch.tensor(x, dtype=torch.float32) for x in FIT)
    seen = {"input_ids": long(given["tokens"]), "attention_mask": long(given["tokens"] > 0)}
    ours, looks = inside(student, seen)
    with torch.no_grad():
        theirs, others_looks = inside(teacher, seen)

    def scores(look):
        q, k, _ = look
        return q @ k.transpose(2, 3) / q.shape[-1] ** 0.5

    # TinyBERT, `task_distill.py`: every second layer of the teacher, means by MSELoss.
    mse = torch.nn.MSELoss()
    hidden = sum(mse((h @ kernel + bias)[:1], theirs[2 * m][:1]) for m, h in enumerate(ours))
    attended = sum(mse(scores(look)[:1], scores(others_looks[2 * m + 1])[:1]) for m, look in enumerate(looks))
    (hidden + attended).backward(retain_graph=True)
    layer_gradient = student.bert.embeddings.word_embeddings.weight.grad.clone()
    student.zero_grad()

    # MiniLM: KL of the last attention and of the relations of its values, a mean over heads and tokens.
    found, present = {}, given["tokens"] > 0
    for name, relate in (("attention", scores), ("relation", lambda look: scores((look[2], look[2], None)))):
        total = 0.0
        for row, count in enumerate(present.sum(1)):
            p = nn.softmax(relate(others_looks[-1])[row, :, :count, :count], -1)
            q = nn.log_softmax(relate(looks[-1])[row, :, :count, :count], -1)
            total = total + nn.kl_div(q, p, reduction="sum") / p.shape[0]
        found[name] = total / present.sum()
    (found["attention"] + found["relation"]).backward(retain_graph=True)
    relation_gradient = student.bert.embeddings.word_embeddings.weight.grad.clone()

    # BERT-PKD, `KD_loss.py`: of a student of the same width, here the teacher's own layers 1 and 2 for its 2 and 4.
    patient = nn.mse_loss(
        nn.normalize(torch.stack([theirs[2][:, 0], theirs[4][:, 0]], 1), p=2, dim=2),
        nn.normalize(torch.stack([theirs[1][:, 0], theirs[2][:, 0]], 1), p=2, dim=2),
    )
    expected = {"hidden": hidden, "attention": attended, "last_attention": found["attention"]}
    expected |= {"relation": found["relation"], "patience": patient}
    expected = {name: np.asarray(value.detach()) for name, value in expected.items()}
    gradients = {"layer_gradient": layer_gradient, "relation_gradient": relation_gradient}
    hold("inner_distillation", ABOUT, shapes | others, expected | gradients)
