"""Compares ERNIE (Tsinghua) with the authors' code on the same weights: states, scores of all heads, and losses.

It needs torch, and the folder code/ of thunlp/ERNIE (commit 514cbe4) in ``PYTHONPATH``.
"""

import re
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.frozen import weight
from tests.models.frozen.ernie_thu import SIZE, VOCABULARY, WIDTH, inputs, shown, table

torch = pytest.importorskip("torch", reason="the reference needs torch")
PACKAGE = find_spec("knowledge_bert")
if PACKAGE is None:
    pytest.skip("the reference is the folder code/ of thunlp/ERNIE: set PYTHONPATH to it", allow_module_level=True)

pytestmark = pytest.mark.reference

COMMIT = "thunlp/ERNIE 514cbe4"


@pytest.fixture
def authors(monkeypatch) -> Any:
    """Imports the authors' module of networks.

    Its fixed widths, 768 and 100, are replaced by those of our small network. The module that downloads checkpoints is
    left out, because it needs more packages.
    """
    package, files = types.ModuleType("knowledge_bert"), types.ModuleType("knowledge_bert.file_utils")
    package.__path__, files.cached_path = [], None
    for module in (package, files):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    path = Path(PACKAGE.origin).with_name("modeling.py")
    source = re.sub(r"\b768\b", str(SIZE.width), re.sub(r"\b100\b", str(WIDTH), path.read_text(encoding="utf-8")))
    made = types.ModuleType("knowledge_bert.modeling")
    made.__package__ = package.__name__
    exec(compile(source, str(path), "exec"), made.__dict__)
    return made


def test_states_scores_and_losses_are_the_authors(authors, hold):
    half = SIZE.layers // 2
    config = authors.BertConfig(
        VOCABULARY.size, hidden_size=SIZE.width, num_hidden_layers=SIZE.layers, num_attention_heads=SIZE.heads,
        intermediate_size=SIZE.inner, max_position_embeddings=SIZE.length,
        layer_types=["sim"] * half + ["norm"] * half,
    )  # fmt: skip
    network, aggregated = authors.BertForPreTraining(config).eval(), []
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    shapes["entity2vec"] = (len(VOCABULARY.symbols["entities"]), WIDTH)
    vectors = torch.tensor(table({"entity2vec": weight("entity2vec", shapes["entity2vec"])}))
    given = {name: torch.tensor(array) for name, array in inputs().items()}
    tokens, segments, entities, candidates, labels = (given[name].long() for name in list(given)[:5])
    present = (entities > 0).long()
    present[:, 0] = 1  # in the authors' rows, the first token mentions no entity
    read = (tokens, segments, (tokens > 0).long())
    known = {"input_ent": vectors[entities.clamp(min=0)], "ent_mask": present}
    losses = []
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.tensor(weight(name, shapes[name])))
        network.bert.encoder.layer[half].register_forward_hook(lambda *found: aggregated.append(found[2][1]))
        layers, pooled = network.bert(*read, known["input_ent"], known["ent_mask"])
        mlm, nsp, _ = network.cls(layers[-1], pooled, vectors)
        head = network.cls.predictions_ent
        dea = [head(layers[-1][row : row + 1], vectors[candidates[row]])[0] for row in range(3)]
        for row in range(2):
            one = slice(row, row + 1)
            columns = [0, *candidates[row].nonzero()[:, 0].tolist()]
            hidden = torch.full((1, 10), -1)
            used = given["masked_weights"][row] > 0
            hidden[0, given["masked_positions"][row][used].long()] = given["masked_labels"][row][used].long()
            mentions = torch.tensor([[columns.index(c) if c else -1 for c in labels[row].tolist()]])
            whole, plain = network(
                *(array[one] for array in read),
                masked_lm_labels=hidden,
                next_sentence_label=1 - given["next"][one].long(),
                candidate=vectors[candidates[row, columns]],
                ent_labels=mentions,
                **{name: array[one] for name, array in known.items()},
            )
            losses.append([float(plain), float(whole)])
    there = (tokens > 0).numpy()[..., None]
    states = aggregated[0].numpy() * there
    assert np.abs(states[entities.numpy() > 0]).max() > 0.5  # otherwise entities have no effect
    expected = {
        "layers": torch.stack(layers).numpy() * there,
        "entities": states,
        "mlm": mlm.numpy() * there,
        "nsp": nsp.numpy(),
        "dea": np.where(shown(inputs()), torch.stack(dea).numpy(), 0),
        "losses": np.array(losses, np.float32),
    }
    hold("ernie_thu", f"torch {torch.__version__}, {COMMIT}", shapes, expected)
