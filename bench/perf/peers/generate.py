"""Beam search of Hugging Face transformers and torch, timed on request: the peer of `bench.perf.generate`.

That module runs this file in a separate process, possibly with another Python, so it imports nothing of the project.
The network is the class that a user gets for the folder, and `generate` is called as its documentation shows. The
search of a row ends as ours does: when there are as many finished texts as hypotheses.
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
    network.generation_config.forced_eos_token_id = None  # BART's value replaces the last token of a text that is cut
    tokens = torch.tensor(json.loads((Path(c["folder"]) / "sources.json").read_text()))
    end = network.config.eos_token_id  # `generate` also pads texts with it, if the padding id is 0
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
