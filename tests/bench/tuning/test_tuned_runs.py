"""A run that pre-trains with the recipes that a tuning found."""

import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.leaderboard.records import record
from tests.bench import asking
from tests.bench.tuning.asked import SMALL

RUN = {"suite": "demo", "models": ("word2vec",), "baselines": False, "tasks": ("sst2",), "seeds": 1, "limit": 40}
RUN |= {name: SMALL[name] for name in ("vocabulary", "recipe", "budget")}


def test_a_run_pretrains_with_the_tuned_recipe(ended, world, tmp_path):
    (one,) = Tuned.read(ended).body["models"]
    assert one["changes"], "the own recipe won: this test would show nothing"
    out = tmp_path / "run"
    for more in ({}, {"tuned": ended}):
        assert asking.run_suite(**RUN, **more, data=world, out=out) == OK
    plain, better = sorted(
        (record.read(path) for path in (out / "records").iterdir()), key=lambda one: "tuning" in one.pretraining
    )
    assert plain.key != better.key and "--tuned" in better.command and "--tuned" not in plain.command
    assert better.pretraining["tuning"] == {"trials": 4, "flops": one["flops"]}
    recipes = {
        about.get("tuning", {}).get("trials"): about["recipe"]
        for about in (checkpoint.read(path).about for path in (out / "pretrained").iterdir() if path.is_dir())
    }
    assert recipes[4] == recipes[None] | one["own"] | one["changes"] != recipes[None]
    page = (out / "board" / "index.html").read_text()
    assert "tuned with 4 trials" in page and "untuned" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget(tokens=19_000)}, r"with --tokens 18000, by trials of up to --tokens 18000; this run has"),
        ({"budget": Budget(steps=10)}, r"this run has --steps 10. Give a budget between"),
        ({"vocabulary": 320}, r"with another tokenizer: --tokenizer wordpiece --vocabulary 300"),
        ({"models": ("glove",)}, r"has no recipe for glove tiny. Leave it out with --models, or give `ptmbench tune d"),
        ({"models": ("word2vec",), "sizes": ("mini",)}, r"has no recipe for word2vec mini"),
        ({"recipe": {"batch": 8, "length": 32}}, r"tuned with batch at 4, and this run has 8"),
        ({"recipe": {"batch": 4, "length": 32, "clip": 2}}, r"tuned with clip at its default, and this run has 2"),
    ],
)
def test_a_run_that_does_not_match_the_tuning_is_rejected(ended, world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.run_suite(**(RUN | {"data": world, "out": tmp_path / "run", "tuned": ended, "dry_run": True} | changes))


def test_a_run_on_another_corpus_is_rejected(ended, world, tmp_path, text):
    with pytest.raises(UsageError, match="was tuned on another corpus, microworld.txt.*or tune on this one"):
        asking.run_suite(**RUN, data=world, out=tmp_path / "run", tuned=ended, corpus=(text,), dry_run=True)
    with pytest.raises(UsageError, match="holds neither tuned.json nor tuned-settings.json: no tuning has"):
        asking.run_suite(**RUN, data=world, out=tmp_path / "run", tuned=tmp_path, dry_run=True)


def test_pretrain_rejects_a_tuning(text, tmp_path):
    with pytest.raises(UsageError, match="Leave tuned out, and give the recipe"):
        asking.pretrain(model="word2vec", out=tmp_path, corpus=(text,), budget=Budget(steps=1), tuned=tmp_path)
