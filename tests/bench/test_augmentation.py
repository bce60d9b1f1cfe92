"""TinyBERT's data augmentation: the words that are replaced, their candidates, how often, and the cost."""

from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.distil import Own, candidates
from ptmbench.bench.adapt.distil.augmentation import Spot, enlarged, similar, words_of
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.examples import read
from ptmbench.bench.runs.teachers import AdaptedTeacher
from ptmbench.models.card import Size
from ptmbench.models.published import vectors as vector_files
from ptmbench.tasks.task import Example
from tests.bench.cells import check_resumed, make
from tests.bench.test_task_teachers import imported

WORDS = ["dark", "red", "green", "blue", "light", "film", "movie", "plot"]


def example(*texts):
    return Example(id="a", inputs=texts, gold="x")


def test_only_content_words_of_letters_may_be_replaced():
    text = "The Film isn't bad, and 3D-effects of été make no x2 difference"
    assert [text[begin:end] for begin, end in words_of(text)] == ["Film", "bad", "effects", "make", "difference"]


def test_copies_replace_only_the_given_share_of_words():
    text = "Dark film, dark plot"
    spots = {text: [Spot(0, 4, WORDS), Spot(5, 9, ()), Spot(11, 15, WORDS)], "Other": [Spot(0, 5, ["plain"])]}
    (first, *copies) = enlarged([example(text)], spots, 4000, 0.4, 0)
    assert (first.inputs, len(copies)) == ((text,), 4000) and {one.gold for one in copies} == {"x"}
    parts = [one.inputs[0].split() for one in copies]
    assert all((part[1], part[3]) == ("film,", "plot") for part in parts), "no candidates, or no place"
    assert all(part[0].istitle() and part[2].islower() for part in parts)
    kept = 1 - 0.4 * 7 / 8  # the word is among its own candidates
    for place, word in ((0, "Dark"), (2, "dark")):
        counts = Counter(part[place] for part in parts)
        assert abs(counts[word] / 4000 - kept) < 0.04 and len(counts) == 8
    assert len({one.id for one in copies}) == 4000
    again = enlarged([example(text)], spots, 4000, 0.4, 0)
    assert again == [first, *copies] != enlarged([example(text)], spots, 4000, 0.4, 1)

    _, one, two, three = enlarged([example(text, "Other")], spots, 3, 1.0, 0)
    assert one.inputs[1] == three.inputs[1] == "Other" and two.inputs == (text, "Plain"), "one text at a time"


def test_similar_words_have_the_largest_cosine_similarity():
    rng = np.random.default_rng(0)
    names = ["[UNK]", *WORDS, ",", "zero"]
    table = rng.normal(size=(len(names), 5)).astype(np.float32)
    table[-1] = 0
    row = {name: number for number, name in enumerate(names)}
    found = similar(["film", "missing", "zero", "film"], row.get, table, names, 3)
    unit = table[1:9] / np.linalg.norm(table[1:9], axis=1, keepdims=True)
    best = sorted((word for word in WORDS if word != "film"), key=lambda w: -unit[row[w] - 1] @ unit[row["film"] - 1])
    assert found == [tuple(best[:3]), (), (), tuple(best[:3])]


@pytest.fixture(scope="module")
def filler(tokenizer, tmp_path_factory):
    """The checkpoint of a pre-trained teacher with random weights and a head for masked words."""
    made = imported(tmp_path_factory.mktemp("filler") / "bert", tokenizer)
    return checkpoint.read(made.folder)


@pytest.fixture(scope="module")
def vectors(world, tmp_path_factory):
    """A checkpoint of word vectors for the most frequent words of the microworld, as `import` makes it from a file."""
    text = " ".join(path.read_text() for path in sorted((world / "corpus").glob("*.txt"))).lower()
    words = [word for word, _ in Counter(text.split()).most_common(400) if word.isalpha()]
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("vectors")
    lines = (f"{word} {' '.join(f'{number:.3f}' for number in rng.normal(size=8))}\n" for word in words)
    (folder / "glove.txt").write_text("".join(lines))
    found = vector_files.read(folder / "glove.txt", "glove", None)
    network = networks.build("glove", found.size, found.tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    vector_arrays, _, _ = found.weights({path: array.shape for path, array in arrays.items()})
    about = {"kind": "pretrained", "division": "published", "name": "glove", "model": "glove", "size": "8"}
    about |= {"shape": asdict(found.size), "corpus": "published", "tokenizer": found.tokenizer.about}
    about |= dict.fromkeys(("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256"))
    texts = {"tokenizer.json": found.tokenizer.to_json()}
    return checkpoint.write(folder / "glove", about=about, arrays={"weights": arrays | vector_arrays}, texts=texts)


def test_the_model_replaces_words_of_one_piece_and_word_vectors_the_rest(filler, vectors, world, tokenizer):
    texts = [one.inputs[0] for one in read(tasks.load("sst2"), world, "train")[:6]]
    own = Own(augment=2, augment_choices=12, length=48)
    spots, flops = candidates._likely(texts, own, filler, vectors)
    network = networks.build("bert", Size(**filler.about["shape"]), tokenizer, 0)
    networks.assign(network.loss.variables, filler.arrays())
    names, asked, split_words = tokenizer.pieces(range(tokenizer.vocabulary.size)), 0, []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        assert [(spot.begin, spot.end) for spot in spots[text]] == words_of(text)
        for spot in spots[text]:
            pieces = [i for i, (first, last) in enumerate(offsets) if first < spot.end and last > spot.begin]
            if len(pieces) > 1:
                split_words.append((text[spot.begin : spot.end], spot.words))
                continue
            masked = [tokenizer.vocabulary.cls, *ids, tokenizer.vocabulary.sep]
            masked[1 + pieces[0]] = tokenizer.vocabulary.mask
            batch = {"tokens": np.array([masked], np.int32), "places": np.array([1 + pieces[0]], np.int32)}
            batch["segments"] = np.zeros_like(batch["tokens"])
            scores = np.asarray(network.fill(batch))[0]
            best = [names[i] for i in np.argsort(-scores)[:12]]
            assert spot.words == tuple(one for one in best if one.isascii() and one.isalpha())
            asked += 1
    assert asked and flops > 0
    assert candidates.nearest([word for word, _ in split_words], vectors, own) == [words for _, words in split_words]


def test_unsupported_augmentations_are_not_applicable(filler, vectors):
    task, examples, own = SimpleNamespace(ask=None), [example("a dark film")], Own(augment=1)
    headless = replace(filler, about={**filler.about, "afresh": ["mlm/output_bias"]})
    for asked, rows, pretrained, words in (
        (
            tasks.load("copa") if "copa" in tasks.names() else task,
            [replace(examples[0], channels={"x": 1})],
            filler,
            "not texts",
        ),
        (task, examples, None, "has random weights.*augment_by=vectors"),
        (task, examples, headless, "paper-small was imported without its head for masked words"),
        (task, examples, vectors, "fills no blanks"),
    ):
        with pytest.raises(NotApplicable, match=words):
            candidates.augmented(asked, rows, own, 0, pretrained, vectors)
    with pytest.raises(NotApplicable, match="bert has no table of word vectors. Name word2vec"):
        candidates.augmented(task, examples, replace(own, augment_by="vectors"), 0, filler, filler)


def test_controls_have_the_same_number_of_rows():
    texts = ["a dark film", "a light plot", "a dark film"]
    examples = [example(text) for text in texts]
    task = SimpleNamespace(ask=None)
    copies, flops = candidates.augmented(task, examples, Own(augment=3, augment_by="copies"), 0, None, None)
    assert len(copies) == 12 and Counter(one.inputs[0] for one in copies) == {texts[0]: 8, texts[1]: 4} and flops == 0
    random_copies, _ = candidates.augmented(task, examples, Own(augment=3, augment_by="random"), 0, None, None)
    assert len(random_copies) == 12 and {word for one in random_copies for word in one.inputs[0].split()} <= {
        "a",
        *WORDS,
    }
    assert len({one.inputs for one in random_copies}) > 2


def test_settings_of_augmentation():
    assert settings.recorded(Own()) == settings.recorded(Own(augment=0)), "older cells keep their keys"
    assert "augment" not in settings.recorded(Own()) and settings.recorded(Own(augment=5))["augment"] == 5
    assert Own(augment=5).models(None) == {"glove": ""} and not Own().models(None)
    assert not Own(augment=5, augment_by="copies").models(None) and Own(augment=5, alpha=0).of("sst2").augment == 0
    split = Split(100, 1.0, 20.0)
    assert Own(augment=4, epochs=2).rows_trained_on(split) == 5 * Own(epochs=2).rows_trained_on(split) == 1000
    assert (
        Own(augment=4).teacher_rows(split) == 500 + 0.4 * 20 * 100
        and Own(augment=4, augment_by="copies").teacher_rows(split) == 500
    )


@pytest.mark.slow
def test_an_augmented_student_resumes_and_records_the_cost_of_augmentation(context, filler, vectors, monkeypatch):
    from ptmbench.bench.runs import cell as cells

    adapting = replace(make("sst2", "bert", "finetune", seed=7), limit=48)
    shaped = replace(context, shape=Size(**filler.about["shape"]))
    cells.adapt(adapting, replace(shaped, weights=filler))
    (adapted,) = (context.out / "adapted").iterdir()
    teacher = AdaptedTeacher(adapted=checkpoint.read(adapted), weights=filler, about={"name": "bert"})
    shaped = replace(shaped, teacher=teacher, neighbours=(vectors,))
    asked = make("sst2", "bert", "tinybert", inner_epochs=1, augment=2, batch=16)
    uninterrupted = check_resumed(
        asked, shaped, 13, monkeypatch, "flops_teacher", "flops_augment", "augmented_examples"
    )
    plain = cells.run(make("sst2", "bert", "tinybert", inner_epochs=1, batch=16), replace(shaped, neighbours=()))
    assert (
        uninterrupted.cost["augmented_examples"] == 88 and uninterrupted.cost["steps"] == 3 * plain.cost["steps"] == 18
    )
    assert uninterrupted.cost["parameters"] == plain.cost["parameters"], "word vectors are no part of the student"
    assert uninterrupted.cost["flops_augment"] > 0 and "flops_augment" not in plain.cost
    copies = make("sst2", "bert", "tinybert", inner_epochs=1, augment=2, batch=16, augment_by="copies")
    control = cells.run(copies, replace(shaped, neighbours=()))
    assert (
        control.cost["steps"] == uninterrupted.cost["steps"] and control.cost["tokens"] != uninterrupted.cost["tokens"]
    )
    assert "flops_augment" in control.cost and control.cost["flops_augment"] == 0
