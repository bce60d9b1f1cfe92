"""``data corpus``: makes the corpus of a recipe, from small synthetic sources and from real ones."""

import dataclasses
import gzip
import hashlib
import json
import random
import re
import shutil
import unicodedata
from pathlib import Path

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.data import cleaning, making, recipes
from ptmbench.bench.data.recipes import CorpusRecipe, Source
from ptmbench.models.text import corpus as corpora
from ptmbench.models.text.corpus import CorpusError
from tests.tasks.folders import DATA, real


def novel(seed: int, paragraphs: int = 40) -> list[str]:
    """Paragraphs of random words."""
    draw = random.Random(seed)
    return [
        " ".join(f"w{draw.randrange(3000)}" for _ in range(draw.randrange(14, 60))).capitalize() + "."
        for _ in range(paragraphs)
    ]


def write_source(data: Path, path: str, paragraphs: list[str], level: int = 6) -> tuple[str, str]:
    """Writes ``paragraphs`` to a file below ``data``; returns its path and the SHA-256 of the uncompressed text."""
    content = "".join(f"{text}\n" for text in paragraphs).encode()
    file = data / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content, level) if path.endswith(".gz") else content)
    return path, hashlib.sha256(content).hexdigest()


@pytest.fixture
def recipe_and_data(tmp_path: Path) -> tuple[CorpusRecipe, Path]:
    """A recipe and the folder of its sources.

    One novel is in two sources. One of its paragraphs, and one of the held-out novel, are also in another novel.
    """
    data = tmp_path / "data"
    first, second, held_out, other = (novel(seed) for seed in range(4))
    again = [text.upper().replace(" ", "  ") for text in first]
    again[3:6] = novel(9, 3)
    files = [
        write_source(data, "good/first.txt.gz", first),
        write_source(data, "good/held.txt.gz", held_out),
        write_source(data, "good/second.txt.gz", [*second, held_out[7].replace(".", "!"), first[5]]),
    ]
    sources = [
        Source(name="good", title="Good", licence="none", url="http://g", files=dict(files), clean=cleaning.novel),
        Source(
            name="poor",
            title="Poor",
            licence="none",
            url="http://p",
            files=dict([write_source(data, "poor/again.txt", again), write_source(data, "poor/other.txt", other)]),
            clean=cleaning.book,
        ),
    ]
    return CorpusRecipe(summary="", version=1, sources=tuple(sources), held_out=("good/held.txt.gz",)), data


def documents(path: Path) -> list[list[str]]:
    return [part.split("\n") for part in path.read_text().removesuffix("\n\n").split("\n\n")]


def test_duplicates_and_held_out_text_are_removed(recipe_and_data, tmp_path):
    recipe, data = recipe_and_data
    made = making.make("small", recipe, data, tmp_path / "out")
    text = (tmp_path / "out" / "corpus.txt").read_text()
    first, second, held_out, other = (novel(seed) for seed in range(4))
    assert made["found_twice"] == [
        {
            "file": "poor/again.txt",
            "stands_in": "good/first.txt.gz",
            "share": pytest.approx(37 / 40, abs=0.05),
        }
    ]
    assert documents(tmp_path / "out" / "corpus.txt") == [first, second, other]
    assert documents(tmp_path / "out" / "heldout.txt") == [held_out]
    good, poor = made["steps"]["good"], made["steps"]["poor"]
    assert good["in held-out text"]["paragraphs"] == good["repeated"]["paragraphs"] == 1
    assert (good["kept"]["paragraphs"], good["held out"]["documents"]) == (80, 1)
    assert poor["found twice"]["paragraphs"] == poor["kept"]["paragraphs"] == 40
    for steps in (good, poor):
        parts = (steps[name] for name in making.STEPS[2:])
        assert sum(part["words"] for part in parts) == steps["cleaned"]["words"]
    assert made["corpus"]["words"] == len(text.split()) and made["corpus"]["bytes"] == len(text.encode())
    assert made["corpus"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_output_is_the_same_on_every_machine(recipe_and_data, tmp_path):
    recipe, data = recipe_and_data
    other = tmp_path / "elsewhere"
    shutil.copytree(data, other)
    write_source(other, "good/first.txt.gz", novel(0), level=1)
    made = [making.make("small", recipe, *folders) for folders in ((data, tmp_path / "a"), (other, tmp_path / "b"))]
    assert made[0] == made[1]
    names = sorted(path.name for path in (tmp_path / "a").iterdir() if path.name != ".lock")
    assert names == ["corpus.txt", "heldout.txt", "recipe.json"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    pinned = dataclasses.replace(recipe, sha256="0" * 64)
    with pytest.raises(CorpusError, match="is not version 1 of the corpus small.*raise the recipe's version"):
        making.make("small", pinned, data, tmp_path / "c")


def test_an_existing_corpus_is_not_made_again(recipe_and_data, tmp_path):
    recipe, data = recipe_and_data
    out, cleaned = tmp_path / "out", []
    first = making.make("small", recipe, data, out, done=cleaned.append)
    assert len(cleaned) == 5
    (out / ".making-killed").mkdir()
    assert making.make("small", recipe, data, out, done=cleaned.append) == first and len(cleaned) == 5
    with (out / "corpus.txt").open("a") as file:
        file.write("Changed.\n")
    assert making.make("small", recipe, data, out, done=cleaned.append) == first and len(cleaned) == 10
    assert not (out / ".making-killed").exists()
    other = dataclasses.replace(recipe, held_out=())
    assert making.make("small", other, data, out)["held_out"]["words"] == 0


def test_missing_and_changed_sources_are_errors(recipe_and_data, tmp_path):
    recipe, data = recipe_and_data
    (data / "poor/other.txt").write_text("Something else.\n")
    with pytest.raises(CorpusError, match="other.txt is not the file that version 1 .* http://p"):
        making.make("small", recipe, data, tmp_path / "out")
    (data / "good/held.txt.gz").unlink()
    with pytest.raises(CorpusError, match="needs .*held.txt.gz, which is missing"):
        making.make("small", recipe, data, tmp_path / "out")
    wrong = dataclasses.replace(recipe, sources=recipe.sources[1:])
    (data / "poor/other.txt").write_text("".join(f"{text}\n" for text in novel(3)))
    with pytest.raises(CorpusError, match="holds out good/held.txt.gz, which is not a file of its sources"):
        making.make("small", wrong, data, tmp_path / "out")


def test_the_corpus_reader_returns_what_was_written(recipe_and_data, tmp_path):
    recipe, data = recipe_and_data
    made = making.make("small", recipe, data, tmp_path / "out")
    for given in ("out", "out/corpus.txt"):  # the folder also contains the held-out text
        texts_found = list(corpora.read([tmp_path / given]))
        assert len(texts_found) == made["corpus"]["documents"]
        assert sum(len(" ".join(text).split()) for text in texts_found) == made["corpus"]["words"]
    assert len(list(corpora.read([tmp_path / "out/heldout.txt"]))) == 1


def test_the_command_makes_a_corpus(recipe_and_data, tmp_path, monkeypatch, capsys):
    recipe, data = recipe_and_data
    monkeypatch.setattr(recipes, "load", lambda name: recipe)
    assert main(["data", "corpus", "english", "--data", str(data)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{data}/corpora/english/corpus.txt\n" and Path(out.strip()).is_file()
    assert "Left out: poor/again.txt, " in err and "of it in good/first.txt.gz." in err
    assert main(["data", "corpus", "english", "--data", str(data), "--out", str(tmp_path / "o"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "english"


def test_unknown_corpora_and_missing_sources_are_reported(tmp_path, capsys):
    assert main(["data", "corpus", "englis", "--data", str(tmp_path)]) == 2
    assert "There is no corpus 'englis'. Nearest: english." in capsys.readouterr().err
    assert main(["data", "corpus", "english", "--data", str(tmp_path)]) == 4
    assert re.search(r"needs .*ENG18400_Trollope.txt.gz, which is missing", capsys.readouterr().err)
    assert main(["info", "english"]) == 0
    assert "english (corpus)" in capsys.readouterr().out


@pytest.mark.parametrize("name", recipes.names())
def test_recipes_have_unique_files_and_valid_checksums(name):
    recipe = recipes.load(name)
    files = [path for source in recipe.sources for path in source.files]
    sums = [sha256 for source in recipe.sources for sha256 in source.files.values()]
    assert len(set(files)) == len(files) and set(recipe.held_out) <= set(files)
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in (*sums, recipe.sha256))


@pytest.mark.parametrize(("name", "code"), [("english", "en"), ("german", "de"), ("french", "fr")])
def test_held_out_novels_follow_the_rule_and_share_no_author_with_training(name, code):
    """Applies the rule of the recipe to the metadata table of ELTeC and compares the result with the recipe."""
    rows = [line.split("\t") for line in real("eltec", f"{code}.tsv").read_text().splitlines()]
    by_author: dict[str, list[tuple[str, int]]] = {}
    for file, author, _, words, *_ in rows:
        family = re.match(r"[\w'-]+", unicodedata.normalize("NFC", author))[0].casefold()
        by_author.setdefault(family, []).append((file, int(words)))
    books = {path.split("/")[1].split("_")[0].casefold() for path in recipes.listed("books_en")} | {"bronte", "collins"}
    single = {
        a: texts_found[0]
        for a, texts_found in by_author.items()
        if len(texts_found) == 1 and not (code == "en" and a in books)
    }
    least = 0.03 * sum(words for texts_found in by_author.values() for _, words in texts_found)
    chosen, held_out = [], 0
    for author in sorted(single, key=lambda author: hashlib.sha256(author.encode()).hexdigest()):
        if held_out < least:
            chosen.append(f"eltec/{code}/{single[author][0]}.gz")
            held_out += single[author][1]
    assert sorted(chosen) == [path for path in recipes.load(name).held_out if path.startswith("eltec")]


@pytest.mark.slow
def test_a_novel_in_two_sources_is_detected(tmp_path):
    real("books_en", "Trollope_Warden_1855.txt"), real("eltec", "en")
    english = recipes.load("english")
    kept = ("ENG18551_Trollope", "ENG18510_Kingsley", "Trollope_Warden")
    sources = [
        dataclasses.replace(source, files={p: s for p, s in source.files.items() if any(name in p for name in kept)})
        for source in english.sources
    ]
    recipe = dataclasses.replace(english, sources=tuple(sources), held_out=(), sha256="")
    made = making.make("part", recipe, DATA, tmp_path)
    assert [(one["file"], one["share"] > 0.95) for one in made["found_twice"]] == [
        ("books_en/Trollope_Warden_1855.txt", True)
    ]
    assert made["corpus"]["words"] == pytest.approx(71901 + 92444, rel=0.01)
