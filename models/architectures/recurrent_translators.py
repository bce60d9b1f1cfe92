"""A translator made of LSTMs: the encoder whose states are CoVe, and the decoder that trains it.

Source: McCann et al. (2017), sections 3 and 4, after Luong et al. (2015) and the input feeding there (section 3.3).
Here one table of word vectors serves source, target and output. The paper uses GloVe's for the source and learns others
for the target. The layers are in `models.layers.translator`.
"""

from ptmbench.models.card import Size
from ptmbench.models.layers.config import Start, TableConfig
from ptmbench.models.layers.recurrent_config import (
    AttendingConfig,
    BothWaysConfig,
    RecurrentStackConfig,
    TextsEncoderConfig,
)
from ptmbench.models.text.tokenizers import Vocabulary


def cove(size: Size, vocabulary: Vocabulary) -> tuple[TextsEncoderConfig, AttendingConfig]:
    """L layers in both directions and L layers of the decoder. Word vectors have E = D / 2 columns, a direction of the
    encoder C = D / 4 cells, and a layer of the decoder 2 C cells."""
    if size.width % 4:
        raise ValueError(f"This encoder needs a width that 4 divides, not {size.width}: half of it are word vectors.")
    words = size.width // 2
    layer = BothWaysConfig(inputs=words, cells=words // 2)
    encoder = TextsEncoderConfig(
        tokens=TableConfig(
            rows=vocabulary.size,
            width=words,
            start=Start(kind="random_normal", deviations=(2 * words**-0.5,)),
        ),
        stack=RecurrentStackConfig(layers=(layer,) * size.layers),
        length=size.length,
        cls=vocabulary.cls,
    )
    return encoder, AttendingConfig(width=words, depth=size.layers, vocabulary=vocabulary.size)
