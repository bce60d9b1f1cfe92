"""Fine-tunes on MRPC and scores it once, like the run_glue example of Hugging Face transformers.

Pairs are padded to 128 tokens, the network has dropout 0.1, AdamW follows a linear schedule without warm-up, and the
dev set is scored once. The checkpoint is one of ours, whose arrays are copied by name. `bench.perf.finetune` runs this
file in a separate process; it imports nothing of the project.

    python run_glue.py '{"checkpoint": "FOLDER", "data": "FOLDER", ...}'
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def bert(arrays, layers):
    """Converts our arrays to the names and the orientation of transformers' BERT."""
    found = {
        "embeddings.word_embeddings.weight": arrays["encoder/embeddings/tokens/table"],
        "embeddings.position_embeddings.weight": arrays["encoder/embeddings/positions/table"],
        "embeddings.token_type_embeddings.weight": arrays["encoder/embeddings/segments/table"],
        "embeddings.LayerNorm.weight": arrays["encoder/embeddings/norm/scale"],
        "embeddings.LayerNorm.bias": arrays["encoder/embeddings/norm/bias"],
        "pooler.dense.weight": arrays["encoder/pooler/kernel"].T,
        "pooler.dense.bias": arrays["encoder/pooler/bias"],
    }
    for index in range(layers):
        ours, theirs = f"encoder/stack/layer_{index}/", f"encoder.layer.{index}."
        for part, kernel, bias in zip(
            ("query", "key", "value"),
            np.split(arrays[ours + "attention/query_key_value/kernel"], 3, axis=1),
            np.split(arrays[ours + "attention/query_key_value/bias"], 3),
            strict=True,
        ):
            found[f"{theirs}attention.self.{part}.weight"] = kernel.T
            found[f"{theirs}attention.self.{part}.bias"] = bias
        for name, place in (
            ("attention/projection", "attention.output.dense"),
            ("feed_forward/inner", "intermediate.dense"),
            ("feed_forward/outer", "output.dense"),
        ):
            found[f"{theirs}{place}.weight"] = arrays[f"{ours}{name}/kernel"].T
            found[f"{theirs}{place}.bias"] = arrays[f"{ours}{name}/bias"]
        for name, place in (("attention_norm", "attention.output.LayerNorm"), ("norm", "output.LayerNorm")):
            found[f"{theirs}{place}.weight"] = arrays[f"{ours}{name}/scale"]
            found[f"{theirs}{place}.bias"] = arrays[f"{ours}{name}/bias"]
    return {f"bert.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in found.items()}


def read(path, tokenizer, length, cls, sep):
    """Reads a file of MRPC. Returns ids, segments and masks [N, T], and labels [N]."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    tokens = np.zeros((len(rows), length), np.int64)
    segments, present = np.zeros_like(tokens), np.zeros_like(tokens)
    for place, row in enumerate(rows):
        first, second = (tokenizer.encode(text, add_special_tokens=False).ids for text in row[3:5])
        while len(first) + len(second) > length - 3:
            (first if len(first) > len(second) else second).pop()
        whole = [cls, *first, sep, *second, sep]
        tokens[place, : len(whole)] = whole
        segments[place, len(first) + 2 : len(whole)] = 1
        present[place, : len(whole)] = 1
    return *(torch.from_numpy(a) for a in (tokens, segments, present)), torch.tensor([int(row[0]) for row in rows])


def main():
    c = json.loads(sys.argv[1])
    torch.set_num_threads(c["threads"])
    torch.manual_seed(c["seed"])
    folder = Path(c["checkpoint"])
    tokenizer = Tokenizer.from_str(json.dumps(json.loads((folder / "tokenizer.json").read_text())["tokenizer"]))
    network = BertForSequenceClassification(
        BertConfig(
            vocab_size=c["vocabulary"],
            hidden_size=c["width"],
            num_hidden_layers=c["layers"],
            num_attention_heads=c["heads"],
            intermediate_size=c["inner"],
            max_position_embeddings=c["positions"],
        )
    )
    missing, unexpected = network.load_state_dict(bert(load_file(folder / "weights.safetensors"), c["layers"]), False)
    if unexpected or any(not name.startswith("classifier") for name in missing):
        raise SystemExit(f"The weights do not fit: missing {missing}, unexpected {unexpected}.")
    train, dev = (read(f"{c['data']}/{name}.tsv", tokenizer, 128, c["cls"], c["sep"]) for name in ("train", "dev"))
    steps = c["epochs"] * -(-len(train[0]) // c["batch"])
    optimizer = torch.optim.AdamW(network.parameters(), lr=c["learning_rate"], weight_decay=0.01, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)
    network.train()
    for _ in range(c["epochs"]):
        for rows in torch.randperm(len(train[0])).split(c["batch"]):
            tokens, segments, present, labels = (part[rows] for part in train)
            optimizer.zero_grad(set_to_none=True)
            network(tokens, attention_mask=present, token_type_ids=segments, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    network.eval()
    with torch.no_grad():
        found = torch.cat([network(t, attention_mask=p, token_type_ids=s).logits.argmax(-1) for t, s, p in
                           zip(*(part.split(64) for part in dev[:3]), strict=True)])  # fmt: skip
    hits, gold = found.eq(dev[3]), dev[3].eq(1)
    positive = (found.eq(1) & gold).sum().item()
    f1 = 2 * positive / max(1, found.eq(1).sum().item() + gold.sum().item())
    print(json.dumps({"accuracy": 100 * hits.float().mean().item(), "f1": 100 * f1, "steps": steps}))


if __name__ == "__main__":
    main()
