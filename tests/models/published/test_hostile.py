"""Files that are made to exhaust memory or time are refused with a message, and cost little memory and time.

Each file is read in a separate process with a limited address space. The limit can be low, because no parser of
`models.published` needs TensorFlow.
"""

import gzip
import json
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.models.published import made

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
MEMORY = 3 << 29
"""Bytes of address space: Python with NumPy, h5py and the tokenizers takes a third of them."""
CODE = """
import resource, sys
from pathlib import Path
import numpy, h5py, tokenizers
from sentencepiece import sentencepiece_model_pb2
from ptmbench.models.published import PublishedError, folder, vectors
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
path = Path(sys.argv[1])
try:
    if path.is_dir():
        found = folder.read(path)
        for name in found.arrays:
            found.arrays[name]
        for weight in found.table.weights(found.size):
            found.table.fixed(found.size) if hasattr(found.table, "fixed") else None
    else:
        vectors.read(path)
    print("it was read")
except PublishedError as error:
    print("refused:", error)
"""


def read(path):
    """Returns the output of a process that reads ``path``: "refused: ..." or "it was read"."""
    code = CODE.format(memory=MEMORY)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


BERT = {
    "model_type": "bert",
    "num_hidden_layers": 1,
    "hidden_size": 4,
    "num_attention_heads": 1,
    "intermediate_size": 4,
    "max_position_embeddings": 8,
}


def write_folder(path, config=BERT):
    """Writes a folder with a small BERT without weights, or with another ``config``."""
    made.wordpiece(path)
    (path / "config.json").write_text(json.dumps(config))
    return path


def write_archive(path, program, compression=zipfile.ZIP_STORED, storages=()):
    with zipfile.ZipFile(path / "pytorch_model.bin", "w", compression) as file:
        file.writestr("archive/data.pkl", program)
        for name, content in storages:
            file.writestr(f"archive/data/{name}", content)


def tensor_program(shape, strides, count=4, key=b"0"):
    """Returns a pickle program that creates {"a": tensor}."""

    def number(n):
        raw = n.to_bytes(9, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw

    def tuple_(numbers):
        return b"(" + b"".join(map(number, numbers)) + b"t"

    text = lambda s: b"X" + struct.pack("<I", len(s)) + s  # noqa: E731
    storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(key) + text(b"cpu") + number(count) + b"tQ"
    arguments = b"(" + storage + number(0) + tuple_(shape) + tuple_(strides) + b"\x89}t"
    return b"\x80\x02}" + text(b"a") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def nested_tuples(times=200):
    """Returns a pickle program for a tuple of two tuples of two tuples, and so on. Hashing it takes 2^200 steps."""
    return b")" + b"q\x00h\x00\x86" * times


PROGRAMS = {
    "a memo with a huge index": b"}r\xff\xff\xff\x1f.",
    "a memo with a huge index, protocol 4": b"\x80\x04}r\xff\xff\xff\x7f.",
    "doubled tuples as a key": b"\x80\x02}" + nested_tuples() + b"K\x01s.",
    "doubled tuples as the name of a storage": b"\x80\x02}(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    + nested_tuples()
    + b"X\x03\x00\x00\x00cpuK\x01tQ.",
    "doubled tuples as what to call": b"\x80\x04" + nested_tuples() + b"\x8c\x01a\x93.",
    "a string of 4 GB": b"\x80\x02X\xff\xff\xff\xff.",
    "a string of 2^63": b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f.",
    "a long of 2 GB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a bytearray of 2^62": b"\x80\x05\x96" + b"\xff" * 7 + b"\x3f.",
    "ten million dicts": b"\x80\x02(" + b"}" * 10_000_000 + b"t.",
    "nested lists": b"\x80\x02" + b"]" * 900_000 + b"a" * 899_999 + b".",
    "an integer": b"\x80\x02K\x01.",
    "nothing": b"",
    "code": pickle.dumps(print),
    "strides of 0": tensor_program((10**6, 10**6), (0, 0)),
    "a huge shape": tensor_program((10**12,), (1,), count=10**12),
    "a negative shape": tensor_program((-1, -4), (1, 1)),
    "many axes": tensor_program((1,) * 1000, (1,) * 1000),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_hostile_pickles_are_refused(name, tmp_path):
    write_archive(write_folder(tmp_path / "zipped"), PROGRAMS[name], storages=[("0", bytes(16))])
    assert read(tmp_path / "zipped").startswith("refused:")
    legacy = write_folder(tmp_path / "legacy")
    head = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {}))
    (legacy / "pytorch_model.bin").write_bytes(head + PROGRAMS[name] + b"\x80\x02].")
    assert read(legacy).startswith("refused:")


def test_compressed_archives_are_refused(tmp_path):
    """Compression makes zeros a thousand times smaller: 4 GB become 4 MB. An uncompressed archive is read."""
    small = tensor_program((4,), (1,))
    write_archive(write_folder(tmp_path / "program"), b"\x80\x02(" + b"}" * (1 << 26) + b"t.", zipfile.ZIP_DEFLATED)
    assert "compressed" in read(tmp_path / "program")
    write_archive(write_folder(tmp_path / "storage"), small, zipfile.ZIP_DEFLATED, [("0", bytes(1 << 28))])
    assert "compressed" in read(tmp_path / "storage")
    write_archive(write_folder(tmp_path / "plain"), small, storages=[("0", bytes(16))])
    assert read(tmp_path / "plain") == "it was read\n"
    write_archive(write_folder(tmp_path / "short"), small, storages=[("0", bytes(12))])
    assert "damaged" in read(tmp_path / "short")


@pytest.mark.parametrize(
    "header",
    [
        b'{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}',
        b'{"a": {"dtype": "F32", "shape": [' + b"9" * 4000 + b", 0" * 99 + b'], "data_offsets": [0, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [' + b", ".join([b"9" * 4000] * 3000) + b'], "data_offsets": [0, 0]}}',
        b"[" * 10_000_000,
        b"[" + b"{}," * 30_000_000 + b"{}]",
    ],
    ids=["10^12 rows", "a number of 4,000 digits", "thousands of them", "deep nesting", "90 MB of {}"],
)
def test_hostile_safetensors_headers_are_refused(header, tmp_path):
    path = write_folder(tmp_path / "f")
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert read(path).startswith("refused:")


@pytest.mark.parametrize("setting", ["num_hidden_layers", "max_position_embeddings", "hidden_size", "vocab_size"])
@pytest.mark.parametrize("number", [10**12, 10**400])
def test_configurations_with_huge_numbers_are_refused(setting, number, tmp_path):
    path = write_folder(tmp_path / "f", BERT | {setting: number})
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    assert read(path).startswith("refused:")


def test_huge_table_of_computed_positions_takes_no_memory(tmp_path):
    """PEGASUS computes its position vectors, so the file has no array that limits their number."""
    halves = {f"{half}_{part}": 1 for half in ("encoder", "decoder") for part in ("layers", "attention_heads")}
    config = {"model_type": "pegasus", "d_model": 4, "activation_function": "relu", "scale_embedding": True} | halves
    config |= {"encoder_ffn_dim": 4, "decoder_ffn_dim": 4, "max_position_embeddings": 10**10}
    path = write_folder(tmp_path / "f", config)
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    assert read(path).startswith("refused:")


def edit_tokenizer(path, change):
    spec = json.loads((path / "tokenizer.json").read_text())
    change(spec)
    (path / "tokenizer.json").write_text(json.dumps(spec))


TOKENIZERS = {
    "an id of 4 million": lambda spec: spec["model"]["vocab"].update(far=4_000_000),
    "an id of 10^12": lambda spec: spec["model"]["vocab"].update(far=10**12),
    "a pattern that is none": lambda spec: spec.update(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(" * 999}, "behavior": "Isolated", "invert": False}
    ),
    "a template of many parts": lambda spec: spec["post_processor"].update(
        single=[{"Sequence": {"id": "A", "type_id": 0}}] * 100_000
    ),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_hostile_tokenizers_are_refused(name, tmp_path):
    path = write_folder(tmp_path / "f")
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    edit_tokenizer(path, TOKENIZERS[name])
    assert read(path).startswith("refused:")


@pytest.mark.parametrize("map_", ["/////w==", "AAAA", "", "CAAAAP////8AAAAAAAAA"])
def test_invalid_charsmap_does_not_crash_the_process(map_, tmp_path):
    """The `tokenizers` package panics on some of these maps of characters."""
    path = write_folder(tmp_path / "f")
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    edit_tokenizer(path, lambda spec: spec.update(normalizer={"type": "Precompiled", "precompiled_charsmap": map_}))
    assert read(path).startswith(("refused:", "it was read"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_hostile_json_files_are_refused(name, tmp_path):
    """Deeply nested JSON, and a file of 4 GB."""
    path = write_folder(tmp_path / "f")
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    (path / name).write_bytes(b"[" * 1_000_000)
    assert read(path).startswith("refused:")
    with (path / name).open("wb") as file:
        file.truncate(1 << 32)
    assert read(path).startswith("refused:")


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json", "spiece.model"])
def test_hostile_vocabularies_are_refused(name, tmp_path):
    path = write_folder(tmp_path / "f", BERT | {"model_type": "t5"} if name == "spiece.model" else BERT)
    (path / "tokenizer.json").unlink()
    (path / "merges.txt").write_text("#version: 0.2\n")
    write_archive(path, tensor_program((4,), (1,)), storages=[("0", bytes(16))])
    for content in (b"\xff" * 1000, b"[" * 1_000_000, b"\x0a\xff\xff\xff\xff\x07"):
        (path / name).write_bytes(content)
        assert read(path).startswith("refused:")
    with (path / name).open("wb") as file:
        file.truncate(1 << 32)
    assert read(path).startswith("refused:")


def test_impossible_number_of_sentencepiece_special_tokens_is_refused(tmp_path):
    import sentencepiece

    from ptmbench.models.published import PublishedError, _slow

    (tmp_path / "text").write_text("\n".join(made.TEXT), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "spiece"), vocab_size=90, minloglevel=2
    )
    for model_type, setting in (("t5", "extra_ids"), ("pegasus", "offset")):
        for number in (10**12, -1, "many"):
            with pytest.raises(PublishedError, match=f"gives {setting} as"):
                _slow.read_legacy_vocabulary(tmp_path, {"model_type": model_type}, {setting: number})


def gzipped(content):
    return gzip.compress(content)


VECTORS = {
    "10^12 rows": lambda: b"1000000000000 300\na " + b"1 " * 300 + b"\n",
    "10^12 rows, gzipped": lambda: gzipped(b"1000000000000 300\na " + b"1 " * 300 + b"\n"),
    "10^12 columns": lambda: b"1 1000000000000\na 1 2\n",
    "10^9 columns, gzipped": lambda: gzipped(b"1 1000000000\na " + bytes(1 << 28)),
    "sizes of 5,000 digits": lambda: b"9" * 5000 + b" 3\na 1 2 3\n",
    "a line of 256 MB, gzipped": lambda: gzipped(b"a 1 2\nb 1 2" + bytes(1 << 28)),
    "20 million words without vectors, gzipped": lambda: gzipped(b"a 1\n" * 20_000_000),
    "a fastText model": lambda: struct.pack("<i", 793712314) + bytes(100),
    "a safetensors file": lambda: struct.pack("<Q", 2) + b"{}",
    "zeros": lambda: bytes(1 << 20),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("name", VECTORS)
def test_hostile_word_vectors_are_refused(name, tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(VECTORS[name]())
    assert read(path).startswith("refused:")


@pytest.mark.parametrize("name", ["array.npz", "model.keras", "model.h5"])
def test_other_file_formats_are_refused_as_word_vectors(name, tmp_path):
    path = tmp_path / name
    if name.endswith(".h5"):
        import h5py

        with h5py.File(path, "w") as file:
            file.create_dataset("a", shape=(10**7, 10**5), dtype="f4", chunks=(100, 100), compression="gzip")
    elif name.endswith(".keras"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("config.json", bytes(1 << 26))
    else:
        np.savez_compressed(path, a=np.zeros(1 << 24))
    assert read(path).startswith("refused:")


def test_hostile_arrays_of_presets_are_refused(tmp_path):
    """An HDF5 data set of 4 TB without any written chunk, and a compressed one, are refused before Keras reads them."""
    import h5py

    from ptmbench.models.published import PublishedError, _keras_hub

    file = tmp_path / "model.weights.h5"
    config = {"model_type": "distilbert", "vocab_size": 9, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
    config |= {"max_position_embeddings": 8}
    given = {"shape": (10**7, 10**5), "dtype": "f4", "chunks": (100, 100)}
    packed = {"data": np.zeros(10**6, np.float32), "chunks": (10**6,), "compression": "gzip"}
    for large in (given, packed):
        with h5py.File(file, "w") as opened:
            opened.create_dataset("layers/a/vars/0", **large)
        _, found = _keras_hub.arrays(tmp_path, config)
        with pytest.raises(PublishedError, match="holds layers/a/vars/0 compressed or cut short"):
            found["embeddings.word_embeddings.weight"]()
    for pieces in (10**12, -1, 2.5, None):
        _, found = _keras_hub.arrays(tmp_path, config | {"vocab_size": pieces})
        with pytest.raises(PublishedError, match="config.json tells of .* token vectors, but the files"):
            found["embeddings.word_embeddings.weight"]()
