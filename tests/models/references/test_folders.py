"""We read folders of `transformers`, and it loads ours, with the same vectors for the same text."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, _arrays, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made
from tests.models.references.common import TOLERANCE, reference, torch, transformers

SIZE = Size(layers=2, width=32, heads=4, inner=128, length=64)
VOCABULARIES = {"bert": "wordpiece", "electra": "wordpiece", "gpt": "endings", "t5": "unigram"}
TEXTS = ["The dog sleeps, walking on.", "A café in Zürich"]
CLASSES = {
    "bert": ("BertForPreTraining", "BertConfig"),
    "electra": ("ElectraForPreTraining", "ElectraConfig"),
    "gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig"),
    "t5": ("T5ForConditionalGeneration", "T5Config"),
}


def theirs(network, ids):
    """Returns the last hidden layer [1, T, D] of the encoder, or of a decoder-only model."""
    network = network.get_encoder() if network.config.is_encoder_decoder else network
    with torch.no_grad():
        return network(input_ids=torch.tensor([ids])).last_hidden_state.numpy()


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_folders_of_transformers_give_the_same_vectors_here(name, form, tmp_path):
    original = made.KINDS[VOCABULARIES[name]](tmp_path)
    kind, config = (getattr(transformers, cls) for cls in CLASSES[name])
    ours = Tokenizer.train("wordpiece", made.TEXT, 100).vocabulary
    settings = published.load(name).config(SIZE, ours) | {"vocab_size": original.get_vocab_size()}
    network = reference(kind, config, **settings)
    network.save_pretrained(tmp_path)
    if form == "bin":
        (tmp_path / "model.safetensors").unlink()
        torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    imported = folder.read(tmp_path)
    assert imported.size == SIZE and imported.model == name
    built = models.load(imported.model).build(imported.size, imported.tokenizer.vocabulary)
    read, absent, _ = imported.weights({v.path: tuple(v.shape) for v in built.loss.variables})
    assert set(absent) == {v.path for v in built.loss.variables if v.path.startswith(("generator/", "rtd/projection/"))}
    for variable in built.loss.variables:
        variable.assign(read.get(variable.path, variable.numpy()))
    for text, ids in zip(TEXTS, made.plain(original, TEXTS), strict=True):
        tokens = np.array(imported.tokenizer.encode([text]), np.int32)
        vectors = built.encoder({"tokens": tokens}).tokens.numpy()
        expected = theirs(network.base_model, ids)
        assert np.abs(vectors - expected).max() < TOLERANCE * max(1, np.abs(expected).max())


@pytest.mark.parametrize("name", VOCABULARIES)
def test_transformers_loads_models_that_were_trained_here(name, tmp_path):
    """`AutoModel` and `AutoTokenizer` give the same vectors for the same text, with our template."""
    tokenizer = Tokenizer.train("wordpiece", made.TEXT, 300)
    built = models.load(name).build(SIZE, tokenizer.vocabulary)
    arrays = {v.path: v.numpy() for v in built.loss.variables}
    folder.write(tmp_path / "f", model=name, size=SIZE, tokenizer=tokenizer, arrays=arrays)
    network, notes = transformers.AutoModel.from_pretrained(tmp_path / "f", output_loading_info=True)
    assert not notes["missing_keys"], notes
    pieces = transformers.AutoTokenizer.from_pretrained(tmp_path / "f")
    assert pieces.mask_token_id == 4 and pieces.pad_token_id == 0
    for text in [*TEXTS, *(text for text in made.HARD if text.strip())]:
        tokens = [2, *tokenizer.encode([text])[0], 3][: SIZE.length]
        ids = pieces(text, truncation=True, max_length=SIZE.length)["input_ids"]
        assert ids == [*tokens[:-1], 3]
        vectors = built.encoder({"tokens": np.array([ids], np.int32)}).tokens.numpy()
        expected = theirs(network.eval(), ids)
        assert np.abs(vectors - expected).max() < TOLERANCE * max(1, np.abs(expected).max())
    pair = pieces(*TEXTS)
    first, second = tokenizer.encode(TEXTS)
    assert pair["input_ids"] == [2, *first, 3, *second, 3]
    whole = getattr(transformers, CLASSES[name][0])
    _, notes = whole.from_pretrained(tmp_path / "f", output_loading_info=True)
    assert not notes["missing_keys"] and all(key.startswith("generator.") for key in notes["unexpected_keys"]), notes


def test_imported_vocabulary_is_exported_with_its_own_ids(tmp_path):
    made.wordpiece(tmp_path / "a")
    tokenizer = published._vocabulary.read(tmp_path / "a", {})
    built = models.load("bert").build(SIZE, tokenizer.vocabulary)
    arrays = {v.path: v.numpy() for v in built.loss.variables}
    folder.write(tmp_path / "f", model="bert", size=SIZE, tokenizer=tokenizer, arrays=arrays)
    network = transformers.AutoModel.from_pretrained(tmp_path / "f").eval()
    before, after = (transformers.AutoTokenizer.from_pretrained(tmp_path / part) for part in "af")
    for text in TEXTS:
        ids = after(text)["input_ids"]
        assert ids == before(text)["input_ids"]
        tokens = [2, *tokenizer.encode([text])[0], 3]
        vectors = built.encoder({"tokens": np.array([tokens], np.int32)}).tokens.numpy()
        assert np.abs(vectors - theirs(network, ids)).max() < TOLERANCE


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_are_read_without_running_code(zipped, tmp_path):
    arrays = {
        "bf16": torch.randn(2, 3).bfloat16(),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "turned": torch.randn(4, 5).t()[1:],
        "whole": torch.arange(4),
        "half": torch.randn(2).half(),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
    }
    arrays["shared"] = arrays["turned"]
    path = tmp_path / "pytorch_model.bin"
    torch.save(arrays, path, _use_new_zipfile_serialization=zipped)
    imported = _arrays.Arrays(_arrays.torch(path))
    assert imported.keys() == arrays.keys()
    for name, array in arrays.items():
        expected = array.detach().float() if array.is_floating_point() else array
        np.testing.assert_array_equal(imported[name], expected.numpy(), err_msg=name)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(PublishedError, match="damaged or cut short"):
        _arrays.torch(path)

    class Program:
        def __reduce__(self):
            return (print, ("this must not be printed",))

    torch.save({"a": Program()}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(PublishedError, match="asks for .*print, and code of checkpoints is never run"):
        _arrays.torch(path)


def test_half_precision_is_read_from_safetensors(tmp_path):
    from safetensors.torch import save_file

    arrays = {"a": torch.randn(2, 3).bfloat16(), "b": torch.randn(3).half(), "c": torch.arange(3)}
    save_file(arrays, tmp_path / "x.safetensors")
    imported = _arrays.Arrays(_arrays.safetensors(tmp_path / "x.safetensors"))
    for name, array in arrays.items():
        expected = array.float() if array.is_floating_point() else array
        np.testing.assert_array_equal(imported[name], expected.numpy())


@pytest.mark.parametrize(
    ("model_type", "cls", "marks"),
    [
        ("t5", "T5Tokenizer", {"pad": "<pad>", "eos": "</s>"}),
        ("albert", "AlbertTokenizer", {"pad": "<pad>", "bos": "[CLS]", "eos": "[SEP]"}),
        ("xlnet", "XLNetTokenizer", {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}),
    ],
)
def test_sentencepiece_models_tokenize_as_in_transformers(model_type, cls, marks, tmp_path):
    import sentencepiece

    (tmp_path / "text").write_text("\n".join(made.TEXT), encoding="utf-8")
    places = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    if "bos" in marks:  # ALBERT's ids
        places = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    symbols = {"albert": "[MASK]", "xlnet": "<sep>,<cls>,<mask>,<eop>,<eod>"}.get(model_type, "")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=90,
        control_symbols=symbols,
        minloglevel=2,
        **places,
        **{f"{name}_piece": piece for name, piece in marks.items()},
    )
    original = getattr(transformers, cls).from_pretrained(tmp_path)
    tokenizer = published._vocabulary.read(tmp_path, {"model_type": model_type, "decoder_start_token_id": 0})
    rows, size = published._vocabulary.permutation(tokenizer)
    for text in made.HARD:
        ids = original.backend_tokenizer.encode(text, add_special_tokens=False).ids
        assert [rows[i] for i in tokenizer.encode([text])[0]] == ids, text
