"""Tests of files of records as corpora: TFRecord and ArrayRecord, with the names of TensorFlow Datasets."""

import json

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.models.text import corpus
from ptmbench.models.text.pieces import CorpusError, expand
from ptmbench.models.text.records import is_records, is_training

TEXTS = [
    "The dog sleeps. The cat runs.",
    "A caf\u00e9 in Z\u00fcrich\nsells cr\u00e8me br\u00fbl\u00e9e.",
    "\n\u6771\u4eac is far.",
] * 3
SENTENCES = [
    ["The dog sleeps.", "The cat runs."],
    ["A caf\u00e9 in Z\u00fcrich", "sells cr\u00e8me br\u00fbl\u00e9e."],
    ["\u6771\u4eac is far."],
] * 3


def example(**features):
    """Returns a serialized tf.train.Example with texts, and with numbers that are ignored."""
    import tensorflow as tf

    made = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[one.encode()])) for name, one in features.items()
    }
    made["id"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[7, -1]))
    made["score"] = tf.train.Feature(float_list=tf.train.FloatList(value=[0.5]))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def tfrecord(path, records):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            file.write(record)
    return path


def array_record(path, records):
    module = pytest.importorskip("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(path), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()
    return path


WRITERS = {"tfrecord": tfrecord, "array_record": array_record}


@pytest.mark.parametrize("kind", WRITERS)
def test_examples_and_plain_texts_are_documents(kind, tmp_path):
    records = [example(text=text, title="a title") for text in TEXTS]
    made = WRITERS[kind](tmp_path / f"wiki-train.{kind}-00000-of-00001", records)
    assert list(corpus.read([made])) == SENTENCES
    plain = WRITERS[kind](tmp_path / f"plain.{kind}", [text.encode() for text in TEXTS])
    assert list(corpus.read([plain])) == SENTENCES


def test_folder_is_read_as_its_training_split_in_order(tmp_path):
    for number in (1, 0, 2):
        name = f"wiki-train.tfrecord-0000{number}-of-00003"
        tfrecord(tmp_path / name, [example(text=TEXTS[number])])
    tfrecord(tmp_path / "wiki-test.tfrecord-00000-of-00001", [example(text="Not for training.")])
    for name in ("dataset_info.json", "features.json"):
        (tmp_path / name).write_text(json.dumps({"name": "wiki"}))
    assert list(corpus.read([tmp_path])) == SENTENCES[:3]
    assert [path.name for path in expand([tmp_path / "wiki-test.tfrecord-00000-of-00001"])]
    assert is_records("a.tfrecord") and not is_records("a.tfrecord.txt") and not is_training("a-validation.tfrecord")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="no training splits of tfrecord or array_record files"):
        expand([tmp_path / "empty"])


def test_records_give_the_same_tokens_as_the_same_text(tmp_path):
    lines = tmp_path / "text.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    made = tfrecord(tmp_path / "text.tfrecord", [example(text=text) for text in TEXTS])
    tokenizer = corpus.train_tokenizer([lines], "wordpiece", 100, tmp_path)
    one, other = (corpus.tokenise([path], tokenizer) for path in (lines, made))
    assert one.ids.tolist() == other.ids.tolist() and one.documents.tolist() == other.documents.tolist()


def test_damaged_files_raise_an_error_with_their_path(tmp_path):
    good = tfrecord(tmp_path / "good.tfrecord", [example(text=text) for text in TEXTS]).read_bytes()
    bad = tmp_path / "bad.tfrecord"
    for content, reason in (
        (good[:-30], "record 9 is cut short"),
        (b"\x01" + good[1:], "record 1 is damaged or cut short, or this is no TFRecord file"),
        (b"The dog sleeps.\n" * 20, "no TFRecord file"),
        (b"", "holds no text"),
    ):
        bad.write_bytes(content)
        with pytest.raises(CorpusError, match=reason) as error:
            list(corpus.read([bad]))
        assert str(bad) in str(error.value)
    with pytest.raises(
        CorpusError, match='record 1: expected one text as the feature "text"; its features are: id, .*, title'
    ):
        list(corpus.read([tfrecord(tmp_path / "titles.tfrecord", [example(title="a")])]))
    with pytest.raises(CorpusError, match="record 2: it is neither a tf.train.Example nor UTF-8 text .byte 0xff"):
        list(corpus.read([tfrecord(tmp_path / "bytes.tfrecord", [b"text", b"\xff\xfe"])]))


def test_damaged_array_records_and_a_missing_package_raise_an_error(tmp_path, monkeypatch):
    file = array_record(tmp_path / "text.array_record", [text.encode() for text in TEXTS])
    file.write_bytes(b"The dog sleeps.\n" * 20)
    with pytest.raises(CorpusError, match="no whole ArrayRecord file, or an empty one"):
        list(corpus.read([file]))
    monkeypatch.setitem(__import__("sys").modules, "array_record.python.array_record_module", None)
    with pytest.raises(CorpusError, match=r"pip install ptmbench\[records\]"):
        list(corpus.read([file]))


@pytest.mark.slow
def test_model_is_pretrained_on_records(tmp_path):
    made = tfrecord(tmp_path / "wiki-train.tfrecord-00000-of-00001", [example(text=text) for text in TEXTS * 20])
    options = ("--vocabulary", "100", "--steps", "2", "--batch", "2", "--length", "16")
    assert main(["pretrain", "bert", "--corpus", str(made.parent), *options, "--out", str(tmp_path / "c")]) == 0
