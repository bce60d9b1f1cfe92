"""Imported models give every token the same probability as `transformers`.

The softmax is over exactly the original's ids.
"""

import json

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import _vocabulary, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made
from tests.models.references.common import TOLERANCE, noted, reference, torch, transformers

SIZE = Size(layers=2, width=32, heads=4, inner=128, length=64)
CLASSES = {
    "gpt2": ("bytewise", "GPT2LMHeadModel", "GPT2Config"),
    "gpt": ("endings", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig"),
    "ctrl": ("wordpiece", "CTRLLMHeadModel", "CTRLConfig"),
    "t5": ("unigram", "T5ForConditionalGeneration", "T5Config"),
    "t5_1_1": ("unigram", "T5ForConditionalGeneration", "T5Config"),
    "bart": ("bytewise", "BartForConditionalGeneration", "BartConfig"),
    "pegasus": ("unigram", "PegasusForConditionalGeneration", "PegasusConfig"),
    "roberta": ("bytewise", "RobertaForMaskedLM", "RobertaConfig"),
    "mpnet": ("bytewise", "MPNetForMaskedLM", "MPNetConfig"),
}
DECODERS = ("t5", "t5_1_1", "bart", "pegasus")
MORE = 3
"""Number of rows of the tables beyond the vocabulary."""


def write_gpt2_special_tokens(path) -> None:
    """Makes "</s>" the only special token. As in GPT-2, it marks both the start and the end of texts."""
    original = made.bytewise(path)
    spec = json.loads(original.to_str())
    spec |= {"post_processor": None, "added_tokens": [t for t in spec["added_tokens"] if t["content"] == "</s>"]}
    (path / "tokenizer.json").write_text(json.dumps(spec))
    (path / "tokenizer_config.json").write_text(json.dumps({f"{name}_token": "</s>" for name in ("bos", "eos", "unk")}))


def imported(name, path):
    """Returns the network of `transformers`, ours with its imported weights, and the imported tokenizer."""
    kind, cls, config = CLASSES[name]
    original = made.KINDS[kind](path)
    if name == "gpt2":
        write_gpt2_special_tokens(path)
    ours = Tokenizer.train("wordpiece", made.TEXT, 100).vocabulary
    settings = published.load(name).config(SIZE, ours) | {"vocab_size": original.get_vocab_size() + MORE}
    network = reference(getattr(transformers, cls), getattr(transformers, config), **settings)
    if name == "pegasus":  # `reference` draws all weights, but these are fixed
        waves = torch.tensor(published.load(name).fixed(SIZE)["model.encoder.embed_positions.weight"])
        for half in (network.model.encoder, network.model.decoder):
            half.embed_positions.weight.data.copy_(waves)
    network.save_pretrained(path)
    result = folder.read(path)
    assert (result.model, result.size) == (name, SIZE)
    built = models.load(name).build(result.size, result.tokenizer.vocabulary)
    read, _, _ = result.weights({v.path: tuple(v.shape) for v in built.loss.variables})
    networks.assign(built.loss.variables, read)
    return network, built, result.tokenizer


@pytest.mark.parametrize("name", CLASSES)
def test_log_probabilities(name, tmp_path):
    network, built, tokenizer = imported(name, tmp_path)
    places, size = _vocabulary.permutation(tokenizer)
    present = [n for n in range(tokenizer.vocabulary.size) if n not in tokenizer.vocabulary.absent]
    assert sorted(places[n] for n in present) == list(range(size))
    rng = np.random.default_rng(0)
    text = rng.integers(tokenizer.vocabulary.first, tokenizer.vocabulary.size, (2, 12)).astype(np.int32)
    theirs = torch.tensor(np.take(places, text).astype(np.int64))
    if name in DECODERS:
        first = np.pad(text[:, :6], [(0, 0), (1, 0)], constant_values=3)
        start = torch.full((2, 1), places[3])
        decoded = torch.cat([start, theirs[:, :6]], dim=1)
        logits = built.decode({"tokens": text, "targets": first}).numpy()
        expected = network(input_ids=theirs, attention_mask=torch.ones_like(theirs), decoder_input_ids=decoded).logits
    elif built.log_likelihood is not None:
        logits = built.decode({"tokens": text[:, :1], "targets": text[:, 1:]}).numpy()
        expected = network(input_ids=theirs).logits[:, 1:]
        likely = built.log_likelihood({"tokens": text}).numpy()[:, 1:]
        wanted = torch.log_softmax(network(input_ids=theirs).logits, -1)[:, :-1].gather(2, theirs[:, 1:, None])[..., 0]
        assert np.abs(likely - wanted.detach().numpy()).max() < TOLERANCE
    else:
        logits = built.fill({"tokens": text, "segments": 0 * text, "places": np.array([2, 7], np.int32)}).numpy()
        expected = network(input_ids=theirs).logits[[0, 1], [2, 7]]
    ours = logits - np.logaddexp.reduce(logits.astype(np.float64), axis=-1, keepdims=True)
    wanted = torch.log_softmax(expected, -1).detach().numpy()
    gap = noted("vectors", np.abs(ours[..., present] - wanted[..., [places[n] for n in present]]).max())
    assert gap < TOLERANCE * max(1.0, np.abs(expected.detach().numpy()).max())


def test_beam_search_texts_and_scores(tmp_path):
    """With beam search, BART's texts and their scores are those of `generate`."""
    network, built, tokenizer = imported("bart", tmp_path)
    places, _ = _vocabulary.permutation(tokenizer)
    rng = np.random.default_rng(3)
    text = rng.integers(tokenizer.vocabulary.first, tokenizer.vocabulary.size, (3, 9)).astype(np.int32)
    writing = Writing(beam=3, length_penalty=1.0)
    written = Generator(built, tokenizer.vocabulary, writing)(text, 8)
    network.generation_config.forced_eos_token_id = None
    theirs = torch.tensor(np.take(places, text).astype(np.int64))
    result = network.generate(
        theirs,
        attention_mask=torch.ones_like(theirs),
        decoder_start_token_id=places[2],
        bos_token_id=places[2],
        eos_token_id=places[3],
        pad_token_id=places[0],
        bad_words_ids=[[places[0]], [places[2]]],
        num_beams=3,
        max_new_tokens=8,
        length_penalty=1.0,
        early_stopping=True,
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert np.abs(written.scores[:, 0] - result.sequences_scores.numpy()).max() < TOLERANCE
    for ours, theirs in zip(written.ids[:, 0], result.sequences[:, 1:].tolist(), strict=True):
        ids = [places[i] for i in ours if i]
        assert ids == theirs[: len(ids)]
