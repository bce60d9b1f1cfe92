"""``data tokenise``, and the tokenised folders that commands read instead of text."""

from pathlib import Path

import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.data import corpora
from ptmbench.models.text.corpus import CorpusError
from ptmbench.models.text.tokenizers import Tokenizer

PAGES = [f"A cat sat on mat {n}. It slept for {n} hours.\n\n" for n in range(60)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text" / "a.txt"
    path.parent.mkdir()
    path.write_text("".join(PAGES) + "".join(PAGES[:10]).upper())
    return path


def tokenise(*arguments: object) -> int:
    return main(["data", "tokenise", *map(str, arguments), "--vocabulary", "120"])


def test_a_tokenised_folder_replaces_its_text(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert tokenise(text.parent, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"{out}\n" and "70 documents" in stderr and "Removed" not in stderr
    path = corpora.tokenizer([out], "wordpiece", 120)
    assert (
        path == out / "tokenizer.json" and path.read_bytes() == corpora.tokenizer([text], "wordpiece", 120).read_bytes()
    )
    tokenizer = Tokenizer.load(path)
    one, other = corpora.load((str(out),), tokenizer), corpora.load((str(text),), tokenizer)
    assert one.fingerprint == other.fingerprint and np.array_equal(one.ids, other.ids)
    assert corpora.fingerprint([out]) == corpora.fingerprint([Path(str(out) + "/")])
    assert corpora.name_of([out]) == "out"


def test_removed_documents_are_reported(text, tmp_path, capsys):
    assert tokenise(text, "--deduplicate", "exact", "--out", tmp_path / "out") == 0
    stderr = capsys.readouterr().err
    assert "60 documents" in stderr and "Removed: 10 documents" in stderr
    assert corpora.tokenised([tmp_path / "out"])[0].about["deduplicate"] == "exact"


def test_another_folder_can_reuse_the_same_tokenizer(text, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    assert tokenise(text, "--out", one) == 0
    more = tmp_path / "more.txt"
    more.write_text("Quite another story.\n")
    assert tokenise(more, "--like", one, "--out", other) == 0
    tokenizer = Tokenizer.load(corpora.tokenizer([one, other], "wordpiece", 120))
    both = corpora.load((str(one), str(other)), tokenizer)
    assert both.tokens == sum(corpora.tokenised([folder])[0].total("tokens") for folder in (one, other))
    assert tokenise(more, "--like", tmp_path, "--out", tmp_path / "third") == 4


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda out: (out / "shard-000000.safetensors").write_bytes(b""), "shard-000000"),
        (lambda out: (out / "tokenised.json").write_text("{}"), "tokenised.json"),
        (lambda out: (out / "tokenizer.json").unlink() or (out / "tokenised.json").write_text(""), "tokenised.json"),
    ],
    ids=["a shard", "the manifest", "manifest and tokenizer"],
)
def test_damage_is_reported_and_repaired_by_the_same_command(text, tmp_path, spoil, sentence):
    out = tmp_path / "out"
    assert tokenise(text, "--out", out) == 0
    whole = (out / "shard-000000.safetensors").read_bytes()
    spoil(out)
    corpora._stored.cache_clear()
    with pytest.raises(CorpusError, match=sentence):
        corpora.tokenised([out])
    assert tokenise(text, "--out", out) == 0
    assert (out / "shard-000000.safetensors").read_bytes() == whole
    assert corpora.tokenised([out]) and Tokenizer.load(out / "tokenizer.json")


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"", "holds no text.*how it was made.$"), (b"caf\xe9", "is not UTF-8 text.*first.$")]
)
def test_an_unreadable_corpus_file_gives_only_that_error(content, sentence, tmp_path):
    """The error does not mention training a tokenizer or the amount of text."""
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(CorpusError, match=f"^(The corpus file )?{tmp_path}/text.txt:? {sentence}"):
        corpora.tokenizer([tmp_path / "text.txt"], "wordpiece", 100)


def test_mismatched_tokenised_folders_give_an_error_message(text, tmp_path, capsys):
    out = tmp_path / "out"
    assert tokenise(text, "--out", out) == 0
    with pytest.raises(CorpusError, match="--tokenizer wordpiece --vocabulary 120"):
        corpora.tokenizer([out], "wordpiece", 8000)
    with pytest.raises(CorpusError, match="one or the other"):
        corpora.tokenised([out, text])
    with pytest.raises(CorpusError, match="another tokenizer"):
        corpora.load((str(out),), Tokenizer.train("word", ["a b"], 60))
    assert tokenise(text, "--deduplicate", "near", "--out", out) == 4
    assert "holds another tokenised corpus" in capsys.readouterr().err


@pytest.mark.slow
def test_pretraining_reads_a_tokenised_folder(text, tmp_path):
    assert tokenise(text, "--out", tmp_path / "out") == 0
    budget = ["--vocabulary", "120", "--steps", "2", "--batch", "4", "--length", "32"]
    command = ["pretrain", "gpt", "--corpus", str(tmp_path / "out"), *budget]
    assert main([*command, "--out", str(tmp_path / "made")]) == 0


@pytest.mark.slow
def test_perf_corpus_measures_speed_and_memory_next_to_the_peer(text, monkeypatch):
    from ptmbench.bench.perf import corpus

    monkeypatch.chdir(text.parent)
    (row,) = corpus.main([Path(text.name)], [1], rounds=1, processes=1)
    assert set(row) == set(corpus.COLUMNS)
    assert row.pop("worker") == 0  # so little text is tokenised by the command itself, without workers
    assert all(value > 0 for value in row.values())
    assert row["megabytes"] == pytest.approx(1, abs=0.01)


def test_the_error_for_a_missing_named_corpus_says_how_to_make_it(tmp_path):
    with pytest.raises(CorpusError, match=f"or make the corpus with `ptmbench data corpus english --data {tmp_path}`"):
        corpora.files_of((), ("corpora/english/corpus.txt", "corpus/*.txt"), tmp_path)
    with pytest.raises(CorpusError, match="Give files with --corpus.$"):
        corpora.files_of((), ("corpus/*.txt",), tmp_path)
