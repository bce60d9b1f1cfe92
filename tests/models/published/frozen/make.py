"""Makes the frozen files of this folder from `transformers` and torch. The tests need neither.

    python -m tests.models.published.frozen.make

defaults.json   what each configuration class takes for a setting that config.json does not name
xlnet.npz       XLNetLMHeadModel: random weights, a batch with a memory, and both streams, logits and loss for it
bert.npz        BertForPreTraining: random weights, a batch, and the scores of both heads and the loss for it

Arrays are float32 and int32. ``about`` in each file has the versions that made it. Weights are named as in
`state_dict()`, behind "weights/"; what the network gives is behind "expected/", and its inputs are behind "batch/" by
their names here.
"""

import json
from pathlib import Path

import numpy as np

from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary

HERE = Path(__file__).parent
SIZE = Size(layers=2, width=16, heads=2, inner=32, length=16)
VOCABULARY = Vocabulary(size=47)
CONFIGS = {
    "albert": "AlbertConfig",
    "bart": "BartConfig",
    "bert": "BertConfig",
    "ctrl": "CTRLConfig",
    "distilbert": "DistilBertConfig",
    "electra": "ElectraConfig",
    "gpt": "OpenAIGPTConfig",
    "gpt2": "GPT2Config",
    "mpnet": "MPNetConfig",
    "pegasus": "PegasusConfig",
    "prophetnet": "ProphetNetConfig",
    "roberta": "RobertaConfig",
    "t5": "T5Config",
    "xlnet": "XLNetConfig",
}


def versions() -> str:
    """The packages that make the files."""
    import torch
    import transformers

    return f"transformers {transformers.__version__}, torch {torch.__version__}"


def defaults() -> None:
    """Write defaults.json: by model_type, the settings of a configuration that was given none."""
    import transformers

    found = {"about": versions()}
    for cls in CONFIGS.values():
        config = getattr(transformers, cls)()
        found[config.model_type] = {
            name: value
            for name, value in sorted(config.to_dict().items())
            if not isinstance(value, dict) and name != "transformers_version"
        }
    (HERE / "defaults.json").write_text(json.dumps(found, indent=1) + "\n")


def reference(cls: str, config: str, **settings):
    """A model of `transformers` without dropout, its weights random everywhere, norms and biases too."""
    import torch
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, config)(**settings)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout"):
        if hasattr(made, name):
            setattr(made, name, 0.0)
    network = getattr(transformers, cls)(made).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return network


def write(name: str, network, batch: dict, expected: dict) -> None:
    """Write NAME.npz. Names that share one array are kept once: the tables know the others as copies."""
    arrays, seen = {"about": np.array(versions())}, set()
    for key, value in network.state_dict().items():
        if value.is_floating_point() and value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            arrays[f"weights/{key}"] = value.numpy().astype(np.float32)
    arrays |= {f"batch/{key}": value for key, value in batch.items()}
    arrays |= {f"expected/{key}": value.detach().numpy().astype(np.float32) for key, value in expected.items()}
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


def long(array: np.ndarray):
    """An integer array for torch."""
    import torch

    return torch.tensor(np.asarray(array).astype(np.int64))


def xlnet() -> None:
    """Two rows of odd lengths, six targets each in random order, and a memory of five tokens."""
    import torch

    network = reference("XLNetLMHeadModel", "XLNetConfig", **published.load("xlnet").config(SIZE, VOCABULARY))
    rng, length, slots = np.random.default_rng(0), 13, 6
    tokens = rng.integers(1, VOCABULARY.size, (2, length)).astype(np.int32)
    tokens[1, 11:] = 0
    segments = ((np.arange(length) >= 7) & (tokens > 0)).astype(np.int32)
    ranks, positions = np.zeros((2, length), np.int32), np.zeros((2, slots), np.int32)
    for row in range(2):
        positions[row] = rng.choice(11, slots, replace=False)
        ranks[row, positions[row]] = 1 + rng.permutation(slots)
    memory = rng.integers(1, VOCABULARY.size, (2, 5)).astype(np.int32)
    labels = np.take_along_axis(tokens, positions, axis=1)
    hidden = (ranks[:, None, :] > 0) & (ranks[:, None, :] >= ranks[:, :, None])  # [B, i, j]: i may not see j
    theirs = network(
        input_ids=long(tokens),
        token_type_ids=long(segments),
        attention_mask=long(tokens > 0).float(),
        perm_mask=torch.tensor(hidden).float(),
        target_mapping=torch.tensor(np.eye(length)[positions]).float(),
        mems=network.transformer(input_ids=long(memory), use_mems=True).mems,
        use_mems=True,
        labels=long(labels),
        output_hidden_states=True,
    )
    batch = {"tokens": tokens, "segments": segments, "ranks": ranks, "memory": memory}
    batch |= {"predicted_positions": positions, "predicted_labels": labels}
    contents, queries = theirs.hidden_states[0::2], theirs.hidden_states[1::2]
    expected = {f"content_{index}": x for index, x in enumerate(contents)}
    expected |= {f"query_{index}": x for index, x in enumerate(queries)}
    write("xlnet", network, batch, expected | {"logits": theirs.logits, "loss": theirs.loss})


def bert() -> None:
    """Two rows of two segments, three masked tokens each; the second text follows in the first row alone."""
    network = reference("BertForPreTraining", "BertConfig", **published.load("bert").config(SIZE, VOCABULARY))
    rng = np.random.default_rng(1)
    tokens = rng.integers(1, VOCABULARY.size, (2, 12)).astype(np.int32)
    tokens[1, 9:] = 0
    segments = ((np.arange(12) >= 5) & (tokens > 0)).astype(np.int32)
    positions = np.array([[1, 4, 10], [2, 6, 8]], np.int32)
    labels = rng.integers(1, VOCABULARY.size, (2, 3)).astype(np.int32)
    marked = np.full(tokens.shape, -100)
    np.put_along_axis(marked, positions, labels, axis=1)
    follows = np.array([1, 0], np.int32)
    theirs = network(
        input_ids=long(tokens),
        token_type_ids=long(segments),
        attention_mask=long(tokens > 0),
        labels=long(marked),
        next_sentence_label=long(1 - follows),  # class 0 is "follows" there
    )
    batch = {"tokens": tokens, "segments": segments, "next": follows}
    batch |= {"masked_positions": positions, "masked_labels": labels}
    expected = {"prediction_logits": theirs.prediction_logits, "follows": theirs.seq_relationship_logits[:, 0]}
    expected |= {"random": theirs.seq_relationship_logits[:, 1], "loss": theirs.loss}
    write("bert", network, batch, expected)


if __name__ == "__main__":
    defaults()
    xlnet()
    bert()
