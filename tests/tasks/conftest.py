"""Fixtures for the tests of tasks: one small microworld, made once per session."""

from pathlib import Path

import pytest

from ptmbench.tasks.microworld import Sizes, make

SMALL = Sizes(corpus_tokens=60_000, people=100, train=400, dev=200, test=200, translations=200, wiki_tokens=2000)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "microworld"
    make(folder, seed=0, scale=SMALL)
    return folder


@pytest.fixture(scope="session")
def corpus(data: Path) -> str:
    return (data / "corpus/microworld.txt").read_text(encoding="utf-8")
