"""Span: two scores per token say where the answer begins and ends (Devlin et al., 2019, section 4.2).

Answers that are not spans compete in the same softmax. "No answer" points at [CLS], as in that paper's section 4.3.
Each named answer of the task (its ``labels``: "yes", "no") is an extra place in front of the tokens, with scores from
the pooled vector. So all answers of a window are on one scale, and none needs a threshold of its own.

If the context comes in named pieces, a third score at each piece's first token says whether it is evidence.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import channels, heads, parts
from ptmbench.bench.adapt.heads import InputRow, layout
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Answer, Answers, Piece, Reply
from ptmbench.tasks.task import Example, Task

_LONGEST_ANSWER = 30
_BEST = 20
_SURE = 1e9
"""Log odds that stand for certainty, because files cannot hold infinity."""


class Codec(heads.Codec):
    """Converts question and context to windows of tokens, and the scores of all windows of an example to one piece of
    its original context.

    A context that does not fit is read in overlapping windows, ``settings.stride`` tokens apart. A window without the
    answer points at [CLS]. A question that is longer than a third of ``settings.length`` loses its end.
    """

    STATE = ("named", "answers_all", "evidence", "outputs")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        self.tokenizer, self.settings = tokenizer, settings
        self.named = tuple(label for label in task.labels if label)
        self.answers_all = "" not in task.labels
        self.evidence = any(isinstance(piece, Piece) for example in train[:1] for piece in example.inputs)
        self.outputs = (len(self.named), self.evidence)

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        questions = self.tokenizer.encode([e.inputs[0] for e in examples])
        contexts = self.tokenizer.encode_with_offsets(["".join(e.inputs[1:]) for e in examples])
        rows, template = [], self.tokenizer.vocabulary.template
        for i, (example, question, (ids, offsets)) in enumerate(zip(examples, questions, contexts, strict=True)):
            (question,) = channels.texts(self.tokenizer, example, [question])
            question = question[: self.settings.length // 3]
            room = self.settings.length - template.added(2) - len(question)
            edges = np.array(offsets, np.int64).reshape(-1, 2)  # first and past-the-last character of each token
            pieces = _heads(example.inputs[1:], edges) if self.evidence else {}
            _, first = template.begins([len(question), 0])  # after [CLS] question [SEP]
            text = channels.context(self.tokenizer, example, ids, offsets, first=1)
            for begin in range(0, max(1, len(ids)), max(1, min(self.settings.stride, room))):
                window = range(begin, min(begin + room, len(ids)))
                arrays = layout(self.tokenizer.vocabulary, [question, text[begin : begin + room]], self.settings.length)
                inside = np.zeros(len(arrays["tokens"]), np.int32)
                home = template.home(len(inside))
                inside[[home, *range(first, first + len(window))]] = 1
                start, end = self._target(example.gold, edges, window, first, home)
                arrays |= {"inside": inside, "start": np.int32(start), "end": np.int32(end)}
                heads = {first + token - begin: name for token, name in pieces.items() if token in window}
                if self.evidence:
                    known = example.gold.facts if isinstance(example.gold, Answers) else ()
                    facts = np.full(len(inside), -1, np.int32)
                    facts[list(heads)] = [name in known for name in heads.values()]
                    arrays["facts"] = facts
                rows.append(InputRow(arrays, i, note=(first, edges[begin : begin + room], heads, home)))
                if begin + room >= len(ids):
                    break
        return rows

    def _target(
        self, gold: Sequence[Answer] | None, edges: np.ndarray, window: range, first: int, home: int
    ) -> tuple[int, int]:
        """The targets of start and end, counted from the first named answer: a named answer, a token, or [CLS], whose
        place is ``home``."""
        front = len(self.named)
        cls = front + home
        if not gold:
            return cls, cls
        span = _token_span(edges, gold[0])
        seen = span is not None and span[0] in window and span[1] in window
        if gold[0].text in self.named:
            label = self.named.index(gold[0].text)
            return (label, label) if seen or gold[0].start < 0 else (cls, cls)
        if not seen:
            return cls, cls
        return front + first + span[0] - window.start, front + first + span[1] - window.start

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[InputRow], outputs: Sequence[np.ndarray]
    ) -> list[str]:
        best, front = [(-np.inf, "")] * len(examples), len(self.named)
        facts: list[dict[Any, float]] = [{} for _ in examples]
        for row, scores in zip(rows, outputs, strict=True):
            first, edges, heads, home = row.note
            # Scores are relative to "no answer" in the same window, so that windows of one example can be compared.
            nothing = float(scores[front + home, :2].sum())
            found = [(float(scores[k, :2].sum()) - nothing, label) for k, label in enumerate(self.named)]
            solid = edges[:, 1] > edges[:, 0]  # no answer begins or ends at a lone space mark, which has no characters
            if solid.any():
                inside = scores[front + first : front + first + len(edges), :2]  # [window, 2]
                score, i, j = _best_span(*np.where(solid[:, None], inside, -np.inf).T)
                text = "".join(examples[row.example].inputs[1:])[int(edges[i][0]) : int(edges[j][1])]
                found.append((score - nothing, text))
            best[row.example] = max([best[row.example], *found], key=lambda pair: pair[0])
            for token, name in heads.items():
                seen = facts[row.example]
                seen[name] = max(seen.get(name, -np.inf), float(scores[front + token, 2]))
        return [self._reply(*pair, known) for pair, known in zip(best, facts, strict=True)]

    def _reply(self, score: float, text: str, facts: dict[Any, float]) -> str:
        evidence = [name for name, value in facts.items() if value > 0] if self.evidence else None
        if self.answers_all:
            return text if evidence is None else Reply(text, facts=evidence)
        odds = float(np.clip(-score, -_SURE, _SURE))
        if odds > 0:
            return Reply("", no_answer=odds, span=text, facts=evidence)
        return Reply(text, no_answer=odds, facts=evidence)


class Head(parts.Head):
    """``outputs``: the number of named answers, and whether a score for evidence is needed."""

    def __init__(self, outputs: tuple[int, bool]):
        super().__init__()
        self.named, evidence = outputs
        self.channels = 3 if evidence else 2
        self.dense = keras.layers.Dense(self.channels, name="edges")
        self.answers = keras.layers.Dense(self.channels * self.named, name="answers") if self.named else None

    def call(self, reading: Any, batch: dict[str, Any]) -> Any:
        outside = (1.0 - ops.cast(batch["inside"], "float32"))[..., None]
        edges = self.dense(reading.tokens)  # [B, T, C]
        edges = edges - 1e9 * ops.concatenate([outside, outside, 0.0 * outside][: self.channels], axis=-1)
        if self.answers is None:
            return edges
        answers = ops.reshape(self.answers(reading.pooled), [-1, self.named, self.channels])
        return ops.concatenate([answers, edges], axis=1)  # [B, K + T, C]

    def loss(self, scores: Any, batch: dict[str, Any]) -> Any:
        start = keras.losses.sparse_categorical_crossentropy(batch["start"], scores[..., 0], from_logits=True)
        end = keras.losses.sparse_categorical_crossentropy(batch["end"], scores[..., 1], from_logits=True)
        loss = ops.mean(start + end) / 2
        if self.channels == 2:
            return loss
        known = ops.cast(batch["facts"] >= 0, "float32")
        right = ops.cast(batch["facts"] > 0, "float32")
        each = keras.losses.binary_crossentropy(
            right[..., None], scores[:, self.named :, 2:], from_logits=True
        )  # [B, T]
        return loss + ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)


def _heads(pieces: Sequence[str], edges: np.ndarray) -> dict[int, Any]:
    """{first token: name} of the named pieces that have a token."""
    heads, start = {}, 0
    for piece in pieces:
        token = int(np.searchsorted(edges[:, 0], start))
        start += len(piece)
        if isinstance(piece, Piece) and token < len(edges) and edges[token, 0] < start:
            heads[token] = piece.name
    return heads


def _token_span(edges: np.ndarray, answer: Answer) -> tuple[int, int] | None:
    """First and last token that touch the answer's characters."""
    if answer.start < 0:
        return None
    touching = np.flatnonzero((edges[:, 1] > answer.start) & (edges[:, 0] < answer.stop))
    return (int(touching[0]), int(touching[-1])) if len(touching) else None


def _best_span(starts: np.ndarray, ends: np.ndarray) -> tuple[float, int, int]:
    """The largest sum and its pair i <= j < i + 30, among the 20 best starts."""
    best = (-np.inf, 0, 0)
    for i in np.argsort(-starts)[:_BEST]:
        reach = ends[i : i + _LONGEST_ANSWER]
        j = int(i) + int(np.argmax(reach))
        if starts[i] + ends[j] > best[0]:
            best = (float(starts[i] + ends[j]), int(i), j)
    return best
