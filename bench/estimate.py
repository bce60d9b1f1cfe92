"""What a plan will cost, before anything runs: FLOPs by formula, time by a short look at this machine. No
TensorFlow."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import tasks
from bench.adapt import settings as adaptation_settings
from bench.adapt.settings import fused, lm_seq2seq
from bench.budget import steps_of
from bench.console import duration
from bench.cost import topped_flops
from bench.data.examples import read, unfit
from bench.engine.networks import sized
from bench.engine.recipe import Recipe, recipe_of
from bench.plan import Cell, Plan, Pretraining
from models.card import Size
from models.tokenizers import Vocabulary
from tasks.forms import Form
from tasks.task import DataError, Task

_EFFICIENCY = 0.4
"""Share of a matrix product's rate that small networks reach in training."""
_TOKENS_PER_WORD = 1.4
_VOCABULARY = 8000
"""Words that a decoder chooses among, where a cell has not been given its tokenizer yet."""
_FIXED = 1.0
"""Seconds that a cell takes besides its arithmetic: weights, batches, scores."""


def table(plan: Plan, data: Path, shape: Size | None = None) -> str:
    """The plan as tab-separated lines, each with its cost estimate, and a total as the last line.

    ``shape`` is that of the one network of all cells, where there is one (a checkpoint's); otherwise each is as its
    size says.
    """
    rate, lines, total = flops_per_second() * _EFFICIENCY, [], 0.0
    lines.append("what\tmodel\ttask\tadaptation\tseed\ttokens\tFLOPs\ttime")
    for pretraining in plan.pretrainings:
        tokens, flops, seconds = _pretraining(pretraining, rate)
        total += seconds
        lines.append(
            f"pre-train\t{pretraining.model}-{pretraining.size}\t\t\t{pretraining.seed}\t{tokens:.3g}\t{flops:.2g}\t{duration(seconds)}"
        )
    examples: dict[str, Any] = {}
    for cell in plan.cells:
        name = f"{cell.row.name}-{cell.row.size}" if cell.row.size else cell.row.name
        tokens, flops, note = _cell(cell, data, examples, shape)
        seconds = flops / rate + _FIXED
        total += 0.0 if note else seconds
        cost = f"not applicable, because {note}" if note else f"{tokens:.3g}\t{flops:.2g}\t{duration(seconds)}"
        lines.append(f"cell\t{name}\t{cell.task}\t{cell.adaptation}\t{cell.seed}\t{cost}")
    count = f"{len(plan.pretrainings)} pre-trainings, {len(plan.cells)} cells"
    lines.append(f"total\t{count}\t\t\t\t\t\tabout {duration(total)} of one core at {rate / 1e9:.0f} GFLOP/s")
    return "\n".join(lines)


def flops_per_second() -> float:
    """What one core's matrix product reaches here, float32, in FLOP/s; a quarter of a second of measuring."""
    import numpy as np

    a = np.ones((512, 512), np.float32)
    best, until = 0.0, time.perf_counter() + 0.25
    while time.perf_counter() < until:
        started = time.perf_counter()
        a @ a
        best = max(best, 2 * 512**3 / (time.perf_counter() - started))
    return best


def _pretraining(pretraining: Pretraining, rate: float) -> tuple[float, float, float]:
    module, recipe = models.load(pretraining.model), recipe_of(pretraining.recipe)
    shape = sized(module, pretraining.size, recipe.length)
    per_step = recipe.batch * recipe.length
    per_token = module.flops_per_token(shape, Vocabulary(size=pretraining.vocabulary), recipe.length)
    steps = steps_of(pretraining.budget, per_step, per_step * per_token)
    if steps is None:
        seconds = pretraining.budget.minutes * 60
        return seconds * rate / per_token, seconds * rate, seconds
    flops = steps * per_step * per_token
    return steps * per_step, flops, flops / rate


def _cell(cell: Cell, data: Path, seen: dict[str, Any], shape: Size | None) -> tuple[float, float, str]:
    """Tokens to train on and to predict, FLOPs, and why not, if not. Lengths are read off the first thousand
    examples."""
    task = tasks.load(cell.task)
    for name in (cell.task, *cell.beside):
        _look(name, data, seen)
        reason = seen[name] if isinstance(seen[name], str) else unfit(tasks.load(name), cell.form)
        if reason:
            return 0.0, 0.0, reason
    if cell.row.kind == "baseline":
        return 0.0, 0.0, ""
    longest = cell.settings["length"]
    tokens = {
        name: _rows(cell, name, count, each) * min(words * _TOKENS_PER_WORD, longest)
        for name, (count, each, words) in seen[cell.task].items()
    }
    if cell.form is Form.LANGUAGE_MODELLING:
        trained, predicted = 0.0, tokens[task.report] * longest
    elif cell.form in (Form.CLOZE, Form.SIMILARITY, Form.ANALOGY):
        trained, predicted = 0.0, tokens[task.report]
    elif cell.method == "prompt":  # a row for each answer, as long as its examples make it
        count, _, words = seen[cell.task][task.report]
        each = min(words * _TOKENS_PER_WORD * (1 + cell.settings["shots"]), longest)
        trained, predicted = 0.0, count * each * max(len(task.labels), 2)
    elif cell.form is Form.RANKING:  # a question and its answer; every evaluation reads all candidates
        count, words = seen[cell.task, "candidates"]
        each = min(words * _TOKENS_PER_WORD, longest)
        evaluations = cell.settings["epochs"] * cell.settings["evaluations"] + 1
        trained = tokens.get("train", 0.0) + _rows(cell, "train", seen[cell.task].get("train", (0, 1.0, 0.0))[0]) * each
        predicted = tokens[task.report] + evaluations * count * each
    else:
        trained, predicted = tokens.get("train", 0.0), tokens[task.report]
        if cell.method == "match":  # a text, its reference and its candidates, all as long as the text
            ranked, most = cell.settings["ranked"], max(2, cell.settings["sentences"] or task.extra.get("lead", 0))
            beside = sum(math.comb(ranked, size) for size in (most - 1, most))
            trained, predicted = trained * (2 + beside), predicted * (1 + beside)
        if cell.method == "multitask":  # the training sets of all tasks first
            trained += _jointly(cell, [seen[name].get("train", (0, 1.0, 0.0)) for name in (cell.task, *cell.beside)])
    learning, answering = _flops_per_token(cell, longest, shape)
    return trained + predicted, learning * trained + answering * predicted, ""


def _look(name: str, data: Path, seen: dict[str, Any]) -> None:
    """Notes in ``seen`` how many examples the task ``name`` has, and how long they are, or why not."""
    if name in seen:
        return
    task = tasks.load(name)
    try:
        splits = {split: read(task, data, split) for split in {"train", task.report} if split in task.files}
        seen[name] = {split: (len(part), *_questions(task, part[:1000])) for split, part in splits.items()}
        seen[name, "candidates"] = _candidates(splits[task.report])
    except DataError as error:
        seen[name] = str(error)


def _rows(cell: Cell, split: str, count: int, each: float = 1.0) -> float:
    """How often a row of ``split`` is read, which has ``count`` examples and ``each`` rows an example."""
    count = min(count, cell.limit or count)
    if split != "train":
        return count * each
    rows = min(count, cell.settings.get("train_limit") or count) * each * cell.settings.get("epochs", 1)
    most = cell.settings.get("max_steps", 0) * cell.settings.get("batch", 1)
    return min(rows, most) if most else rows


def _jointly(cell: Cell, trains: list[tuple[int, float, float]]) -> float:
    """Tokens of learning several training sets in turns, each as `_look` notes it."""
    settings = {**cell.settings, "epochs": cell.settings["joint_epochs"], "max_steps": 0}
    rows = [_rows(replace(cell, settings=settings), "train", count, each) for count, each, _ in trains]
    lengths = [min(words * _TOKENS_PER_WORD, settings["length"]) for _, _, words in trains]
    whole = sum(n * length for n, length in zip(rows, lengths, strict=True))
    most = cell.settings["max_steps"] * cell.settings["batch"]
    return whole * min(1.0, most / sum(rows)) if most else whole


def _flops_per_token(cell: Cell, length: float, shape: Size | None) -> tuple[float, float]:
    """FLOPs of a training step and of a prediction, per token of rows of ``length``."""
    module, vocabulary = models.load(cell.row.model), Vocabulary(size=_VOCABULARY)
    shape = shape or sized(module, cell.row.size, Recipe().length)
    if cell.form is Form.LANGUAGE_MODELLING or cell.method == "prompt":
        ask = getattr(module, "likelihood_flops_per_token", None)  # other models answer "not applicable"
        return 0.0, ask(shape, vocabulary, length) if ask else 0.0
    if cell.form is Form.GENERATION and cell.method not in ("extract", "match", "infill"):
        decode, written = getattr(module, "decode_flops", None), cell.settings["target_length"]
        frozen = beside = 0.0  # of an encoder that only reads; of what is learnt beside the task
        if cell.method == "seq2seq" or (cell.method == "unsupervised" and decode is None):
            layers = int(cell.settings["decoder_layers"]) or shape.layers
            above = replace(shape, layers=layers, inner=shape.inner or 4 * shape.width)

            def decode(shape: Size, vocabulary: Vocabulary, length: float, targets: float) -> float:
                return topped_flops(module, shape, vocabulary, above, length, targets)

        if cell.method == "fused":
            own = adaptation_settings.read(cell.method, cell.settings).shape(shape.width, shape.layers, shape.length)
            frozen = module.encoder_flops_per_token(shape, length)

            def decode(shape: Size, vocabulary: Vocabulary, length: float, targets: float) -> float:
                return length * frozen + fused.flops(own, shape.width, vocabulary.size, length, targets)

        if cell.method == "lm_seq2seq":
            own = adaptation_settings.read(cell.method, cell.settings)
            beside = own.beside_flops(shape.width, vocabulary.size, 1 + written / length)

            def decode(shape: Size, vocabulary: Vocabulary, length: float, targets: float) -> float:
                return lm_seq2seq.flops(shape.width, shape.layers + own.upper, vocabulary.size, length, targets)

        if decode is None:
            return 0.0, 0.0
        start, half, whole = (decode(shape, vocabulary, length, n) / length for n in (0, written / 2, written))
        beam = 1 if cell.settings.get("sample") else cell.settings.get("beam", 1)
        if cell.method == "unsupervised":  # each text is translated, and written after that and after noise
            beside = start + 2 * (half - start) + (3 * whole if cell.settings["denoising"] else 0.0)
        # A pass for each token written, over what was written before it.
        if getattr(module, "READS_AGAIN", False) and cell.method not in ("seq2seq", "fused", "lm_seq2seq"):
            return 3 * whole, beam * written * half
        return 3 * whole - 2 * frozen + beside, start + beam * 2 * (half - start)
    forward = module.encoder_flops_per_token(shape, length) if cell.settings.get("layers") != "embedding" else 0.0
    before = cell.settings.get("lm_epochs", 0) / cell.settings["epochs"]  # as a language model, per epoch of the task
    read = before * module.flops_per_token(shape, vocabulary, length) if before else 0.0
    if cell.method == "taglm":  # the encoder is frozen, the two layers of the tagger learn
        tagger = adaptation_settings.read(cell.method, cell.settings).flops(shape.width)
        return forward + 3 * tagger, forward + tagger
    if cell.method == "multitask":
        forward += adaptation_settings.read(cell.method, cell.settings).flops(shape.width)
    return forward * (1 if cell.method in ("features", "mapping") else 3) + read, forward


def _candidates(examples: list[Any]) -> tuple[int, float]:
    """How many candidates the examples of a ranking share, and their mean number of words; (0, 0.0) for other forms."""
    texts = list((getattr(examples[0].gold, "candidates", None) or {}).values()) if examples else []
    return len(texts), sum(len(text.split()) + 2 for text in texts[:1000]) / max(len(texts[:1000]), 1)


def _questions(task: Task, examples: list[Any]) -> tuple[float, float]:
    """How many rows a network reads of an example, and their mean number of words, special tokens counted as one
    each."""
    asked = [question for example in examples for question in task.questions(example)] if task.ask else examples
    lengths = [sum(len(text.split()) for text in row.inputs) + 1 + len(row.inputs) for row in asked]
    return len(asked) / len(examples), sum(lengths) / len(lengths)
