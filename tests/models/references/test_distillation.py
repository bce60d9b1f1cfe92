"""Compares DistilBERT's triple loss with the authors' equations, computed by torch over networks of `transformers`."""

import numpy as np

from ptmbench.models import published
from tests.models.frozen.distillation import TEACHER, batch
from tests.models.frozen.networks import SIZE, VOCABULARY
from tests.models.references.common import ABOUT, long, seeded, torch, transformers


def network(cls, table: str, size):
    config = published.load(table).config(size, VOCABULARY)
    settings = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
    built = cls(cls.config_class(**settings, attn_implementation="eager"))
    return built, seeded(built)


def test_the_triple_loss(hold):
    student, shapes = network(transformers.DistilBertForMaskedLM, "distilbert", SIZE)
    teacher, others = network(transformers.BertForMaskedLM, "bert", TEACHER)
    given, nn = batch(), torch.nn
    labels = np.full(given["tokens"].shape, -100)
    for row in range(2):
        used = given["masked_weights"][row] > 0
        labels[row, given["masked_positions"][row][used]] = given["masked_labels"][row][used]
    inputs = {"input_ids": long(given["tokens"]), "attention_mask": long(given["tokens"] > 0)}
    ours = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        theirs = teacher(**inputs, output_hidden_states=True)
    present = torch.tensor(given["tokens"] > 0)
    y, z = ours.logits[present], theirs.logits[present]  # [P, V]
    h, g = ours.hidden_states[-1][present], theirs.hidden_states[-1][present]  # [P, D]
    divergence = nn.KLDivLoss(reduction="batchmean")
    soft = divergence(nn.functional.log_softmax(y / 2, -1), nn.functional.softmax(z / 2, -1)) * 2**2
    mlm = nn.CrossEntropyLoss(ignore_index=-100)(ours.logits.reshape(-1, VOCABULARY.size), long(labels).reshape(-1))
    cosine = nn.CosineEmbeddingLoss(reduction="mean")(h, g, torch.ones(len(h)))
    loss = 5.0 * soft + 2.0 * mlm + 1.0 * cosine
    loss.backward()
    named = {"loss": loss, "mlm_loss": mlm, "soft_loss": soft, "cosine_loss": cosine}
    expected = {name: value.detach() for name, value in named.items()}
    hold("distillation", ABOUT, shapes | others, expected | {"gradient": student.vocab_transform.weight.grad.T})
