"""Compares beam search and greedy decoding with `transformers` on the same weights: tokens and scores are the same.

Both end the search of a row when as many texts have ended as there are beams (``early_stopping=True`` in
`transformers`).
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.models import published
from tests.models.frozen import networks as small
from tests.models.references.common import (
    ABOUT,
    SIZE,
    VOCABULARY,
    batch,
    difference,
    long,
    ours,
    reference,
    transformers,
)
from tests.models.references.test_seq2seq import bart_like
from tests.models.references.test_small_networks import network

LONGEST = 24
CLASSES = {
    "t5": (transformers.T5ForConditionalGeneration, transformers.T5Config),
    "bart": (transformers.BartForConditionalGeneration, transformers.BartConfig),
}


def networks(name: str):
    """Returns our network and the reference."""
    given = published.load(name).config(SIZE, VOCABULARY) if name == "t5" else bart_like(activation_function="gelu")
    given |= {"forced_eos_token_id": None} if name == "bart" else {}  # this class ends every text with id 2 by default
    network = reference(*CLASSES[name], **given)
    return ours(name, network), network


def until(ids: np.ndarray, end: int) -> list[int]:
    """Returns ``ids`` up to and including the first ``end``. The rest is padding, which may have the id of the end."""
    result = ids.tolist()
    return result[: result.index(end) + 1] if end in result else result


@pytest.mark.parametrize("name", CLASSES)
def test_decoding_writes_the_same_texts(name):
    built, network = networks(name)
    rng, tokens = np.random.default_rng(3), batch(40)["tokens"]
    tokens = np.concatenate([tokens, rng.integers(5, VOCABULARY.size, (6, 40))]).astype(np.int32)
    tokens[3:5, 17:] = 0
    # A random network hardly ever predicts [SEP]. The eighth token of greedy decoding is the end symbol instead.
    end = int(Generator(built, VOCABULARY, Writing())(tokens, 8).ids[0, 0, -1])
    vocabulary, lengths = replace(VOCABULARY, sep=end), set()
    for beam, penalty, repeats in ((4, 1.0, 0), (3, 0.6, 2), (1, 1.0, 0)):
        theirs = network.generate(
            input_ids=long(tokens),
            attention_mask=long(tokens > 0),
            num_beams=beam,
            num_return_sequences=beam,
            do_sample=False,
            early_stopping=beam > 1,
            length_penalty=penalty,
            no_repeat_ngram_size=repeats,
            suppress_tokens=[VOCABULARY.pad, VOCABULARY.cls],
            max_new_tokens=LONGEST,
            pad_token_id=VOCABULARY.pad,
            eos_token_id=end,
            decoder_start_token_id=VOCABULARY.cls,
            output_scores=True,
            return_dict_in_generate=True,
        )
        writing = Writing(beam=beam, length_penalty=penalty, no_repeat_ngram=repeats)
        result = Generator(built, vocabulary, writing)(tokens, LONGEST)
        texts = theirs.sequences.numpy()[:, 1:].reshape(len(tokens), beam, -1)
        for row in range(len(tokens)):
            for rank in range(beam):
                mine, other = (until(ids[row, rank], end) for ids in (result.ids, texts))
                assert mine == other, (beam, row, rank)
                lengths.add(len(mine))
        if beam > 1:
            scores = theirs.sequences_scores.reshape(len(tokens), beam)
            assert difference(result.scores, scores) < 2e-4
    assert min(lengths) < LONGEST == max(lengths), lengths  # some texts ended, some were cut


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_beams(name, hold):
    """Beam search with the tiny networks whose outputs `tests.models.frozen` stores."""
    built, shapes = network(name)
    built.generation_config.forced_eos_token_id = None
    tokens, expected = small.sources(), {}
    # A random network hardly ever predicts [SEP]. The fourth token of greedy decoding is the end symbol instead.
    search = partial(
        built.generate,
        input_ids=long(tokens),
        attention_mask=long(tokens > 0),
        do_sample=False,
        suppress_tokens=[small.VOCABULARY.pad, small.VOCABULARY.cls],
        max_new_tokens=small.LONGEST,
        pad_token_id=small.VOCABULARY.pad,
        decoder_start_token_id=small.VOCABULARY.cls,
    )
    end = int(search(num_beams=1, eos_token_id=small.VOCABULARY.sep)[0, 4])
    for beam, penalty, repeats in small.SEARCHES:
        result = search(
            num_beams=beam,
            num_return_sequences=beam,
            early_stopping=beam > 1,
            length_penalty=penalty,
            no_repeat_ngram_size=repeats,
            eos_token_id=end,
            output_scores=True,
            return_dict_in_generate=True,
        )
        texts = result.sequences.numpy()[:, 1:].reshape(len(tokens), beam, -1)
        expected[f"{beam}/ids"] = small.until(texts, end)
        if beam > 1:
            expected[f"{beam}/scores"] = result.sequences_scores.reshape(len(tokens), beam)
    lengths = {int((text > 0).sum()) for key, ids in expected.items() if "ids" in key for text in ids.reshape(-1, 10)}
    assert min(lengths) < small.LONGEST == max(lengths), lengths  # some texts ended, some were cut
    hold(f"beams_{name}", ABOUT, shapes, expected, end=end)
