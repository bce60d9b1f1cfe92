"""Fixtures of many test files: the microworld, its tokenizer, what a small cell is run with, a text to pre-train on."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ptmbench.bench.data import corpora
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import run
from ptmbench.bench.runs.answers import Context
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import microworld
from tests.bench import asking
from tests.bench.cells import SHAPE, SHORT
from tests.bench.processes import made_text
from tests.bench.serving import Server


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The folder of the microworld, to be read only."""
    folder = tmp_path_factory.mktemp("microworld") / "data"
    microworld.make(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(world):
    return Tokenizer.load(corpora.tokenizer([world / "corpus"], "wordpiece", 400))


@pytest.fixture
def context(world, tokenizer, tmp_path):
    return Context(data=world, out=tmp_path, shape=SHAPE, tokenizer=tokenizer, source={"name": "microworld"})


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A small text, with its tokenizer and as a corpus."""
    files = (made_text(tmp_path_factory.mktemp("text") / "corpus.txt"),)
    tokenizer = Tokenizer.load(corpora.tokenizer(files, "wordpiece", 300))
    return SimpleNamespace(files=files, tokenizer=tokenizer, corpus=corpora.load(tuple(map(str, files)), tokenizer))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def planned(world, tmp_path, monkeypatch):
    """`run_suite` up to the moment at which work would begin: its plan."""

    def plans(**options):
        found = []
        monkeypatch.setattr(run, "execute", lambda whole, *_: found.append(whole) or OK)
        usual = {"suite": "demo", "models": ("word2vec", "glove"), "tasks": ("cola",), "seeds": 1, "vocabulary": 300}
        usual |= {"data": world, "out": tmp_path, "budget": Budget(steps=2), "recipe": SHORT}
        assert asking.run_suite(**(usual | options)) == OK
        return found[0]

    return plans
