"""Masked language modelling like the run_mlm example of Hugging Face transformers, on request.

The text is cut into blocks of one length. Masks are drawn anew for every batch (15 %: 80 % [MASK], 10 % random, 10 %
kept). The network has dropout 0.1, and AdamW follows a linear schedule with the given number of steps and peak rate.
`bench.perf.loss` runs this file in a separate process; it imports nothing of the project.

    python run_mlm.py '{"data": "FOLDER", ...}'      then one request per line on stdin
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, get_linear_schedule_with_warmup


def main():
    c = json.loads(sys.argv[1])
    torch.set_num_threads(c["threads"])
    torch.manual_seed(c["seed"])
    stream = torch.from_numpy(np.load(Path(c["data"]) / "train.npy")).long()
    blocks = stream[: len(stream) // c["length"] * c["length"]].reshape(-1, c["length"])
    held = {name: torch.from_numpy(array).long() for name, array in np.load(Path(c["data"]) / "held_out.npz").items()}
    network = BertForMaskedLM(
        BertConfig(
            vocab_size=c["vocabulary"],
            hidden_size=c["width"],
            num_hidden_layers=c["layers"],
            num_attention_heads=c["heads"],
            intermediate_size=c["inner"],
            max_position_embeddings=c["positions"],
        )
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=c["learning_rate"], weight_decay=0.01, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, round(c["warmup"] * c["steps"]), c["steps"])
    state = {"order": torch.randperm(len(blocks)), "next": 0}

    def step():
        if state["next"] + c["batch"] > len(blocks):
            state.update(order=torch.randperm(len(blocks)), next=0)
        tokens = blocks[state["order"][state["next"] : state["next"] + c["batch"]]]
        state["next"] += c["batch"]
        chosen = (torch.rand(tokens.shape) < 0.15) & (tokens != c["cls"]) & (tokens != c["sep"])
        draw = torch.rand(tokens.shape)
        random = torch.randint(c["first"], c["vocabulary"], tokens.shape)
        masked = torch.where(chosen & (draw < 0.8), c["mask"], tokens)
        masked = torch.where(chosen & (draw >= 0.9), random, masked)
        network.train()
        optimizer.zero_grad(set_to_none=True)
        loss = network(input_ids=masked, labels=torch.where(chosen, tokens, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss.item()

    @torch.no_grad()
    def evaluate():
        network.eval()
        total = count = 0.0
        for tokens, labels in zip(held["tokens"].split(64), held["labels"].split(64), strict=True):
            here = (labels != -100).sum().item()
            total += network(input_ids=tokens, labels=labels).loss.item() * here
            count += here
        return total / count

    jobs = {"step": step, "evaluate": evaluate}
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        for _ in range(request["times"]):
            value = jobs[request["job"]]()
        print(json.dumps({"seconds": time.perf_counter() - began, "value": value}), flush=True)


if __name__ == "__main__":
    main()
