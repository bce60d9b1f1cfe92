"""Tests of the word alignments of parallel corpora: places by hand, damaged files, and contexts of BiSkip that follow
an aligner."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ptmbench.bench.commands.data import annotate
from ptmbench.models.objectives import biskip
from ptmbench.models.text import sidecars
from ptmbench.models.text.annotations import symbols_of, values
from ptmbench.models.text.corpus import tokenise
from ptmbench.models.text.pieces import CorpusError, pieces
from ptmbench.models.text.tokenizers import Tokenizer
from tests.tasks.folders import real

LINES = ["the green house\tdas grüne  Haus", "no one knows\tdas weiß niemand", "a b\tc", "one\teins zwei drei"]
LINKS = ["0-0 1-1 2-2", "0-2 1-2 2-1", "", "0-0 0-1 0-2"]


def write(folder: Path, lines: list[str] = LINES, name: str = "de.pairs.tsv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def pharaoh(folder: Path, *lines: str) -> Path:
    path = folder / "de.align"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def annotated(folder: Path, *lines: str) -> Path:
    text = write(folder)
    sidecars.write(text, sidecars.read_alignments(pharaoh(folder, *lines), text))
    return text


def tokenizer(kind: str, text: Path) -> Tokenizer:
    return Tokenizer.train(kind, text.read_text().replace("\t", "\n").split("\n"), 90).with_symbols(symbols_of([text]))


def test_tokens_have_the_place_of_their_aligned_word(tmp_path: Path) -> None:
    text = annotated(tmp_path, *LINKS)
    assert symbols_of([text]) == {"word_alignments": ()}
    trained = tokenizer("word", text)
    (piece,) = pieces([text])
    outputs = [[row["word_alignments"].tolist() for row in document] for document in values(piece, trained)]
    assert outputs == [
        [[1, 2, 3], [1, 2, 3]],
        [[3, 3, 2], [-1, 3, 1]],  # "niemand" is aligned with "no" and "one": the first of two
        [[-1, -1], [-1]],
        [[2], [1, 1, 1]],  # the middle one of three
    ]
    assert "word_alignments" not in trained.numbers  # adaptations make rows of these numbers


def test_all_pieces_of_a_word_have_the_place_of_the_first_aligned_piece(tmp_path: Path) -> None:
    text = write(tmp_path, ["ab cd\tefg hi"])
    sidecars.write(text, [(1, {"word_alignments": "0-1"})])
    trained = tokenizer("character", text)
    (piece,) = pieces([text])
    ((first, second),) = values(piece, trained)
    begin = len(trained.encode(["efg"])[0])  # the mark of a space may be a separate piece
    words = [trained.pieces(trained.encode([half])[0]) for half in ("ab cd", "efg hi")]
    assert set(first["word_alignments"]) <= {-1, 1 + begin, 2 + begin}
    aligned = [piece.strip("▁") for piece, value in zip(words[0], first["word_alignments"], strict=True) if value > 0]
    assert "".join(aligned) == "ab"
    aligned = [piece.strip("▁") for piece, value in zip(words[1], second["word_alignments"], strict=True) if value > 0]
    assert "".join(aligned) == "hi"


def test_lines_without_alignments_are_unknown_and_lines_without_links_unaligned(tmp_path: Path) -> None:
    text = write(tmp_path)
    sidecars.write(text, [(2, {"word_alignments": ""}), (4, {"word_alignments": "0-1"})])
    (piece,) = pieces([text])
    outputs = [
        [row["word_alignments"].tolist() for row in document] for document in values(piece, tokenizer("word", text))
    ]
    assert outputs == [[[0] * 3, [0] * 3], [[-1] * 3, [-1] * 3], [[0] * 2, [0]], [[2], [-1, 1, -1]]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("0-0", "0-0 x", "", ""), r'de.align, line 2: "word_alignments" are pairs of words .* not .0-0 x'),
        (("0-0", "0-0-0", "", ""), "de.align, line 2"),
        (("0-0", "-1-0", "", ""), "de.align, line 2"),
        (("0-0", "0-0", ""), "de.align has 3 lines, and .*de.pairs.tsv has 4"),
        (("0-0", "0-0", "", "", "0-0"), "de.align has 5 lines"),
    ],
)  # fmt: skip
def test_damaged_alignments_raise_an_error(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        annotated(tmp_path, *lines)
    assert not sidecars.sidecar_of(tmp_path / "de.pairs.tsv").exists()


def test_alignments_of_missing_words_raise_an_error_with_the_line(tmp_path: Path) -> None:
    text = annotated(tmp_path, "0-0", "0-3", "", "")
    (piece,) = pieces([text])
    with pytest.raises(CorpusError, match=r"layers.jsonl, line 3: the words 0-3 .* line 2 of .* has 3 and 3 words"):
        list(values(piece, tokenizer("word", text)))


def test_alignments_of_other_files_than_pairs_raise_an_error(tmp_path: Path) -> None:
    text = write(tmp_path, ["one text"], "plain.txt")
    with pytest.raises(CorpusError, match="only .*pairs.tsv files"):
        sidecars.write(text, [(1, {"word_alignments": "0-0"})])
    with pytest.raises(CorpusError, match='"default" gives a symbol'):
        sidecars.write(write(tmp_path), [], default={"word_alignments": "0-0"})


def test_real_pairs_with_their_common_words_aligned(tmp_path: Path) -> None:
    """Tatoeba's German and English sentences. A word that occurs once in both, such as "Tom", is aligned with
    itself."""
    halves = [real("tatoeba", f"tatoeba.deu-eng.{code}").read_text().splitlines() for code in ("deu", "eng")]
    links = []
    for one, other in zip(*(([line.split() for line in half]) for half in halves), strict=True):
        common = [word for word in one if one.count(word) == other.count(word) == 1]
        links.append(" ".join(f"{one.index(word)}-{other.index(word)}" for word in common))
    text = write(tmp_path, [f"{one}\t{other}" for one, other in zip(*halves, strict=True)])
    sidecars.write(text, sidecars.read_alignments(pharaoh(tmp_path, *links), text))
    trained = Tokenizer.train("word", [line for half in halves for line in half], 5000)
    trained = trained.with_symbols(symbols_of([text]))
    corpus, outputs = tokenise([text], trained), 0
    places, bounds = corpus.layers["word_alignments"], corpus.sentences
    for sentence, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        heads = [k for k in range(begin, end) if places[k] > 0 and (k == begin or places[k - 1] != places[k])]
        for k in heads:  # the first piece of an aligned word: "Tom" of "Tom."
            assert corpus.ids[k] == corpus.ids[bounds[sentence ^ 1] + places[k] - 1]
        outputs += len(heads)
    assert (places != 0).all() and outputs == 2 * sum(len(line.split()) for line in links)


def test_alignments_are_written_together_with_other_annotations(tmp_path: Path) -> None:
    text, lines = write(tmp_path), tmp_path / "lines.jsonl"
    lines.write_text('{"line": 2, "languages": "nl"}\n')
    packed = pharaoh(tmp_path, *LINKS).with_suffix(".gz")
    packed.write_bytes(gzip.compress(pharaoh(tmp_path, *LINKS).read_bytes()))
    arguments = [str(text), "--lines", str(lines), "--default", "languages=en,de", "--alignments", str(packed)]
    result = CliRunner().invoke(annotate, arguments)
    assert result.exit_code == 0, result.output
    side = sidecars.read(text)
    assert side is not None and side.layers == ("languages", "word_alignments")
    assert [side.lines[number].links for number in (1, 3)] == [((0, 0), (1, 1), (2, 2)), ()]
    assert side.lines[2].layers == {"languages": "nl"} and side.default == {"languages": ("en", "de")}
    packed.write_bytes(b"no gzip")
    with pytest.raises(CorpusError, match="is not a gzip file"):
        sidecars.read_alignments(packed, text)


def test_contexts_of_biskip_are_around_the_aligned_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Translations are in reverse order. Every other pair is annotated, and its words begin with "a"."""
    monkeypatch.setattr(biskip, "subsampling", lambda counts: (np.ones(len(counts), np.float32), 1.0))
    rng, lines, links = np.random.default_rng(0), [], []
    for number in range(200):
        own = [f"{'ab'[number % 2]}{n}" for n in rng.permutation(20)[:6]]
        lines.append(" ".join(own) + "\t" + " ".join(word.upper() for word in own[::-1]))
        if number % 2 == 0:
            links.append((number + 1, {"word_alignments": "0-5 1-4 2-3 3-2 4-1"}))  # the last word is not aligned
    text = write(tmp_path, lines)
    sidecars.write(text, links)
    trained = Tokenizer.train("word", "\n".join(lines).replace("\t", "\n").split("\n"), 300)
    trained = trained.with_symbols(symbols_of([text]))
    corpus = tokenise([text], trained, tmp_path / "cache")
    batch, same, others, unaligned = biskip.batches(corpus, trained.vocabulary, 8, 60)(0, 0), 0, 0, 0
    for r in range(8):
        places, languages, in_window = (batch[name][r] for name in ("places", "languages", "windows"))
        words = trained.pieces(batch["tokens"][r])
        for c in np.flatnonzero(in_window)[12:-12]:  # pairs at the ends of the row may be truncated
            other = 1 - languages[c]
            aligned = [
                o for o in np.flatnonzero(in_window) if languages[o] == other and places[o, other] == places[c, other]
            ]
            if words[c].lower().startswith("b"):
                assert [words[o].lower() == words[c].lower() for o in aligned] == [False]
                others += 1
            elif aligned:
                assert [words[o].lower() for o in aligned] == [words[c].lower()]
                same += 1
            else:
                unaligned += 1
    assert same > 50 and others > 50 and 0 < unaligned < same / 2
