"""Made-up records for the tests. Every value follows from the arguments."""

import hashlib
import random
from collections.abc import Iterator
from typing import Any

from ptmbench.leaderboard.records.record import Record

CARD = {
    "title": "BERT",
    "citation": "Devlin et al. (2019), BERT: Pre-training of Deep Bidirectional Transformers",
    "year": 2019,
    "representation": "contextual",
    "architecture": "Transformer encoder",
    "objectives": ["MLM", "NSP"],
    "extensions": [],
    "loss": "L = -sum over masked t of log p(x_t | rest) - log p(next | pair)",
    "tokenizer": "wordpiece",
    "corpus": "BooksCorpus and Wikipedia",
    "parameters": "110M",
    "reference": "transformers' BertForPreTraining",
    "reported": [{"task": "cola", "metric": "mcc", "value": 52.1, "source": "table 1", "split": "test"}],
}
TASKS = {
    "cola": ("CoLA", "classification", "mcc", 0.0),
    "sst2": ("SST-2", "classification", "accuracy", 50.9),
    "conll2003": ("CoNLL-2003", "tagging", "f1", None),
    "wikitext2": ("WikiText-2", "language_modelling", "perplexity", None),
}


def record(
    task: str = "cola", name: str = "bert", seed: int = 0, value: float = 50.0, kind: str = "pretrained", **changes: Any
) -> Record:
    """Makes one record. ``changes`` replace whole fields; the five names in ``part`` below change parts of a field."""
    title, form, headline, chance = TASKS.get(task, (task, "classification", "accuracy", None))
    part = {key: changes.pop(key, {}) for key in ("row", "task_", "pretraining", "adaptation", "cost")}
    row = {"name": name, "label": name.upper(), "kind": kind, "size": "mini", "division": "controlled", "card": None}
    if kind in ("pretrained", "published"):
        row["card"] = CARD | {"title": name.upper()}
    made = {
        "corpus": "wikitext-2+books_en", "corpus_sha256": "c" * 64, "seed": 0, "steps": 1000, "tokens": 20_000_000,
        "tokenizer": {"kind": "wordpiece", "size": 8000, "sha256": "d" * 64}, "flops": 1.5e15, "seconds": 1500.0,
        "weights_sha256": hashlib.sha256(ascii(name).encode()).hexdigest(), "loss": 3.5,
    }  # fmt: skip
    data = hashlib.sha256(task.encode()).hexdigest()
    values = {
        "status": "ok",
        "row": row | part["row"],
        "pretraining": made | part["pretraining"] if kind == "pretrained" else None,
        "task": {
            "name": task, "title": title, "version": 1, "form": form, "source": "official", "split": "dev",
            "examples": 1000, "data_sha256": data, "headline": headline, "higher_is_better": task != "wikitext2",
            "chance": chance, "licence": "CC BY 4.0",
        } | part["task_"],
        "adaptation": {"name": "finetune", "settings": {"learning_rate": 1e-4, "epochs": 3}} | part["adaptation"],
        "seed": seed,
        "scores": {name: {"value": value, "low": value - 2, "high": value + 2} for name in ("headline", headline)},
        "cost": {
            "parameters": 11_200_000, "parameters_embedding": 2_000_000, "steps": 300, "tokens": 600_000, "flops": 2e13,
            "seconds": {"load": 0.5, "trace": 2.0, "train": 30.0, "evaluate": 1.0, "total": 33.5},
            "peak_memory_bytes": 900 * 2**20,
        } | part["cost"],
        "curve": ({"step": 0, "loss": 0.7, "score": 0.0}, {"step": 300, "loss": 0.2, "score": value}),
        "predictions": None,
        "versions": {"ptmbench": "0.1.0", "python": "3.11.7", "tensorflow": "2.21.0"},
        "commit": "0123456789abcdef",
        "device": "2 cores of a test machine",
        "command": f"ptmbench run glue --models {name} --tasks {task} --seed {seed}",
        "finished": "2026-11-21T03:00:00Z",
    } | changes  # fmt: skip
    values.setdefault("key", hashlib.sha256(repr(sorted(values.items(), key=str)).encode()).hexdigest())
    return Record(**values)


def blank(code: str, text: str, status: str = "not_applicable", **arguments: Any) -> Record:
    """Makes a record without a score."""
    task_ = {"data_sha256": None, "examples": None} if code == "missing-data" else {}
    made = record(**({"task_": task_} | arguments), status=status, reason={"code": code, "text": text}, scores={})
    return made


def world(seeds: int = 3) -> Iterator[Record]:
    """Yields the records of a small run: three models, their random twins and a baseline on four tasks."""
    rng = random.Random(0)
    for task in TASKS:
        for name, level in (("bert", 70.0), ("gpt", 66.0), ("elmo", 69.0)):
            for kind, drop in (("pretrained", 0.0), ("random", 15.0)):
                for seed in range(seeds):
                    row = {"label": f"{name.upper()}, random" if kind == "random" else name.upper()}
                    here: dict[str, Any] = {"task": task, "name": name, "seed": seed, "kind": kind, "row": row}
                    if task == "wikitext2" and name == "bert":
                        text = "BERT is not a left-to-right language model, so it has no perplexity."
                        yield blank("not-a-language-model", text, **here)
                    elif name == "gpt" and seed == 2 and kind == "random" and task == "cola":
                        yield blank("diverged", "The loss was not finite at step 120.", "diverged", **here)
                    elif name == "elmo" and kind == "random" and task == "conll2003":
                        yield blank("out-of-memory", "The process ran out of memory.", "failed", **here)
                    else:
                        yield record(**here, value=level - drop + rng.gauss(0, 1.5) + 8 * list(TASKS).index(task))
        baseline: dict[str, Any] = {"task": task, "name": "majority", "kind": "baseline"}
        baseline |= {"row": {"label": "majority", "size": None}, "adaptation": {"name": "baseline", "settings": {}}}
        if task == "wikitext2":
            yield blank("not-a-language-model", "A constant answer has no perplexity.", **baseline)
        else:
            yield record(**baseline, value=35.0)
