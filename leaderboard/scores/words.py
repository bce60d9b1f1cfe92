"""Words for the board: the line below a row's label (size, weights, adaptation, transform), and names of metrics."""

import re
from typing import TYPE_CHECKING

from ptmbench.leaderboard.records.record import THEN
from ptmbench.leaderboard.text import JOINT

if TYPE_CHECKING:
    from ptmbench.leaderboard.scores.grid import Row

_KIND_WORDS = {
    "pretrained": "pre-trained",
    "random": "random weights",
    "baseline": "baseline",
    "published": "published",
    "external": "external",
}
_ADAPTATION_WORDS = {
    "finetune": "fine-tuning",
    "features": "frozen features",
    "prompt": "prompting",
    "cloze": "as it is",
    "words": "as it is",
    "distil": "distillation",
    "pkd": "distillation (PKD)",
    "tinybert": "distillation (TinyBERT)",
    "mtdnn": "several tasks (MT-DNN)",
    "multitask": "several tasks",
    "fastbert": "early exit (FastBERT)",
    "pabee": "early exit (PABEE)",
    "layerdrop": "LayerDrop",
    "sparse": "pruning before fine-tuning",
    "ulmfit": "ULMFiT",
    "taglm": "TagLM",
    "fused": "BERT-fused",
    "extract": "extraction",
    "match": "matching",
    "mapping": "orthogonal map",
    "seq2seq": "new decoder",
    "lm_seq2seq": "language model as encoder and decoder",
    "infill": "mask and infill",
    "unsupervised": "unsupervised translation",
    "external": "",
    "fixed": "one fixed system",
}
_METRIC_WORDS = {
    "mcc": "Matthews correlation",
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "aspect_f1": "F1 of aspects",
    "joint_f1": "joint F1",
    "f1a": "F1 of answers",
    "exact_match": "exact match",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "bleu": "BLEU",
    "rougeL": "ROUGE-L",
    "rougeLsum": "ROUGE-L",
    "author_rougeL": "ROUGE-L",
    "mrr": "mean reciprocal rank",
    "hits_at_1": "hits at 1",
    "p_at_1": "precision at 1",
    "bits_per_byte": "bits per byte",
}


def metric_of(headline: str) -> str:
    """Returns the metric of a task in words: "Matthews correlation", "mean of accuracy and F1"."""
    names = [_METRIC_WORDS.get(one, one) for one in headline.split("+")]
    return names[0] if len(names) == 1 else f"mean of {' and '.join(names)}"


def words_of(row: "Row") -> str:
    """Returns the second line under the label of ``row``: "mini · pre-trained · fine-tuning · pruned 80 %"."""
    adaptation = "" if row.kind == "baseline" else adaptation_of(row)
    words = (row.size, _KIND_WORDS[row.kind], adaptation, row.transform.get("label"), row.part)
    return JOINT.join(part for part in words if part)


def adaptation_of(row: "Row") -> str:
    """Returns the adaptation of ``row`` with its settings, and its teacher if it has one: "fine-tuning, layers=top",
    "distillation from bert-mini, match=logits"."""
    name, _, settings = row.adaptation.partition(THEN)[0].partition(":")
    words = _ADAPTATION_WORDS.get(name, name)
    others = [f"{one}none" if one.endswith("=") else one for one in re.split(r"\+(?=\w+=)", settings) if one]
    if row.teacher:
        teacher = "-".join(str(row.teacher.get(one) or "unknown") for one in ("name", "size"))
        words = f"{words} from {teacher}"
        others = [one for one in others if not one.startswith("teacher=")]
    return ", ".join(filter(None, (words, *others)))
