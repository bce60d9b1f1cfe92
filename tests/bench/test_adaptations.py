"""The contract of all adaptations in the registry; codecs restored from JSON; predictors saved and loaded."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptmbench.bench import adapt
from ptmbench.bench.adapt import heads, predictor, settings
from ptmbench.bench.adapt.built import random_weights
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

ROOT = Path(__file__).resolve().parents[2] / "bench" / "adapt"
TASKS = ("sst2", "stsb", "conll2003", "squad11", "copa", "absa", "multi30k-en-mw", "aeslc", "word_translation-mw-en")
SHAPE = Size(layers=1, width=16, heads=2, inner=32, length=64)


@pytest.fixture(scope="module")
def tokenizer(world):
    text = [line for file in (world / "corpus").glob("*.txt") for line in file.read_text().splitlines()[:300]]
    return Tokenizer.train("wordpiece", text, 300)


@pytest.mark.parametrize("name", adapt.names())
def test_every_folder_defines_the_adaptation_of_its_name(name):
    found = adapt.load(name)
    assert isinstance(found, Adaptation) and found.name == name and found.summary
    assert (ast.get_docstring(ast.parse((ROOT / name / "__init__.py").read_text())) or "").strip()
    assert found.learns == (type(found).respond is Adaptation.respond)
    for form in Form:
        try:
            module = heads.of(form, name)
        except (NotApplicable, ModuleNotFoundError):  # nothing is trained for these forms, so they have no head
            continue
        assert issubclass(module.Codec, heads.Codec)
        assert len(module.Codec.STATE) == len(set(module.Codec.STATE))


def test_the_folder_is_the_only_registry_of_adaptations():
    """No module of the harness names an adaptation or probes its attributes with `getattr`."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"conditions", "heads", "transforms"}
    assert set(adapt.names()) == folders and {"finetune", "ulmfit", "prompt"} <= folders
    harness = (ROOT.parent / "runs").glob("*.py")
    for path in [*ROOT.glob("*.py"), *harness]:
        tree = ast.parse(path.read_text())
        quoted = folders & {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not quoted, f"{path} names {quoted}"
        assert not re.search(r"getattr\((self\.)?(adaptation|head|codec|decoding|reading)\b", path.read_text()), path


def test_forms_with_a_single_adaptation_have_exactly_one():
    only = [form for name in adapt.names() for form in adapt.load(name).only]
    assert len(only) == len(set(only)) and set(only) == set(adapt.only())
    assert adapt.only()[Form.CLOZE] == "cloze"


def test_loading_adaptations_does_not_import_tensorflow():
    code = (
        "import sys; from ptmbench.bench import adapt\n"
        "for name in adapt.names(): adapt.load(name)\n"
        "print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in adapt.names() if adapt.load(name).learns])
def test_a_codec_is_restored_from_json_without_the_training_set(name, world, tokenizer):
    checked_tasks = 0
    for task in map(load, TASKS):
        train, report = task.examples(world, "train")[:24], task.examples(world, task.report)[:5]
        chosen = settings.defaults(task.form, name)
        try:
            module = heads.of(task.form, name)
            original_codec = module.Codec(task, tokenizer, chosen, train)
        except NotApplicable:
            continue
        if original_codec.first:
            continue  # its candidates come from another codec; tests/bench/test_match.py predicts with both
        if chosen.models(task.form):
            original_codec.join([tokenizer])
        checked_tasks += 1
        state = json.loads(json.dumps(original_codec.state()))
        restored = module.Codec.restored(task, tokenizer, chosen, state)
        if chosen.models(task.form):
            restored.join([tokenizer])
        assert restored.outputs == original_codec.outputs and hash(restored.outputs) == hash(original_codec.outputs)
        assert json.loads(json.dumps(restored.state())) == state
        # The state has everything that follows from the training set, except what training rows are made from.
        excluded = {"train", "tokenizer", "tokenizers", "settings", "task", "others", "right"}
        assert {k: v for k, v in vars(restored).items() if k not in excluded} == {
            k: v for k, v in vars(original_codec).items() if k not in excluded
        }
        rows, others = original_codec.rows(report), restored.rows(report)
        assert len(rows) == len(others) > 0
        for one, other in zip(rows, others, strict=True):
            assert all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    assert checked_tasks or name in ("infill", "match", "multitask", "extract")


def random_predictor(task, method, tokenizer, examples, **changes):
    """Returns a predictor with random weights, which is not trained further."""
    chosen = settings.changed(settings.defaults(task.form, method), {"length": 32, **changes})
    codec = heads.of(task.form, method).Codec(task, tokenizer, chosen, examples)
    own = Neighbour("bert", SHAPE, tokenizer)
    made = predictor.Trained(own=own, task=task, method=method, settings=chosen, seed=0, codec=codec)
    network = made.network
    network.reset(random_weights(*own, 3), 0)
    network.weights_owner = made
    return made


@pytest.mark.parametrize(("task", "method"), [("sst2", "finetune"), ("sst2", "features"), ("stsb", "finetune")])
def test_a_saved_predictor_gives_the_same_answers_after_loading(task, method, world, tokenizer, tmp_path):
    task = load(task)
    examples = task.examples(world, "dev")[:6]
    made = random_predictor(task, method, tokenizer, task.examples(world, "train")[:20])
    answers, each = made.answer(examples), made.flops(examples)
    assert sum(each) == pytest.approx(answers.flops) and len(each) == 6
    made.save(tmp_path / "kept", {"cell": "x"})
    made.network.reset(random_weights(*made.own, 9), 9)
    with pytest.raises(RuntimeError, match="has been trained again"):
        made.answer(examples)
    restored = predictor.load(checkpoint.read(tmp_path / "kept")).answer(examples)
    assert restored.predictions == answers.predictions and restored.flops == answers.flops
    if task.form is Form.CLASSIFICATION:
        best = [max(shares, key=shares.get) for shares in answers.probabilities]
        assert best == answers.predictions and restored.probabilities == answers.probabilities
        assert all(sum(shares.values()) == pytest.approx(1.0) for shares in answers.probabilities)
    else:
        assert answers.probabilities is None


def test_a_checkpoint_without_the_state_of_its_codec_is_rejected(world, tokenizer, tmp_path):
    task = load("sst2")
    made = random_predictor(task, "finetune", tokenizer, task.examples(world, "train")[:20])
    made.save(tmp_path / "kept", {})
    found = checkpoint.read(tmp_path / "kept")
    texts = {"tokenizer.json": found.path("tokenizer.json").read_text()}
    old = checkpoint.write(tmp_path / "old", about=found.about, arrays={"weights": found.arrays()}, texts=texts)
    with pytest.raises(CheckpointError, match=r"old lacks codec\.json.* Run the cell again with --keep\."):
        predictor.load(old)


@pytest.mark.parametrize(("name", "method"), [("sst2", "finetune"), ("sst2", "features"), ("copa", "finetune")])
def test_gradients_of_the_input_vectors_match_finite_differences_of_the_loss(name, method, world, tokenizer):
    """The loss is computed at two points nearby: the vector of a token that occurs once is moved in the table."""
    task = load(name)
    (example,) = task.examples(world, "dev")[:1]
    made = random_predictor(task, method, tokenizer, task.examples(world, "train")[:20])
    for variable in (*made.network.own, *made.network.pretrained):
        if len(variable.shape) == 2:
            variable.assign(variable * 8)  # so that the loss changes by more than its rounding error
    (found,) = made.gradients([example])
    (row,) = made.codec.rows([example])
    tokens = row.arrays["tokens"]
    assert found.shape == (*tokens.shape, SHAPE.width) and np.abs(found).max() > 0
    network, table = made.network, made.network.network.encoder.token_embedding
    ids, counts = np.unique(tokens, return_counts=True)
    once = [int(i) for i, n in zip(ids, counts, strict=True) if n == 1 and i >= tokenizer.vocabulary.first]
    single = max(once, key=lambda i: np.linalg.norm(found[tokens == i]))
    own, before = found[tokens == single][0], table.numpy()
    direction = own / np.linalg.norm(own)

    def loss(step):
        moved = before.copy()
        moved[single] += step * direction
        table.assign(moved)
        return network.mean_loss([row])

    slope = (loss(1e-3) - loss(-1e-3)) / 2e-3
    table.assign(before)
    assert slope == pytest.approx(np.linalg.norm(own), rel=1e-2, abs=1e-4)
    assert np.linalg.norm(own) > 2e-3


def test_gradients_need_a_plain_embedding_lookup(tokenizer):
    task = load("multi30k-en-mw")
    example = Example(id="0", inputs=("a b",), gold=("c",))
    made = random_predictor(task, "seq2seq", tokenizer, [example])
    with pytest.raises(NotApplicable, match="because this network does more with token ids than look"):
        made.gradients([example])
