"""Sizes of networks: names, and shapes of Transformers."""

import pytest

from ptmbench import models
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.networks import build, size_name, sized
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import teachers
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary
from tests.bench import asking
from tests.bench.cells import SHORT, train

BERT = models.load("bert")


def takes_shapes(name):
    try:
        sized(models.load(name), "2x64x4", 0)
    except models.UnknownModel:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "heads", "inner"),
    [("3x192", 3, 768), ("3x192x12", 12, 768), ("3x192x12x100", 12, 100), ("1x64", 1, 256), ("12x768", 12, 3072)],
)
def test_a_shape_states_layers_width_heads_and_inner_width(name, heads, inner):
    layers, width = map(int, name.split("x")[:2])
    assert sized(BERT, name, 0) == Size(layers=layers, width=width, heads=heads, inner=inner)
    assert sized(BERT, name, 4096).length == 4096


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("huge", "BERT has no size 'huge'; it has tiny, mini, small, base, and shapes such as 6x384x12"),
        ("3x", "BERT has no size '3x'"),
        ("0x64", "BERT has no size '0x64'"),
        ("2x64x2x256x1", "BERT has no size '2x64x2x256x1'"),
        ("2x64\n", "BERT has no size"),
        ("3x100", "a width of 100 cannot be divided into 1.5625 heads.*such as 3x100x4"),
        ("3x192x5", "BERT 3x192x5: a width of 192 cannot be divided into 5 heads.*such as 3x192x12"),
    ],
)
def test_other_sizes_are_refused_with_the_known_ones(name, told):
    with pytest.raises(models.UnknownModel, match=told):
        sized(BERT, name, 0)


@pytest.mark.parametrize("name", ["glove", "elmo", "blend_cnn"])
def test_only_transformers_have_shapes(name):
    with pytest.raises(models.UnknownModel, match=r"it has tiny, mini, small, base\.$"):
        sized(models.load(name), "2x64x4", 0)


@pytest.mark.parametrize("name", models.names())
def test_each_size_is_found_again_by_its_name(name):
    module = models.load(name)
    assert [size_name(module, size) for size in module.SIZES.values()] == list(module.SIZES)
    assert size_name(module, sized(module, "mini", 9000)) == "mini"
    if takes_shapes(name):
        for shape in ("5x128", "5x128x4", "5x128x4x96"):
            assert size_name(module, sized(module, shape, 0)) == shape


def test_a_shape_with_a_name_is_called_by_it():
    assert size_name(BERT, sized(BERT, "2x128x2x512", 0)) == "tiny"
    with pytest.raises(models.UnknownModel, match="BERT has no size like"):
        size_name(BERT, Size(layers=2, width=128, heads=2, inner=512, embedding=7))


@pytest.mark.parametrize("name", filter(takes_shapes, models.names()))
def test_models_describe_networks_of_any_shape(name):
    module, words = models.load(name), Vocabulary(size=1000)
    parameters = [module.describe(sized(module, size, 0), words).parameters()[0] for size in ("2x64x4", "2x128x4")]
    assert parameters[0] < parameters[1]


@pytest.mark.parametrize("name", ["bert", "t5", "xlnet", "electra"])
def test_models_build_the_network_of_a_shape(name, text):
    module = models.load(name)
    made = build(name, sized(module, "3x48x4", 32), text.tokenizer, 0)  # compares it with its description
    assert made.encoder.width == 48


def test_a_student_of_any_shape_has_its_teacher(text, tmp_path):
    assert teachers.of("minilm", "3x192x12") == ("bert", "6x384x12")
    assert teachers.of("minilm", "base") == ("bert", "base")
    teacher = train("bert", text, tmp_path / "bert", size="2x24x3")
    assert teachers.mistake(teacher, "minilm", "1x12x3", 32) == ""
    assert "its heads is 3 and not 4" in teachers.mistake(teacher, "minilm", "1x12x4", 32)
    student = train("minilm", text, tmp_path / "minilm", size="1x12x3", teacher=teacher)
    assert student.about["size"] == "1x12x3" and student.about["shape"]["inner"] == 48


def test_a_base_of_another_shape_is_refused(text, tmp_path):
    base = train("bert", text, tmp_path / "base", size="1x24x3")
    given = {"out": tmp_path / "out", "recipe": SHORT, "bases": (base.folder,)}
    with pytest.raises(UsageError, match="bert 1x24x2 is to be pre-trained. In the checkpoint, heads is 3 and not 2"):
        asking.pretrain(model="bert", size="1x24x2", corpus=text.files, budget=Budget(steps=2), **given)
