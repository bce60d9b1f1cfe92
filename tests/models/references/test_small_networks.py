"""Compares with tiny networks of `transformers`. `tests.models.frozen` stores their outputs for machines without it."""

import json

import numpy as np
import pytest
import tokenizers

from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.contrastive_learning import electra
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.frozen import networks as ours
from tests.models.frozen import read, weight
from tests.models.frozen.networks import DECODERS, FAR, POSITIONS, SIZE, SIZES, VOCABULARY, inputs
from tests.models.published import made
from tests.models.references import test_probabilities, test_prophetnet, test_templates, test_unilm
from tests.models.references.common import ABOUT, long, seeded, torch, transformers

CLASSES = {
    "albert": "AlbertForPreTraining",
    "bart": "BartForConditionalGeneration",
    "bert": "BertForPreTraining",
    "ctrl": "CTRLLMHeadModel",
    "distilbert": "DistilBertForMaskedLM",
    "electra": "ElectraForPreTraining",
    "gpt": "OpenAIGPTLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "infoword": "BertForPreTraining",
    "mpnet": "MPNetForMaskedLM",
    "pegasus": "PegasusForConditionalGeneration",
    "prophetnet": "ProphetNetForConditionalGeneration",
    "roberta": "RobertaForMaskedLM",
    "spanbert": "BertForPreTraining",
    "structbert": "BertForPreTraining",
    "t5": "T5ForConditionalGeneration",
    "t5_1_1": "T5ForConditionalGeneration",
    "unilm": "BertForPreTraining",
    "unilm_v2": "BertForMaskedLM",
    "xlnet": "XLNetLMHeadModel",
}


def config_of(name: str) -> dict:
    """Returns the settings that `models.published` writes for the small size."""
    table = {"structbert": "bert", "spanbert": "bert", "infoword": "bert", "unilm_v2": "bert"}.get(name, name)
    config = published.load(table).config(SIZES.get(name, SIZE), VOCABULARY)
    if name in ("spanbert", "infoword"):
        config["type_vocab_size"] = 1
    return config


def network(name: str):
    """Returns the reference of ``name``, with names as the seeds of weights, and the shapes of its weights."""
    kind = getattr(transformers, CLASSES[name])
    config = {key: value for key, value in config_of(name).items() if key not in ("model_type", "architectures")}
    built = kind(kind.config_class(**config, attn_implementation="eager"))
    if name == "t5_1_1":  # this release ignores the configuration and ties the output layer to the token vectors
        built.lm_head.weight = torch.nn.Parameter(torch.zeros(VOCABULARY.size, SIZE.width))
    return built, seeded(built)


def stacked(layers, present: np.ndarray) -> np.ndarray:
    return torch.stack(tuple(layers)).detach().numpy() * present[..., None]


def seen(name: str, given: dict, key: str = "tokens") -> dict:
    """Returns the inputs of the class of ``name`` for ``tokens``, or for ``far``."""
    tokens = given[key]
    result = {"input_ids": long(tokens)}
    if key == "far":
        given = {"segments": (np.arange(150) >= 70).astype(np.int32)[None]}
    if name in ("bert", "electra", "albert", "structbert", "xlnet"):
        result["token_type_ids"] = long(given["segments"])
    if name in ("roberta", "mpnet"):  # the reference would count positions over tokens that are not its padding
        result["position_ids"] = torch.arange(2, tokens.shape[1] + 2)[None].repeat(len(tokens), 1)
    if name not in ("gpt", "gpt2", "ctrl"):
        mask = long(tokens > 0)
        result["attention_mask"] = mask.float() if name == "xlnet" else mask
    return result


def hidden(name: str, network) -> dict:
    """Computes what `ours.hidden` does, with the reference's encoder."""
    given = inputs()
    network = network.get_encoder() if network.config.is_encoder_decoder else network.base_model
    layers = network(**seen(name, given), output_hidden_states=True).hidden_states
    far = network(**seen(name, given, "far"), output_hidden_states=True).hidden_states[-1]
    return {"hidden": stacked(layers, given["tokens"] > 0), "far": far.detach().numpy()[0, FAR]}


def marked(given: dict, positions=POSITIONS, labels=None):
    """Returns the labels at ``positions``, and -100, which the reference ignores, everywhere else."""
    result = np.full(given["tokens"].shape, -100)
    np.put_along_axis(result, positions, given["labels"] if labels is None else labels, axis=1)
    return long(result)


def at(logits, positions) -> np.ndarray:
    return np.take_along_axis(logits.detach().numpy(), positions[:, :, None], axis=1)


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "distilbert", "spanbert", "infoword", "structbert"])
def test_masked_lm(name, hold):
    (built, shapes), given = network(name), inputs()
    more = {"labels": marked(given)}
    if name == "bert":  # the reference has the classes of NSP in the other order: 0 is "follows"
        more["next_sentence_label"] = torch.tensor([1, 0])
    if name == "albert":
        more["sentence_order_label"] = torch.tensor([1, 0])
    out = built(**seen(name, given), **more)
    scores = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    expected = hidden(name, built) | {"logits": at(scores, POSITIONS)}
    if name in ("bert", "albert"):
        expected["pooled"] = built.base_model(**seen(name, given)).pooler_output.detach()
    if name in ("bert", "albert", "roberta", "distilbert"):
        expected["loss"] = out.loss.detach()
    hold(name, ABOUT, shapes, expected)


def test_electra(hold):
    (built, shapes), given = network("electra"), inputs()
    small = electra.generator(SIZES["electra"])
    config = config_of("electra")
    config |= {"hidden_size": small.width, "intermediate_size": small.inner, "num_attention_heads": small.heads}
    generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**config, attn_implementation="eager"))
    shapes |= seeded(generator, "generator.")
    with torch.no_grad():  # as in the authors' training, both share one table of embeddings
        generator.electra.embeddings.load_state_dict(built.electra.embeddings.state_dict())
    if not hasattr(generator.electra, "embeddings_project"):
        pytest.fail("take another width: without a projection the table of weights lacks two of them")
    original = given["tokens"].copy()
    np.put_along_axis(original, POSITIONS, given["labels"], axis=1)
    hiding = original.copy()
    np.put_along_axis(hiding, POSITIONS, VOCABULARY.mask, axis=1)
    chosen = at(generator(**seen("electra", given | {"tokens": hiding})).logits, POSITIONS)
    nll = torch.nn.functional.cross_entropy(torch.tensor(chosen.reshape(4, -1)), long(given["labels"].reshape(-1)))
    replaced = original.copy()
    np.put_along_axis(replaced, POSITIONS, chosen.argmax(-1).astype(np.int32), axis=1)
    wrong = built(**seen("electra", given | {"tokens": replaced}), labels=long(replaced != original))
    expected = hidden("electra", built) | {"mlm_loss": nll, "rtd_loss": wrong.loss.detach()}
    hold("electra", ABOUT, shapes, expected)


def test_mpnet(hold):
    (built, shapes), given = network("mpnet"), inputs()
    tokens = given["tokens"].copy()
    tokens[:, 4] = VOCABULARY.mask
    labels = np.full(tokens.shape, -100)
    labels[:, 4] = given["tokens"][:, 4]
    out = built(**seen("mpnet", given | {"tokens": tokens}), labels=long(labels))
    expected = {"logits": out.logits[:, 4].detach(), "loss": out.loss.detach()}
    hold("mpnet", ABOUT, shapes, hidden("mpnet", built) | expected)


def test_xlnet(hold):
    built, shapes = network("xlnet")
    hold("xlnet", ABOUT, shapes, hidden("xlnet", built))


@pytest.mark.parametrize("name", ["gpt", "gpt2", "ctrl"])
def test_language_models(name, hold):
    (built, shapes), given = network(name), inputs()
    tokens = given["tokens"]
    present = tokens > 0
    likelihood = torch.log_softmax(built(input_ids=long(tokens)).logits, -1)[:, :-1].gather(
        2, long(tokens[:, 1:, None])
    )
    joined = np.concatenate([tokens[1:, :7], tokens[:1, : ours.START]], axis=1)
    expected = {
        "likelihood": np.pad(likelihood.detach().numpy()[..., 0] * present[:, 1:], [(0, 0), (1, 0)]),
        "loss": built(input_ids=long(tokens), labels=long(np.where(present, tokens, -100))).loss.detach(),
        "decode": built(input_ids=long(joined)).logits[:, 7:].detach(),
    }
    hold(name, ABOUT, shapes, hidden(name, built) | expected)


@pytest.mark.parametrize("name", DECODERS)
def test_encoder_decoders(name, hold):
    (built, shapes), given = network(name), inputs()
    if name == "pegasus":  # positions are fixed, not weights
        for part in (built.model.encoder, built.model.decoder):
            part.embed_positions.weight.data.copy_(part.embed_positions.create_weight())
    targets, written = given["targets"], given["targets"][:, :-1] > 0
    out = built(
        **seen(name, given),
        decoder_input_ids=long(targets[:, :-1]),
        labels=long(np.where(targets[:, 1:] > 0, targets[:, 1:], -100)),
        output_hidden_states=True,
    )
    first = {key: value[:1] for key, value in seen(name, given).items()}
    expected = {
        "decoder": stacked(out.decoder_hidden_states, written),
        "logits": out.logits.detach().numpy() * written[..., None],
        "far_logits": built(**first, decoder_input_ids=long(given["far"])).logits[0, FAR].detach(),
        "loss": out.loss.detach(),
    }
    hold(name, ABOUT, shapes, hidden(name, built) | expected)


def test_prophetnet_mended(monkeypatch, hold):
    kind = transformers.models.prophetnet.modeling_prophetnet.ProphetNetNgramSelfAttention
    monkeypatch.setattr(kind, "get_predict_relative_pos_embeddings", test_prophetnet.mended)
    (built, shapes), given = network("prophetnet"), inputs()
    targets = given["targets"][:, 1:]
    out = built(
        **seen("prophetnet", given),
        decoder_input_ids=long(given["targets"][:, :-1].clip(1)),
        labels=long(np.where(targets > 0, targets, -100)),
        output_hidden_states=True,
    )
    first = {key: value[:1] for key, value in seen("prophetnet", given).items()}
    far = built(**first, decoder_input_ids=long(given["far"]))
    pairs = zip(out.decoder_hidden_states, out.decoder_ngram_hidden_states, strict=True)
    expected = {
        "decoder": torch.stack([torch.cat([x[:, None], y.reshape(2, 2, 5, -1)], 1) for x, y in pairs]).detach(),
        "logits": torch.cat([out.logits[:, None], out.logits_ngram], 1).detach(),
        "far_logits": torch.cat([far.logits[:, None], far.logits_ngram], 1)[0, :, FAR].detach(),
        "loss": out.loss.detach(),
    }
    about = f"{ABOUT}, its predicting streams mended as test_prophetnet.py tells"
    hold("prophetnet", about, shapes, hidden("prophetnet", built) | expected)


def test_unilm_masks(hold):
    built, shapes = network("unilm")
    batch, expected = ours.unilm_inputs(), {}
    tokens, positions = batch["tokens"], batch["masked_positions"]
    for kind, see in ours.SEEN.items():
        out = built(
            input_ids=long(tokens),
            token_type_ids=long(ours.SEGMENTS[kind](batch["segments"])),
            attention_mask=test_unilm.mask(tokens, see),
            labels=marked(batch, positions, batch["masked_labels"]),
            next_sentence_label=long(1 - batch["next"]),
            output_hidden_states=True,
        )
        expected[f"{kind}/hidden"] = stacked(out.hidden_states[-1:], tokens > 0)[0]
        expected[f"{kind}/logits"] = at(out.prediction_logits, positions)
        if kind == "bidirectional":
            expected["loss"] = out.loss.detach()
    given, written = inputs(), np.zeros((2, 6, VOCABULARY.size), np.float32)  # each text is decoded without padding
    for row, count in ((0, 10), (1, 7)):
        for step in range(6):
            before = given["targets"].clip(5)[row, 1 : step + 1]
            text = np.concatenate([given["tokens"][row, :count], before, [VOCABULARY.mask]])[None]
            out = built(
                input_ids=long(text),
                token_type_ids=long(4 + (np.arange(text.shape[1]) >= count))[None],
                attention_mask=test_unilm.mask(text, lambda _, query, key, count=count: key < count or key <= query),
            )
            written[row, step] = out.prediction_logits[0, -1].detach()
    hold("unilm", ABOUT, shapes, expected | {"written": written})


def test_unilm_v2_pseudo_masks(hold):
    from transformers.models.t5.modeling_t5 import T5Attention

    built, shapes = network("unilm_v2")
    shapes["distances"] = (32, SIZE.heads)
    batch = ours.unilm_v2_inputs()
    labels, positions, segments = batch["masked_labels"], batch["masked_positions"], batch["segments"]
    pseudo = np.full_like(labels, VOCABULARY.sentinels[0])
    ids = np.concatenate([batch["tokens"], labels, pseudo], axis=1)
    places = np.concatenate([np.arange(150)[None], positions, positions], axis=1)
    inside = np.take_along_axis(segments, positions, axis=1)
    blocks = np.concatenate([batch["order"], batch["order"]], axis=1)

    def see(row, query, key):
        if key < 150 or query < 150:
            return key < 150
        theirs, own = blocks[row, key - 150], blocks[row, query - 150]
        if query < 154:
            return key < 154 and theirs <= own
        return theirs < own if key < 154 else theirs == own

    bucket = T5Attention._relative_position_bucket(
        long(places[:, None, :] - places[:, :, None]), bidirectional=True, num_buckets=32, max_distance=128
    )
    bias = torch.tensor(weight("distances", shapes["distances"]))[bucket].permute(0, 3, 1, 2)  # [B, H, U, U]
    logits = built(
        input_ids=long(ids),
        token_type_ids=long(np.concatenate([segments, inside, inside], axis=1)),
        position_ids=long(places),
        attention_mask=test_unilm.mask(ids, see) + bias,
    ).logits.detach()[0]
    chosen, gold = logits[[*positions[0], *range(154, 158)]], long(labels[0])
    nll = torch.nn.functional.cross_entropy
    loss = nll(chosen[:4], gold) + nll(chosen[4:], gold)
    about = f"{ABOUT}: BERT with the input, the masks and T5's biases written out"
    hold("unilm_v2", about, shapes, {"logits": chosen, "loss": loss})


FOLDERS = {
    **{name: (kind, cls) for name, (kind, cls, _) in test_probabilities.CLASSES.items()},
    "bert": ("wordpiece", "BertModel"),
    "electra": ("wordpiece", "ElectraModel"),
    "xlnet": ("unigram", "XLNetModel"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders(name, tmp_path, hold, request):
    """Compares vectors of texts that AutoTokenizer encodes, and probabilities of random ids.

    When it trains, `tokenizers` breaks ties at random, differently in each process. Therefore the stored vocabulary and
    the stored ids are used, except with ``--freeze``.
    """
    kind, cls = FOLDERS[name]
    cls = getattr(transformers, cls)
    if name in test_templates.CLASSES:
        count = test_templates.vocabulary(name, tmp_path)
    else:
        count = made.KINDS[kind](tmp_path).get_vocab_size()
    kept = {} if request.config.getoption("freeze") else read(f"folder_{name}").given
    if kept:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (tmp_path / file).write_text(str(kept[file]), encoding="utf-8")
        count = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size()
    size = Size(layers=2, width=16, heads=2, inner=64, length=48)
    small = Tokenizer.train("wordpiece", made.TEXT, 100).vocabulary
    settings = published.load(name).config(size, small) | {"vocab_size": count + test_probabilities.MORE}
    for key in ("model_type", "architectures"):
        settings.pop(key, None)
    network = cls(cls.config_class(**settings))
    shapes = seeded(network)
    if name == "pegasus":  # these are fixed
        for half in (network.model.encoder, network.model.decoder):
            half.embed_positions.weight.data.copy_(half.embed_positions.create_weight())
    network.save_pretrained(tmp_path)
    given = {
        file: (tmp_path / file).read_text(encoding="utf-8")
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json")
    }
    if ours.texts_of(name):
        pieces = transformers.AutoTokenizer.from_pretrained(tmp_path)
    options = {"return_tensors": "pt"} | ({"return_token_type_ids": True} if name == "xlnet" else {})
    inner, expected = network.get_encoder() if network.config.is_encoder_decoder else network.base_model, {}
    for key, texts in ours.texts_of(name).items():
        text = pieces(*texts, **options)
        expected[f"{key}/ids"] = text["input_ids"][0].numpy()
        expected[f"{key}/vectors"] = inner(**text).last_hidden_state[0].detach()
    if name not in ("bert", "electra", "xlnet"):
        spec = json.loads(given["tokenizer.json"])
        special = {token["id"] for token in spec["added_tokens"]}
        plain = np.array([number for number in range(count) if number not in special])
        given["lines"] = kept["lines"] if kept else plain[(ours.LINES * len(plain)).astype(int)]
        lines = long(given["lines"])
        ones = torch.ones_like(lines)
        if name in DECODERS:
            from ptmbench.models.published import _vocabulary, folder

            places, _ = _vocabulary.permutation(folder.read(tmp_path).tokenizer)
            start = torch.full((2, 1), places[3])
            decoded = torch.cat([start, lines[:, :4]], dim=1)
            logits = network(input_ids=lines, attention_mask=ones, decoder_input_ids=decoded).logits
        elif name in ("roberta", "mpnet"):
            logits = network(input_ids=lines).logits[[0, 1], [2, 5]]
        else:
            logits = network(input_ids=lines).logits
            likelihood = torch.log_softmax(logits, -1)[:, :-1].gather(2, lines[:, 1:, None])
            expected["likelihood"], logits = likelihood[..., 0].detach(), logits[:, 1:]
        expected["probabilities"] = torch.log_softmax(logits.double(), -1).detach()
    hold(f"folder_{name}", ABOUT, shapes, expected, **given)
