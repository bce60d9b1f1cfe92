"""Estimates the effort of a cell before it runs: tokens that the network reads, and FLOPs, by formulas.

`bench.adapt.settings.Settings` inherits from `Effort`. An adaptation that learns or predicts in another way overrides
its methods in its own settings. `bench.adapt.asking` counts the cost of a cell that trains nothing with the same
formulas.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ptmbench.bench.engine.cost import Decoder, decoder_of
from ptmbench.bench.errors import NoDecoder
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

TOKENS_PER_WORD = 1.4
"""Mean number of tokens per word, for tokenizers that are not trained yet."""


class Split(NamedTuple):
    """The size of a split: the number of examples, the mean number of rows per example, and the mean number of tokens
    per row."""

    examples: int = 0
    rows: float = 1.0
    tokens: float = 0.0


@dataclass(frozen=True)
class Cut:
    """How texts become tokens: with ``tokenizer`` or, before it is trained, as words of `TOKENS_PER_WORD` tokens."""

    vocabulary: Vocabulary
    tokenizer: Tokenizer | None = None

    def pieces(self, texts: Sequence[str]) -> list[Sequence[Hashable]]:
        """The ids of each text, or its words without a tokenizer."""
        return self.tokenizer.encode(list(texts)) if self.tokenizer else [text.split() for text in texts]

    @property
    def per_piece(self) -> float:
        """Tokens per piece."""
        return 1.0 if self.tokenizer else TOKENS_PER_WORD

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special ones."""
        return [round(self.per_piece * len(pieces)) for pieces in self.pieces(texts)]


class Network(NamedTuple):
    """Costs of a network, from the description in the file of its model."""

    module: Any
    shape: Size
    vocabulary: Vocabulary
    neighbours: tuple["Network", ...] = ()
    """The extra encoders (`bench.adapt.neighbours`)."""

    @property
    def model(self) -> Model:
        """The description of the network, with its costs."""
        return self.module.describe(self.shape, self.vocabulary)

    def reading(self, length: float) -> float:
        """FLOPs of the encoder over a row of ``length`` tokens."""
        return self.model.encoder_flops(length)

    def embedding(self, length: float) -> float:
        """FLOPs of the embeddings for a row of ``length`` tokens."""
        return self.model.embedding_flops(length)

    def learning(self, length: float) -> float:
        """FLOPs of a training step of the model's own objective on a row of ``length`` tokens."""
        return self.model.training_flops(length)

    @property
    def title(self) -> str:
        return self.module.CARD.title

    def reading_flops(self, rows: Mapping[int, float]) -> float:
        """FLOPs of the encoder; ``rows`` has the number of rows by their length in tokens."""
        model = self.model
        return float(sum(count * model.encoder_flops(length) for length, count in rows.items()))

    def filling_flops(self, rows: Mapping[int, float]) -> float:
        """FLOPs of scoring the vocabulary for one blank of each row; ``rows`` as in `reading_flops`."""
        model, output = self.model, 2 * self.shape.width * self.vocabulary.size
        return float(sum(count * (model.fill_flops(length) + output) for length, count in rows.items()))

    def scoring_flops(self, rows: Mapping[int, float]) -> float:
        """FLOPs of the likelihoods of texts, with a start symbol before each. ``rows`` as in `reading_flops`; the start
        symbol is not in their lengths."""
        model, start = self.model, len(self.vocabulary.template.start)
        return float(sum(count * model.likelihood_flops(start + length) for length, count in rows.items()))

    def gap_flops(self, rows: Mapping[int, float]) -> float:
        """FLOPs of the likelihoods of hidden sentences; ``rows`` as in `reading_flops`."""
        model = self.model
        return float(sum(count * model.gap_flops(length) for length, count in rows.items()))


class Effort:
    """The number of tokens in training and in prediction, and the cost of a row. The defaults are those of
    fine-tuning."""

    FREEZES = False
    """Whether the encoder is frozen."""
    WRITES = True
    """Whether a decoder writes the answers to a generation task. If not, an answer costs one forward pass."""

    def rows_read(self, split: Split) -> float:
        """Rows of ``split`` that the network reads in training."""
        return self.rows_trained_on(split)

    def rows_trained_on(self, split: Split) -> float:
        """Rows of ``split`` that one training of ``epochs`` and at most ``max_steps`` reads."""
        rows = self._limited(split) * self.epochs
        return min(rows, self.max_steps * self.batch) if self.max_steps else rows

    def teacher_rows(self, split: Split) -> float:
        """Rows of the training set ``split`` that a teacher reads: each once."""
        return self._limited(split)

    def _limited(self, split: Split) -> float:
        return min(split.examples, self.train_limit or split.examples) * split.rows

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """Tokens to train on, and tokens to predict. ``others`` are the training sets of `Settings.others`."""
        answered = report.examples * report.rows * min(report.tokens, self.length)
        return self.rows_read(train) * min(train.tokens, self.length), answered

    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """Tokens that an adaptation without training reads to answer ``examples``, and their FLOPs. Raises
        `NotApplicable` for a network that cannot answer."""
        raise NotImplementedError(
            f"{type(self).__module__} trains nothing: its settings need a method `answering_cost`."
        )

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """FLOPs of a training step and of an answer, for a row of ``length`` tokens."""
        if form is Form.GENERATION and self.WRITES:
            return self.writing(network)
        forward = self.forward(network)
        return forward * (1 if self.FREEZES else 3), forward

    def forward(self, network: Network) -> float:
        """FLOPs of one forward pass over a row, without heads."""
        return network.embedding(self.length) if self.layers == "embedding" else network.reading(self.length)

    def writing(self, network: Network) -> tuple[float, float]:
        """`flops` for a decoder: a token of each hypothesis costs one token's share of a forward pass. Raises
        `NoDecoder` if there is none."""
        decoder, beam = self.decoder(network), 1 if self.sample else self.beam
        if decoder is None:
            raise NoDecoder
        start, half, whole = (decoder.flops(self.length, n) for n in (0, self.target_length / 2, self.target_length))
        again = decoder.again and beam * self.target_length * half
        return 3 * whole, again or start + beam * 2 * (half - start)

    def decoder(self, network: Network) -> Decoder | None:
        """The decoder that generates text; None for a network without one."""
        return decoder_of(network.model)
