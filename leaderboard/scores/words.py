"""What a board calls a row below its label: size, kind of weights, adaptation and transform in words."""

from typing import TYPE_CHECKING

from ptmbench.leaderboard.records.record import THEN

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
    "external": "",
    "fixed": "one fixed system",
}


def words_of(row: "Row") -> str:
    """The second line under the label of ``row``: "mini · pre-trained · fine-tuning · pruned 80 %"."""
    adaptation = "" if row.kind == "baseline" else adaptation_of(row)
    words = (row.size, _KIND_WORDS[row.kind], adaptation, row.transform.get("label"), row.part)
    return " · ".join(part for part in words if part)


def adaptation_of(row: "Row") -> str:
    """The adaptation of ``row`` with its settings, and its teacher if it has one: "fine-tuning, layers=top",
    "distillation from bert-mini, match=logits"."""
    name, _, settings = row.adaptation.partition(THEN)[0].partition(":")
    words = _ADAPTATION_WORDS.get(name, name)
    others = [f"{one}none" if one.endswith("=") else one for one in settings.split("+") if one]
    if row.teacher:
        teacher = "-".join(str(row.teacher.get(one) or "unknown") for one in ("name", "size"))
        words = f"{words} from {teacher}"
        others = [one for one in others if not one.startswith("teacher=")]
    return ", ".join(filter(None, (words, *others)))
