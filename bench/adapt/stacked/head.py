"""Tagging of words that several models read, each with its own tokens; see `bench.adapt.stacked`."""

from collections.abc import Iterator, Sequence

import numpy as np

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.heads import InputRow, layout, tagging
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

Head = tagging.Head


class Codec(tagging.Codec):
    """The codec of tagging, with words in place of tokens: ``tags`` [W] and ``places`` [W] refer to words.

    A row has the same words for every model. ``tokens`` and ``segments`` are for the cell's own model, ``tokens_m`` and
    ``segments_m`` for the m-th extra encoder. ``firsts_m`` [W] has the places of the words' first tokens for each model
    (m = 0: the cell's own). A sentence that is too long for one of the models continues in the next row.
    """

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: Settings, train: Sequence[Example]):
        super().__init__(task, tokenizer, settings, train)
        self.tokenizers = [tokenizer]

    def join(self, tokenizers: Sequence[Tokenizer]) -> None:
        """Adds extra encoders with these ``tokenizers``."""
        self.tokenizers = [self.tokenizer, *tokenizers]

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        unused = np.where(np.arange(self.outputs[0]) < len(self.labels), 0.0, -1e9).astype(np.float32)
        sentences = zip(*(t.encode_words([e.inputs for e in examples]) for t in self.tokenizers), strict=True)
        rows = []
        for i, encoded in enumerate(sentences):
            words = [
                _by_word(channels.words(tokenizer, examples[i], *one), one[1])
                for tokenizer, one in zip(self.tokenizers, encoded, strict=True)
            ]
            for begin, end in self._parts(words):
                arrays = self._read([one[begin:end] for one in words])
                tags = np.full(end - begin, -1, np.int32)
                if examples[i].gold is not None:
                    tags[:] = [self.number[tag] for tag in examples[i].gold[begin:end]]
                places = np.arange(end - begin, dtype=np.int32)
                rows.append(
                    InputRow(arrays | {"tags": tags, "places": places, "unused": unused}, i, note=(begin, places))
                )
        return rows

    def _parts(self, words: Sequence[Sequence[Text]]) -> Iterator[tuple[int, int]]:
        """Yields the first word of each row and the word after its last one. A row has as many words as fit for every
        model, and at least one."""
        rooms = [self.settings.length - tokenizer.vocabulary.template.added(1) for tokenizer in self.tokenizers]
        ends = [np.cumsum([len(ids) for ids in one]) for one in words]  # tokens up to the end of each word
        begin, count = 0, len(words[0])
        while begin < count:
            used = [end[begin - 1] if begin else 0 for end in ends]
            fits = [np.searchsorted(e, u + room, side="right") for e, u, room in zip(ends, used, rooms, strict=True)]
            end = max(begin + 1, int(min(fits)))
            yield begin, end
            begin = end

    def _read(self, words: Sequence[Sequence[Text]]) -> dict[str, np.ndarray]:
        """The arrays of a row: the tokens of each model for the same words."""
        arrays = {}
        for number, (tokenizer, own) in enumerate(zip(self.tokenizers, words, strict=True)):
            laid = layout(tokenizer.vocabulary, [channels.joined(own)], self.settings.length)
            arrays |= {f"{name}_{number}" if number else name: array for name, array in laid.items()}
            starts = np.cumsum([0, *(len(ids) for ids in own[:-1])]) + tokenizer.vocabulary.template.begins([0])[0]
            arrays[f"firsts_{number}"] = starts.astype(np.int32)
        return arrays


def _by_word(text: Text, index: Sequence[int]) -> list[Text]:
    """The text of each word; ``index`` has the number of the word of each token of ``text``."""
    ends = np.searchsorted(index, np.arange(index[-1] + 1 if index else 0), side="right")
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
