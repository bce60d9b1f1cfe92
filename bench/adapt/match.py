"""Matching: of whole summaries the one that lies nearest to the text (MATCHSUM).

Zhong et al. (2020); survey, section 7.6. `bench.adapt.extract` learns first, from the same weights, and its scores say
what candidates are made of.

Both judge sentences of the text. Extraction takes the best ones, one by one; here candidates are judged as wholes, for
good sentences can say the same thing twice. Text and candidate become vectors of one encoder, each on its own.
"""

from ptmbench.bench.adapt import finetune
from ptmbench.tasks.forms import Form

SUMMARY = "extraction, then all weights learn which candidate summary lies nearest to the text"
HEADS = {Form.GENERATION: "matching"}
Reading = finetune.Reading
