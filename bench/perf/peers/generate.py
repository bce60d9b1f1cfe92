"""Beam search of Hugging Face transformers and torch, timed on request: the peer of `bench.perf.generate`.

Run by that module in a process of its own, perhaps with another Python: this file imports nothing of the project. The
network is the class that a user gets for the folder, `generate` is called as its documentation shows it, and the
search ends for a row when it has as many finished texts as hypotheses, which is where ours ends.
"""

import json
import sys
import time
import zlib
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM


def main():
    c = json.loads(sys.argv[1])
    torch.set_num_threads(c["threads"])
    network = AutoModelForSeq2SeqLM.from_pretrained(c["folder"]).eval()
    network.generation_config.forced_eos_token_id = None  # BART's puts the end in place of a cut text's last word
    tokens = torch.tensor(json.loads((Path(c["folder"]) / "sources.json").read_text()))
    end = network.config.eos_token_id  # also what it pads texts with, where padding has the id 0
    mask = (tokens != network.config.pad_token_id).long()

    @torch.inference_mode()
    def write():
        texts = network.generate(
            input_ids=tokens,
            attention_mask=mask,
            num_beams=c["beam"],
            do_sample=False,
            early_stopping=True,
            length_penalty=1.0,
            max_new_tokens=c["tokens"],
            use_cache=True,
        )
        rows = [row[1 : row.index(end, 1) + 1] if end in row[1:] else row[1:] for row in texts.tolist()]
        return {"tokens": sum(map(len, rows)), "texts": [zlib.crc32(str(row).encode()) for row in rows]}

    jobs = {"write": write}
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        for _ in range(request["times"]):
            value = jobs[request["job"]]()
        print(json.dumps({"seconds": time.perf_counter() - began, "value": value}), flush=True)


if __name__ == "__main__":
    main()
