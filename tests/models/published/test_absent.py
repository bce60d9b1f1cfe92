"""Absent ids, for which a published vocabulary has no token, get no probability in any output of a model."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, _vocabulary
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from tests.models.networks import build
from tests.models.published import made

SIZE = Size(layers=2, width=16, heads=2, inner=64, length=48)
WHOLE = Vocabulary(size=101)
ABSENT = (0, 1, *range(5, 37))
READ = published.names()


def random_network(name, vocabulary, seed=0):
    """Returns the network ``name`` with random weights in all variables."""
    network, rng = build(models.load(name), SIZE, vocabulary), np.random.default_rng(seed)
    for variable in network.loss.variables:
        variable.assign(rng.normal(0, 0.2, variable.shape))
    return network


def distributions(network):
    """Returns every array of logits [..., V] that the network can compute, by name."""
    rng, outputs = np.random.default_rng(1), {}
    tokens = rng.integers(37, WHOLE.size, (2, 9)).astype(np.int32)
    targets = np.pad(rng.integers(37, WHOLE.size, (2, 4)).astype(np.int32), [(0, 0), (1, 0)], constant_values=2)
    places = np.array([3, 5], np.int32)
    if network.fill is not None:
        outputs["fill"] = network.fill({"tokens": tokens, "segments": 0 * tokens, "places": places})
    if network.fill is not None and network.decode is None:  # decoders have a mark at the first position
        outputs["fill the first place"] = network.fill({"tokens": tokens, "segments": 0 * tokens, "places": 0 * places})
    if network.decode is not None:
        outputs["decode"] = network.decode({"tokens": tokens, "targets": targets})
    if network.writer is not None:
        memory, past = network.writer.begin(tokens)
        outputs["step"], _ = network.writer.step(memory, past, targets[:, None, :1], np.ones((2, 1, 1), bool))
    if hasattr(network.loss, "generate"):
        batch = {"tokens": tokens, "segments": 0 * tokens, "masked_positions": places[:, None]}
        outputs["generator"] = network.loss.generate(batch)
    return {name: np.asarray(logits, np.float32) for name, logits in outputs.items()}


@pytest.mark.parametrize("name", READ)
def test_absent_ids_have_no_probability(name):
    """The logits are -1e9 at absent ids. At all other ids they equal those of the same weights without absent ids."""
    masked = distributions(random_network(name, replace(WHOLE, absent=ABSENT)))
    plain = distributions(random_network(name, WHOLE))
    assert masked.keys() == plain.keys() and masked, name
    present = np.setdiff1d(np.arange(WHOLE.size), ABSENT)
    for output, logits in masked.items():
        assert (logits[..., ABSENT] == np.float32(-1e9)).all(), output
        np.testing.assert_array_equal(logits[..., present], plain[output][..., present], err_msg=output)


@pytest.mark.parametrize("name", READ)
def test_loss_normalises_over_present_tokens_only(name):
    """All labels of the batch are present. The loss is finite, and lower than with absent ids in the denominator.

    ELECTRA's samples depend on which ids are absent. Therefore only its generator's loss is compared.
    """
    vocabulary = replace(WHOLE, absent=tuple(n for n in ABSENT if n > 12))
    rng = np.random.default_rng(2)
    ids = rng.integers(37, WHOLE.size, 4000).astype(np.int32)
    begins = np.arange(0, 4001, 10)
    corpus = Corpus(ids, begins, np.arange(0, len(begins), 4), np.ones(len(ids), bool))
    losses = []
    for words in (vocabulary, WHOLE):
        network = random_network(name, words)
        batch = network.batches(corpus, 2, 32)(0, 0)
        values = network.loss(batch)
        losses.append(float(values.get("mlm_loss", values["loss"])))
    masked, plain = losses
    assert np.isfinite(masked) and 0 < plain - masked < 1, losses


def test_language_model_does_not_predict_absent_ids():
    """GPT-2 has the same token as start and end symbol, so there is only one mark between texts. GPT has neither."""
    tokens = np.array([[2, 40, 41, 3, 2, 42, 43, 3]], np.int32)
    network = random_network("gpt2", replace(WHOLE, absent=(2, 5)))
    outputs = network.log_likelihood({"tokens": tokens}).numpy()[0]
    assert outputs[4] == 0 and (outputs[[1, 2, 3, 5, 6, 7]] < 0).all() and np.isfinite(outputs).all()
    assert float(network.loss({"tokens": tokens})["loss"]) == pytest.approx(-outputs.sum() / 6, rel=1e-6)


def test_ending_vocabulary_makes_sep_present_and_no_other_absent_id():
    vocabulary = replace(WHOLE, absent=(0, 3, 5, 6))
    assert vocabulary.ending().absent == (0, 5, 6)
    assert WHOLE.ending() == WHOLE


@pytest.mark.parametrize(
    ("rows", "absent"),
    [
        ([0, 1, 2, 3, 4], ()),
        ([None, None, 7, 7, None], (0, 1, 2, 4)),
        ([9, 9, 9, 9, None], (0, 1, 2, 4)),
        ([0, 2, 0, 1, None], (2, 4)),
    ],
    ids=["BERT", "GPT-2", "GPT-2 as transformers saves it", "T5"],
)
def test_absent_ids_of_imported_vocabularies(rows, absent, tmp_path):
    """Ids without an original are absent. If ids share an original, only one is present: [SEP] if it is among them,
    since models predict it."""
    made.wordpiece(tmp_path)
    tokenizer = _vocabulary.read(tmp_path, {})
    note = tokenizer.imported | {"rows": rows + list(range(100, 132))}
    assert Tokenizer(tokenizer.kind, tokenizer.spec, note).vocabulary.absent == absent
    assert tokenizer.vocabulary.absent == ()


def test_absent_ids_survive_saving_the_tokenizer(tmp_path):
    made.bytewise(tmp_path)
    tokenizer = _vocabulary.read(tmp_path, {})
    assert tokenizer.vocabulary.absent == tuple(range(5, 37))
    tokenizer.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").vocabulary == tokenizer.vocabulary


def test_rows_beyond_the_vocabulary_are_kept(tmp_path):
    """T5's tables have 28 more rows than there are pieces. They are in its softmax, so they are in ours."""
    original = made.unigram(tmp_path)
    size = original.get_vocab_size()
    tokenizer = _vocabulary.read(tmp_path, {"model_type": "t5", "vocab_size": size + 28})
    plain = _vocabulary.read(tmp_path, {"model_type": "t5", "vocab_size": size})
    assert tokenizer.vocabulary.size == plain.vocabulary.size + 28
    assert tokenizer.encode(made.HARD) == plain.encode(made.HARD)
    table = np.random.default_rng(0).normal(size=(size + 28, 3)).astype(np.float32)
    ours = _vocabulary.to_ours(table, tokenizer)
    np.testing.assert_array_equal(_vocabulary.to_theirs(ours, tokenizer), table)
    with pytest.raises(PublishedError, match="vocab_size"):
        _vocabulary.read(tmp_path, {"vocab_size": 10**12})


def test_special_tokens_without_a_table_row_are_absent(tmp_path):
    """A special token that was added to the tokenizer but not to the model has no logit in the original model."""
    original = made.bytewise(tmp_path)
    size = original.get_vocab_size()
    original.add_special_tokens(["<extra_id_0>"])
    original.save(str(tmp_path / "tokenizer.json"))
    tokenizer = _vocabulary.read(tmp_path, {"vocab_size": size})
    assert tokenizer.imported["size"] == size and 5 in tokenizer.vocabulary.absent
    table = np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)
    np.testing.assert_array_equal(_vocabulary.to_theirs(_vocabulary.to_ours(table, tokenizer), tokenizer), table)
