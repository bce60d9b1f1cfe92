"""How texts are laid out for a network, which published models each did in their own way. No TensorFlow."""

from collections.abc import Sequence
from dataclasses import dataclass

CLS = 2


@dataclass(frozen=True, kw_only=True)
class Template:
    """front A end, front A middle B end, and so on for further texts; the parts are ids of special tokens.

    BERT's, which models trained here have, is the default: [CLS] A [SEP] B [SEP].
    """

    front: tuple[int, ...] = (CLS,)
    middle: tuple[int, ...] = (3,)
    end: tuple[int, ...] = (3,)
    segmented: bool = True
    """Whether the second text is of another segment than the first."""
    start: tuple[int, ...] = (CLS,)
    """What a left-to-right language model reads before a text; () for one that was trained without."""

    def added(self, texts: int) -> int:
        """The number of special tokens around so many ``texts``."""
        return len(self.front) + (texts - 1) * len(self.middle) + len(self.end)

    def lay(self, texts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Ids and segments. Special tokens are of the segment of the text before them, but [CLS] at the end is of
        segment 2, as XLNet has it (Yang et al., 2019, the authors' code)."""
        tokens, segments = list(self.front), [0] * len(self.front)
        for number, text in enumerate(texts):
            after = self.end if number == len(texts) - 1 else self.middle
            segment = number if self.segmented else 0
            tokens += [*text, *after]
            segments += [segment] * len(text) + [2 if token == CLS else segment for token in after]
        return tokens, segments

    def begins(self, sizes: Sequence[int]) -> list[int]:
        """Where each text begins, by the ``sizes`` of the texts."""
        places = [len(self.front)]
        for size in sizes[:-1]:
            places.append(places[-1] + size + len(self.middle))
        return places

    def home(self, length: int) -> int:
        """The place that speaks for a whole row of ``length`` tokens: [CLS], without one the last special token,
        without any the first token."""
        if CLS in self.front:
            return self.front.index(CLS)
        if CLS in self.end:
            return length - len(self.end) + self.end.index(CLS)
        return length - 1 if self.end else 0


BERT = Template()
"""[CLS] A [SEP] B [SEP]"""
ROBERTA = Template(middle=(3, 3), segmented=False)
"""<s> A </s></s> B </s>"""
PROPHETNET = Template(front=())
"""A [SEP] B [SEP]"""
T5 = Template(front=(), segmented=False)
"""A </s> B </s>"""
PEGASUS = Template(front=(), middle=(), segmented=False)
"""A B </s>"""
XLNET = Template(front=(), end=(3, CLS))
"""A <sep> B <sep> <cls>"""
PLAIN = Template(front=(), middle=(), end=(), segmented=False)
"""A B"""
