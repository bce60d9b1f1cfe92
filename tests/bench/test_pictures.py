"""Pictures in adaptation: rows of image regions, padding, alignments of words and regions, and learning."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.built import adapted, random_weights
from ptmbench.bench.adapt.cloze import network as cloze
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.settings import baked
from ptmbench.bench.engine import checkpoint, cost
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.errors import NotApplicable
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import BLANK, Form
from ptmbench.tasks.microworld import Sizes, make
from ptmbench.tasks.shapes import FEATURES, regions
from ptmbench.tasks.task import Example, Mention
from tests.bench.processes import PATIENCE, ROOT, start, states, wait_for
from tests.bench.test_channels import FORMS, KNOWING, READERS, TEXTS, form_rows
from tests.bench.test_ernie import ptmbench

SHAPE = Size(layers=1, width=16, heads=2, inner=24, length=24)
TEXT = "there is a yellow square"
PLAIN = Tokenizer.train("word", [TEXT, "there is no black circle"] * 9, 60)
SEEING = PLAIN.with_symbols({}, {"regions": FEATURES})
NUMBERS = {"corpus_tokens": 300, "people": 10, "translations": 4, "wiki_tokens": 300}


def example(count: int, **channels: object) -> Example:
    rng = np.random.default_rng(count)
    boxes = np.tile(np.float32([0, 0, 0.5, 0.5]), (count, 1))
    seen = {"regions": rng.normal(size=(count, FEATURES)).astype(np.float32), "boxes": boxes}
    return Example(id=str(count), inputs=(TEXT,), gold="true", channels=seen | channels)


def rows(tokenizer: Tokenizer, *examples: Example) -> list[InputRow]:
    chosen = settings.changed(settings.defaults(Form.CLASSIFICATION, "finetune"), {"length": 24})
    return heads.of(Form.CLASSIFICATION, "finetune").Codec(load("nlvr"), tokenizer, chosen, examples).rows(examples)


def network(model: str = "visualbert"):
    """A network with weights far from 0."""
    chosen = baked(settings.defaults(Form.CLASSIFICATION, "finetune"))
    made = adapted(model, SHAPE, SEEING, Form.CLASSIFICATION, "finetune", 4, chosen)
    for number, variable in enumerate([*made.network.encoder.variables, *made.own]):
        variable.assign(np.random.default_rng(number).normal(0.0, 0.4, variable.shape))
    return made


def test_rows_have_regions_only_if_the_tokenizer_has_pictures():
    full, empty = rows(SEEING, example(3), Example(id="x", inputs=(TEXT,), gold="true"))
    assert set(full.arrays) == set(empty.arrays)
    assert full.arrays["regions"].shape == (3, FEATURES) and empty.arrays["regions"].shape == (0, FEATURES)
    assert full.arrays["boxes"].shape == (3, 4) and empty.arrays["boxes"].shape == (0, 4)
    assert set(rows(PLAIN, example(3))[0].arrays) == {"tokens", "segments", "label", "unused"}
    batch = stack([full, empty, *rows(SEEING, example(5))])
    assert batch["regions"].shape == (3, 8, FEATURES) and batch["boxes"].shape == (3, 8, 4)
    assert batch["boxes"].any(axis=-1).sum(axis=1).tolist() == [3, 0, 5] and not batch["regions"][1].any()


def test_arrays_of_an_extra_encoder_are_padded_in_the_same_way():
    seen = rows(SEEING, example(3), example(6))
    other = [InputRow({f"{name}_1": array for name, array in row.arrays.items()}, row.example) for row in seen]
    for name, array in stack(seen).items():
        np.testing.assert_array_equal(stack(other)[f"{name}_1"], array, strict=True)


def test_regions_with_another_number_of_features_are_not_applicable():
    seen = {"regions": np.ones((2, 7), np.float32), "boxes": np.ones((2, 4), np.float32)}
    with pytest.raises(NotApplicable, match="image regions of 7 features, .* pre-trained with 16 features"):
        rows(SEEING, Example(id="x", inputs=(TEXT,), gold="true", channels=seen))


def test_outputs_depend_on_the_picture_and_not_on_padding():
    made, (one, other) = network(), rows(SEEING, example(2), example(7))
    alone, in_batch = (np.asarray(made.forward(stack(given))) for given in ([one], [one, other]))
    assert np.abs(alone[0] - in_batch[0]).max() < 1e-5
    arrays = {
        name: np.roll(one.arrays[name], 1, axis=-1) if name == "regions" else one.arrays[name] for name in one.arrays
    }
    assert np.abs(alone - np.asarray(made.forward(stack([replace(one, arrays=arrays)])))).max() > 1e-3


def test_a_model_without_regions_ignores_the_picture():
    made, (seen, unseen) = network("bert"), rows(SEEING, example(3), example(0))
    assert np.array_equal(made.forward(stack([seen])), made.forward(stack([unseen])))


def test_alignments_point_to_the_words_that_name_a_region():
    yellow, square = (Mention(0, TEXT.index(word), TEXT.index(word) + len(word), "") for word in ("yellow", "square"))
    (row,) = rows(SEEING, example(3, alignments=((yellow, square), (), (square,))))
    assert row.arrays["alignments"].tolist() == [[4, 5], [-1, -1], [5, -1]]
    assert SEEING.pieces(row.arrays["tokens"][4:6]) == ["yellow", "square"]
    batch = stack([row, *rows(SEEING, example(1))])
    assert batch["alignments"].shape == (2, 4, 2) and (batch["alignments"][1] == -1).all()
    made, (plain,) = network(), rows(SEEING, example(3))
    assert np.abs(made.forward(stack([row])) - made.forward(stack([plain]))).max() > 1e-4


def test_flops_include_regions():
    seeing, reading = (models.load(name).describe(SHAPE, SEEING.vocabulary) for name in ("visualbert", "bert"))
    (row,) = rows(SEEING, example(3))
    text, added = cost.encoder_flops(reading, [row]), seeing.media_flops(row.tokens, {"regions": 3})
    assert added > 0 and cost.encoder_flops(seeing, [row] * 2) == pytest.approx(2 * (text + added))


EYES = KNOWING.with_symbols(KNOWING.symbols, {"regions": 5})


def with_picture(example, count, seed=0, **channels):
    """``example`` with a picture of ``count`` regions."""
    rng = np.random.default_rng(seed)
    boxes = np.tile(np.float32([0, 0, 0.5, 0.5]), (count, 1))
    seen = {"regions": rng.normal(size=(count, 5)).astype(np.float32), "boxes": boxes}
    return replace(example, channels=seen | channels)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_form_have_regions_and_alignments(form):
    """No word names the first region. The first word of the first input names the second one."""
    word = str(FORMS[form].inputs[0]).split()[0]
    named = with_picture(FORMS[form], 2, alignments=((), (Mention(0, 0, len(word), ""),)))
    rows, rows_without_picture = form_rows(form, EYES, named), form_rows(form, EYES, FORMS[form])
    assert len(rows) == len(rows_without_picture)
    for row, other in zip(rows, rows_without_picture, strict=True):
        assert set(row.arrays) == set(other.arrays)
        tokens, regions, names = (row.arrays[name] for name in ("tokens", "regions", "alignments"))
        if tokens.ndim == 1:
            tokens, regions, names = tokens[None], regions[None], names[None]
        assert not other.arrays["regions"].size and not other.arrays["alignments"].size
        about = 1 if form is Form.RANKING else len(tokens)  # candidates have no picture
        for text in range(about):
            np.testing.assert_array_equal(regions[text], named.channels["regions"])
        first = [piece.removeprefix("##") for piece in EYES.pieces(tokens[0][names[0, 1][names[0, 1] >= 0]])]
        assert "".join(first) == word and (names[0, 0] == -1).all()
    batch = stack([*rows, *form_rows(form, EYES, with_picture(FORMS[form], 3))])
    assert batch["regions"].shape[-2:] == (4, 5) and batch["alignments"].dtype == np.int32
    assert batch["boxes"].any(axis=-1).sum(axis=-1).max() == 3


@pytest.mark.parametrize("form, adaptation, outputs", [*READERS, (Form.RANKING, "finetune", 1)])
def test_outputs_of_every_form_depend_on_the_picture(form, adaptation, outputs):
    """FLOPs include the regions, and padding of regions and texts changes nothing."""
    chosen = settings.changed(settings.defaults(form, adaptation), {"length": 24})
    network = adapted("visualbert", SHAPE, EYES, form, adaptation, outputs, baked(chosen))
    for number, variable in enumerate([*network.network.encoder.variables, *network.own]):
        variable.assign(np.random.default_rng(number).normal(0.0, 0.4, variable.shape))
    (one, *_), (other, *_), (more, *_) = (
        form_rows(form, EYES, with_picture(FORMS[form], count, seed)) for count, seed in ((2, 0), (2, 1), (7, 2))
    )
    added = network.forward_flops([more]) - network.forward_flops(form_rows(form, EYES, FORMS[form])[:1])
    about = more.tokens if form is not Form.RANKING else np.count_nonzero(more.arrays["tokens"][0])
    lengths = [about] if form is not Form.CHOICE else np.count_nonzero(more.arrays["tokens"], axis=1)
    described = models.load("visualbert").describe(SHAPE, EYES.vocabulary)
    assert added == pytest.approx(sum(described.media_flops(int(n), {"regions": 7}) for n in lengths))
    if network.decoding:
        losses = [network.mean_loss([row]) for row in (one, other)]
        assert abs(losses[0] - losses[1]) > 1e-4
        batch = stack([one, more])
        seen = {name: batch[name] for name in ("regions", "boxes", "alignments")}
        reread = Generator(SimpleNamespace(decode=network.decoding.decode, writer=None), EYES.vocabulary, Writing())
        ids = reread(batch["tokens"], 5, channels=seen).ids[:, 0]
        np.testing.assert_array_equal(network.write(Writing(), batch, 5, 0), ids)
        return
    alone, changed, in_batch = (np.asarray(network.forward(stack(rows)))[0] for rows in ([one], [other], [one, more]))
    assert np.abs(alone - changed).max() > 1e-4
    np.testing.assert_allclose(alone, in_batch, atol=1e-5)


def test_sentences_of_a_document_may_have_one_picture_each():
    """A sentence keeps its picture next to a context with another one. Without one, it takes that of the context."""
    texts = TEXTS[0].split(), TEXTS[2].split()
    made = [Example(id=str(i), inputs=tuple(t), gold=("O",) * len(t), group="d") for i, t in enumerate(texts)]
    for seen, expected in (((1, 2), (1, 2)), ((2, 0), (2, 2)), ((0, 0), (0, 0))):
        given = [with_picture(example, count) if count else example for example, count in zip(made, seen, strict=True)]
        rows = form_rows(Form.TAGGING, EYES, *given, context=1, length=40)
        assert tuple(len(row.arrays["regions"]) for row in rows) == expected


def test_cloze_and_extraction_rows_keep_the_picture_of_their_text():
    text = f"Berlin lies on the {BLANK} in Berlin ."
    names = ((Mention(0, 0, 6, ""), Mention(0, text.rindex("Berlin"), text.rindex("Berlin") + 6, "")), ())
    asked = with_picture(Example(id="0", inputs=(text,)), 2, alignments=names)
    (row,) = cloze.rows(EYES, settings.defaults(Form.CLOZE, "cloze"), [asked], causal=False)
    pieces = EYES.pieces(row.tokens[row.arrays["alignments"][0]])
    assert "".join(piece.removeprefix("##") for piece in pieces) == "BerlinBerlin" and len(row.arrays["regions"]) == 2
    lines = Example(id="0", inputs=("\n".join(TEXTS[:2]),), gold=(TEXTS[1],))
    (row,) = form_rows(Form.GENERATION, EYES, with_picture(lines, 3), adaptation="extract", task="aeslc")
    assert row.arrays["regions"].shape == (3, 5) and row.arrays["regions"].dtype == np.float32


def yellow(count: int) -> Iterator[Example]:
    """Examples of the task whether the square is yellow. The sentence is constant, and true in half of the examples."""
    rng = random.Random(0)
    for number in range(count):
        truth, place = number % 2 == 0, {"x_loc": rng.randint(0, 80), "y_loc": rng.randint(0, 80), "size": 20}
        colour = "Yellow" if truth else rng.choice(("Black", "#0099ff"))
        seen = regions([[place | {"type": "square", "color": colour}], [], []])
        yield Example(id=str(number), inputs=("a yellow square",), gold=str(truth).lower(), channels=seen)


@pytest.mark.slow
def test_a_visual_task_is_learnt_from_correct_and_not_from_shuffled_pictures():
    """Trains 100 steps from random weights. On 200 held-out examples, shuffled pictures have to stay near chance."""
    size = Size(layers=2, width=32, heads=2, inner=64, length=24)
    tokenizer = Tokenizer.train("word", ["a yellow square"] * 9, 60)
    tokenizer = tokenizer.with_symbols({}, {"regions": FEATURES})
    chosen = baked(settings.defaults(Form.CLASSIFICATION, "finetune"))
    made = adapted("visualbert", size, tokenizer, Form.CLASSIFICATION, "finetune", 4, chosen)
    right, result = list(yellow(600)), {}
    seen = random.Random(1).sample([one.channels for one in right], len(right))
    shuffled = [replace(one, channels=channels) for one, channels in zip(right, seen, strict=True)]
    for name, examples in (("right", right), ("shuffled", shuffled)):
        made.reset(random_weights("visualbert", size, tokenizer, 0), 0)
        whole, order = rows(tokenizer, *examples), np.random.default_rng(0)
        for step in range(100):
            made.step(stack([whole[row] for row in order.integers(0, 400, 16)]), (0, step), 1e-3)
        guesses = np.asarray(made.forward(stack(whole[400:])))[:, :2].argmax(axis=1)
        result[name] = np.mean(guesses == [row.arrays["label"] for row in whole[400:]])
    assert result["right"] > 0.9 and result["shuffled"] < 0.65, result


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures") / "data"
    make(folder, scale=Sizes(train=200, dev=60, test=60, scenes=60, **NUMBERS))
    return folder


@pytest.mark.slow
def test_a_killed_pretraining_ends_with_the_same_weights_and_is_on_the_board(world, tmp_path):
    text = world.parent / "captions" / "microworld.txt"  # caches are written to its folder
    if not text.exists():
        text.parent.mkdir()
        for file in (world / "scenes").iterdir():
            (text.parent / file.name).write_bytes(file.read_bytes())
    uninterrupted, out = tmp_path / "straight", tmp_path / "killed"
    whole = start(text, uninterrupted, "--steps", "40", model="visualbert")
    assert whole.wait(timeout=PATIENCE) == 0, whole.stderr.read()
    process = start(text, out, "--steps", "40", "--save-every", "0.01", model="visualbert")
    wait_for(lambda: len(states(out)) > 1 or process.poll() is not None)
    process.kill()
    process.communicate()
    assert not out.exists() and states(out), "the training ended before it could be killed: more steps"
    last = start(text, out, "--steps", "40", model="visualbert")
    _, stderr = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0, stderr
    one, other = checkpoint.read(uninterrupted), checkpoint.read(out)
    assert one.weights_sha256 == other.weights_sha256
    assert json.loads((out / "tokenizer.json").read_text())["widths"] == {"regions": FEATURES}
    run = tmp_path / "run"
    chosen = ("--limit", "32", "--jobs", "1", "--set", "length=32", "--set", "batch=8", "--set", "epochs=1", "--keep")
    ptmbench("evaluate", out, "--tasks", "nlvr", "--data", world, "--seeds", "1", "--out", run, *chosen)
    (result,) = [record.read(path) for path in (run / "records").iterdir()]
    assert result.status == "ok" and set(result.scores) >= {"accuracy", "consistency"}
    assert "VisualBERT" in ptmbench("board", run, "--format", "markdown")
    (kept,) = (run / "adapted").iterdir()
    ptmbench("predict", kept, "--split", "test", "--data", world, "--out", tmp_path / "predictions")
    lines = (tmp_path / "predictions/nlvr.test.jsonl").read_text().splitlines()
    assert len(lines) == 60 and {json.loads(line)["prediction"] for line in lines} <= {"false", "true"}


@pytest.mark.slow
def test_a_killed_adaptation_ends_with_the_same_weights(world, tmp_path):
    base = tmp_path / "base"
    assert start(world / "scenes/microworld.txt", base, "--steps", "2", model="visualbert").wait(timeout=PATIENCE) == 0
    chosen = ("--set", "length=32", "--set", "batch=4", "--set", "epochs=3", "--limit", "64", "--save-every", "0.01")

    def evaluate(out: Path) -> subprocess.Popen:
        asked = ("--tasks", "nlvr", "--data", world, "--seeds", "1", "--jobs", "1", "--keep", "--out", out, *chosen)
        command = [sys.executable, "-m", "ptmbench", "evaluate", base, *asked]
        return subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert evaluate(whole).wait(timeout=PATIENCE) == 0
    process = evaluate(killed)
    wait_for(lambda: len(list(killed.glob("unfinished/*/*/step-*"))) > 1 or process.poll() is not None)
    process.kill()
    process.wait()
    assert not list(killed.glob("records/*")), "the adaptation ended before it could be killed: more epochs"
    time.sleep(1.5)  # the worker stops when it sees the closed pipe
    assert evaluate(killed).wait(timeout=PATIENCE) == 0
    (one,), (other,) = (list(out.glob("adapted/*/weights.safetensors")) for out in (whole, killed))
    assert one.read_bytes() == other.read_bytes()
