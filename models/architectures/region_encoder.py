"""BERT that reads the regions of a picture after the tokens, in one stream, as configurations.

Source: Li et al. (2019), section 3.2, and the authors' code (uclanlp/visualbert, pytorch_pretrained_bert/modeling.py).
A region with features f has the vector

    norm(W f + b + s + p),    s the segment of all regions, p the position of the word that names it, or p_0 without one

The authors' code has tables for s and p_0, of which only one row is used. Here each is one vector.
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import Size
from ptmbench.models.layers.config import LinearConfig, TableConfig
from ptmbench.models.layers.region_config import RegionEncoderConfig, RegionsConfig

FEATURES = 2048
"""F for a vocabulary without pictures: ``visual_embedding_dim`` in the authors' configurations for VQA. Their
configurations for NLVR2 have 1024."""
REGIONS = 36
"""The number of regions of a picture that pre-training reads: the first ones, padded if there are fewer."""


def region_encoder(size: Size, vocabulary: int, features: int = FEATURES) -> RegionEncoderConfig:
    """BERT's encoder of ``size`` over tokens and regions with ``features`` features."""
    text, D = bert(size, vocabulary), size.width
    vector = TableConfig(rows=1, width=D)
    regions = RegionsConfig(projection=LinearConfig(inputs=features, outputs=D), segment=vector, position=vector)
    return RegionEncoderConfig(
        embeddings=text.embeddings, stack=text.stack, pooler=text.pooler, regions=regions, count=REGIONS
    )
