"""Answers SST-2 with an exported LiteRT file, and writes the predictions for `ptmbench record`.

ptmbench export CHECKPOINT --format litert --quantize int8 --length 64 --batch 1 --out exports/sst2
python docs/examples/answer_with_litert.py exports/sst2 DATA/glue/SST-2/dev.tsv predictions.jsonl
ptmbench record sst2 --predictions predictions.jsonl --name sst2-litert --seed 0 --data DATA --out runs/litert

It needs numpy, tokenizers and ai-edge-litert, and no ptmbench.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from tokenizers import Tokenizer

export, tsv, answers = map(Path, sys.argv[1:4])
about = json.loads((export / "export.json").read_text(encoding="utf-8"))
tokenizer = Tokenizer.from_file(str(export / "tokenizer.json"))
network = Interpreter(str(export / about["file"]), num_threads=1).get_signature_runner()
with tsv.open(encoding="utf-8", newline="") as file, answers.open("w", encoding="utf-8") as out:
    for number, row in enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)):
        encoding = tokenizer.encode(row["sentence"])
        inputs = np.zeros((2, 1, about["length"]), np.int32)  # 0 is padding
        inputs[:, 0, : len(encoding.ids)] = encoding.ids, encoding.type_ids
        logits = network(tokens=inputs[0], segments=inputs[1])["logits"]
        label = about["labels"][int(np.argmax(logits))]
        out.write(json.dumps({"id": str(number), "prediction": label}) + "\n")
