"""Shared fixtures: the microworld, its tokenizer, the context of a small cell, a text to pre-train on, a server."""

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
    """The folder of the microworld. Tests must not write to it."""
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
    """A small text: its files, its tokenizer and its corpus."""
    files = (made_text(tmp_path_factory.mktemp("text") / "corpus.txt"),)
    tokenizer = Tokenizer.load(corpora.tokenizer(files, "wordpiece", 300))
    return SimpleNamespace(files=files, tokenizer=tokenizer, corpus=corpora.load(tuple(map(str, files)), tokenizer))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def planned(world, tmp_path, monkeypatch):
    """Returns a function that calls `run_suite`, stops before any work begins, and returns the plan."""

    def make_plan(**options):
        captured = []
        monkeypatch.setattr(run, "execute", lambda plan, *_: captured.append(plan) or OK)
        defaults = {"suite": "demo", "models": ("word2vec", "glove"), "tasks": ("cola",), "seeds": 1, "vocabulary": 300}
        defaults |= {"data": world, "out": tmp_path, "budget": Budget(steps=2), "recipe": SHORT}
        assert asking.run_suite(**(defaults | options)) == OK
        return captured[0]

    return make_plan
