"""Scheduling: rows in sequence, groups kept together, nothing lost, and nothing retried forever."""

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import graph
from ptmbench.bench.runs.artefacts import Cell, Given, Row
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.schedule import ATTEMPTS, Schedule
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.tasks.forms import Form

WORDS = TokenizerTraining(tokenizer="wordpiece", vocabulary=100, corpus=(), corpus_sha256="x")


def pretraining(model, **more):
    return Pretraining(
        model=model,
        size="tiny",
        corpus=(),
        corpus_sha256="x",
        corpus_name="x",
        tokenizer="wordpiece",
        vocabulary=100,
        budget=Budget(steps=1),
        recipe={},
        **more,
    )


def cell(name, task, seed=0, needs=None):
    model = None if name == "majority" else name.removeprefix("random-")
    kind = "baseline" if model is None else "pretrained" if needs else "random"
    return Cell(
        row=Row(name=name, kind=kind, model=model, size="tiny" if model else None),
        task=task,
        task_version=1,
        form=Form.TAGGING if task == "conll2003" else Form.CLASSIFICATION,
        data_sha256="x",
        adaptation="finetune" if model else "baseline",
        settings={},
        seed=seed,
        tokenizer=WORDS.key if model else "",
        pretraining=needs,
    )


BERT, GPT = pretraining("bert"), pretraining("gpt")
CELLS = (
    cell("bert", "cola", needs=BERT.key),
    cell("random-bert", "cola"),
    cell("random-bert", "sst2"),
    cell("random-gpt", "cola"),
    cell("gpt", "conll2003", needs=GPT.key),
    cell("majority", "cola"),
)
PLAN = Plan((WORDS, BERT, GPT, *CELLS))


def order_of_plan(plan, workers):
    """The artefacts of ``plan`` in the order in which ``workers`` take them, when its tokenizer exists."""
    return take_all(Schedule(plan.artefacts, [WORDS.key], workers), workers)


def take_all(schedule, workers=1):
    """All nodes in the order in which ``workers`` take them by turns."""
    order = []
    while not schedule.over:
        nodes = {worker: schedule.take(worker) for worker in range(workers)}
        order += [node for node in nodes.values() if node is not None]
        for worker, node in nodes.items():
            if node is not None:
                assert schedule.done(worker) is node
    return order


def test_every_artefact_is_scheduled_once_for_any_number_of_workers():
    for workers in (1, 2, 5):
        order = take_all(Schedule(PLAN.artefacts, (), workers), workers)
        assert sorted(node.key for node in order) == sorted(node.key for node in PLAN.artefacts)
        assert order.index(WORDS) < order.index(BERT) < order.index(CELLS[0])
        assert order.index(WORDS) < order.index(GPT) < order.index(CELLS[4])


def test_a_worker_stays_in_its_group_and_baselines_come_last():
    order = [node for node in order_of_plan(PLAN, 1) if isinstance(node, Cell)]
    assert [c.group for c in order[:3]] == [CELLS[0].group] * 3  # the random twin has the same traced step
    assert order[-1] is CELLS[5]


def test_cells_of_a_pretraining_run_before_the_next_pretraining():
    order = order_of_plan(PLAN, 1)
    assert order[0] is BERT and order.index(GPT) == 4  # after the cells of BERT and its twin, which share a traced step
    assert order[5] is CELLS[4] and order[6] is CELLS[3]  # then GPT's cell, then the cell without dependencies


def test_the_last_pretrainings_start_early_enough_for_all_workers():
    third = pretraining("electra")
    plan = Plan((WORDS, BERT, GPT, third, *CELLS, cell("electra", "cola", needs=third.key)))
    order = order_of_plan(plan, 2)
    # One is left for two workers: it starts at once, and the other worker runs cells.
    assert order[:3] == [
        BERT,
        GPT,
        third,
    ]
    assert isinstance(order[3], Cell) and order[3].pretraining


def test_only_required_artefacts_are_scheduled():
    others = [one.key for one in CELLS if one.row.name not in ("bert", "majority")]
    assert take_all(Schedule(PLAN.artefacts, [*others, WORDS.key, BERT.key])) == [CELLS[0], CELLS[5]]
    assert take_all(Schedule(PLAN.artefacts, [*others, CELLS[0].key])) == [CELLS[5]]  # a baseline needs no tokenizer
    assert take_all(Schedule(PLAN.artefacts, [*others, CELLS[5].key])) == [WORDS, BERT, CELLS[0]]
    weights, given_tokenizer = Given(key="checkpoint:abc", path="there"), Given(key=WORDS.key, path="there")
    one = cell("bert", "cola", needs="checkpoint:abc")
    assert take_all(Schedule(Plan((weights, given_tokenizer, one)).artefacts, [weights.key, given_tokenizer.key])) == [
        one
    ]


def test_cells_wait_for_their_pretraining_and_idle_workers_take_other_cells():
    schedule = Schedule(Plan((WORDS, BERT, *CELLS[:3])).artefacts, [WORDS.key])
    assert schedule.take(0) is BERT
    # Another worker has the group: take the cell at its end.
    assert schedule.take(1) is CELLS[1] and schedule.take(2) is CELLS[2]
    assert schedule.take(3) is None and not schedule.over
    schedule.done(0)
    assert schedule.take(3) is CELLS[0]


def test_a_continued_pretraining_follows_its_base_before_the_next_model():
    second = pretraining("bert", base=BERT.key, other_tokenizer=WORDS.key)
    plan = Plan((WORDS, BERT, GPT, second, cell("bert", "cola", needs=second.key), CELLS[4]))
    names = [node.title for node in order_of_plan(plan, 1)]
    assert names == [BERT.title, second.title, "bert-tiny cola finetune seed 0", GPT.title, CELLS[4].title]


def test_an_artefact_whose_worker_died_is_tried_once_more():
    schedule = Schedule(Plan((WORDS, BERT, CELLS[0])).artefacts, [WORDS.key])
    assert schedule.died(0) == (None, False)
    assert schedule.take(0) is BERT and schedule.died(0) == (BERT, False)
    assert schedule.take(1) is BERT and schedule.take(0) is None
    assert schedule.died(1) == (BERT, True)
    assert schedule.take(0) is CELLS[0]  # the cell fails with the reason that its pre-training is missing
    schedule.done(0)
    assert schedule.over


@dataclass(frozen=True)
class Piece:
    """A node of a random graph."""

    key: str
    needs: tuple[str, ...]
    group: str
    weight: float

    @property
    def title(self):
        return self.key


@st.composite
def graphs(draw):
    """Up to twelve nodes in any order. Each needs some of those with lower numbers."""
    count, found = draw(st.integers(1, 12)), []
    for number in range(count):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        group, weight = draw(st.sampled_from("abc")), draw(st.sampled_from((0.0, 1.0, 2.0)))
        found.append(Piece(str(number), tuple(map(str, sorted(needs))), group, weight))
    return draw(st.permutations(found))


@settings(max_examples=100, deadline=None)
@given(nodes=graphs(), workers=st.integers(1, 5), data=st.data())
def test_every_node_follows_its_dependencies_even_if_workers_die(nodes, workers, data):
    """Some nodes kill their workers, and any worker may die at any time. All required nodes are still settled."""
    nodes = graph.ordered(nodes)
    keys = st.sets(st.sampled_from([node.key for node in nodes]))
    settled, fatal = data.draw(keys, "settled"), data.draw(keys, "fatal")
    schedule = Schedule(nodes, settled, workers)
    known = {node.key: node for node in nodes}
    targets = set(known) - {key for node in nodes for key in node.needs}
    finished, deaths, current = set(settled), Counter(), {}
    for _ in range(1000):
        for worker in set(range(workers)) - current.keys():
            node = schedule.take(worker)
            if node is None:  # all remaining nodes wait for nodes in progress
                assert schedule.over or current
                remaining = graph.required(nodes, finished) - {other.key for other in current.values()}
                assert all(set(known[key].needs) - finished for key in remaining)
            else:
                assert finished.issuperset(node.needs) and node.key not in finished and node not in current.values()
                assert schedule.held(worker) is node
                current[worker] = node
        if schedule.over:
            break
        worker = data.draw(st.sampled_from(sorted(current)), "the worker that ends")
        node = current.pop(worker)
        if node.key in fatal or data.draw(st.integers(0, 9), "luck") == 0:
            deaths[node.key] += 1
            assert schedule.died(worker) == (node, deaths[node.key] == ATTEMPTS)
            finished |= {node.key} if deaths[node.key] == ATTEMPTS else set()
        else:
            assert schedule.done(worker) is node
            finished.add(node.key)
    assert schedule.over and not current and targets <= finished and max(deaths.values(), default=0) <= ATTEMPTS
    assert not graph.required(nodes, finished)


@settings(max_examples=60, deadline=None)
@given(nodes=graphs(), data=st.data())
def test_graphs_are_ordered_topologically_or_refused(nodes, data):
    found = graph.ordered(nodes)
    place = {node.key: number for number, node in enumerate(found)}
    assert len(place) == len(nodes) and all(place[key] < place[node.key] for node in found for key in node.needs)
    assert graph.ordered(found) == found
    depths = graph.depths(found)
    assert all(depths[node.key] == max((depths[key] + 1 for key in node.needs), default=0) for node in found)
    one = data.draw(st.sampled_from(nodes))
    needed = [node for node in nodes if one.key in node.needs]
    if needed:
        with pytest.raises(UsageError, match=f"needs {one.key}, which the plan does not make"):
            graph.ordered([node for node in nodes if node is not one])
        with_cycle = replace(one, needs=(*one.needs, needed[0].key))
        with pytest.raises(UsageError, match=r"cannot have a cycle: .* needs "):
            graph.ordered([with_cycle if node is one else node for node in nodes])


def random_plan(rng):
    """A random plan with twins, extra encoders and baselines; settled keys, fatal keys, and the number of workers."""
    made = [pretraining(f"m{number}") for number in range(rng.randint(1, 5))]
    cells = [cell("majority", "cola")] * rng.randint(0, 1)
    for one in made:
        for task in rng.sample(("cola", "sst2", "conll2003"), rng.randint(1, 3)):
            extra_encoders = {other.model: other.key for other in made if rng.random() < 0.1}
            cells.append(replace(cell(one.model, task, needs=one.key), neighbours=extra_encoders))
            cells += [cell(f"random-{one.model}", task)] * rng.randint(0, 1)
    rng.shuffle(cells)
    fatal = {piece.key for piece in (*made, *cells) if rng.random() < 0.1}
    settled = {one.key for one in made if rng.random() < 0.2} | {WORDS.key}
    return Plan((WORDS, *made, *cells)), settled, fatal, rng.randint(1, 6)


@pytest.mark.parametrize("seed", range(30))
def test_no_worker_is_idle_while_there_is_work_and_nothing_is_lost(seed):
    """Some artefacts kill their worker, and some workers die at random. All artefacts are settled nevertheless."""
    rng = random.Random(seed)
    plan, settled, fatal, workers = random_plan(rng)
    schedule = Schedule(plan.artefacts, settled, workers)
    needed, finished, in_progress = {key for one in plan.cells for key in one.needs} - settled, Counter(), {}
    for _ in range(500):
        for worker in set(range(workers)) - in_progress.keys():
            piece = schedule.take(worker)
            if piece is not None:
                assert isinstance(piece, Pretraining) or not needed.intersection(piece.needs) - finished.keys()
                in_progress[worker] = piece
            else:  # all remaining cells wait for a pre-training in progress
                taken = {key for key, times in finished.items() if times} | {
                    current.key for current in in_progress.values()
                }
                remaining = [one for one in plan.cells if one.key not in taken]
                busy = {current.key for current in in_progress.values() if isinstance(current, Pretraining)}
                assert needed <= taken and all(busy.intersection(one.needs) for one in remaining)
        if schedule.over:
            break
        worker = rng.choice(sorted(in_progress))
        piece = in_progress.pop(worker)
        if piece.key in fatal or rng.random() < 0.05:
            finished[piece.key] += schedule.died(worker)[1]
        else:
            assert schedule.done(worker) is piece
            finished[piece.key] += 1
        finished = +finished
    assert schedule.over and finished == dict.fromkeys({*needed, *(one.key for one in plan.cells)}, 1)
