"""Templates that place special tokens around the texts of an input. Published models differ in them."""

from collections.abc import Sequence
from dataclasses import dataclass

CLS = 2


@dataclass(frozen=True, kw_only=True)
class Template:
    """The layout of texts: "front A end", "front A middle B end", and so on. The parts are ids of special tokens.

    The default is BERT's, which models trained here use: [CLS] A [SEP] B [SEP].
    """

    front: tuple[int, ...] = (CLS,)
    middle: tuple[int, ...] = (3,)
    end: tuple[int, ...] = (3,)
    segmented: bool = True
    """Whether each text has its own segment id."""
    start: tuple[int, ...] = (CLS,)
    """The ids that a left-to-right language model reads before a text; () for a model trained without them."""

    def added(self, texts: int) -> int:
        """Returns the number of special tokens in an input of ``texts`` texts."""
        return len(self.front) + (texts - 1) * len(self.middle) + len(self.end)

    def lay(self, texts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Returns the ids and segments of an input. A special token has the segment of the text before it.

        [CLS] after a text has segment 2, as in XLNet (Yang et al., 2019, the authors' code).
        """
        tokens, segments = list(self.front), [0] * len(self.front)
        for number, text in enumerate(texts):
            after = self.end if number == len(texts) - 1 else self.middle
            segment = number if self.segmented else 0
            tokens += [*text, *after]
            segments += [segment] * len(text) + [2 if token == CLS else segment for token in after]
        return tokens, segments

    def begins(self, sizes: Sequence[int]) -> list[int]:
        """Returns the position where each text begins, for texts of these ``sizes``."""
        places = [len(self.front)]
        for size in sizes[:-1]:
            places.append(places[-1] + size + len(self.middle))
        return places

    def home(self, length: int) -> int:
        """Returns the position whose hidden state represents a whole row of ``length`` tokens.

        This is [CLS], or else the last special token, or else the first token.
        """
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
