"""Dealing pieces: whole rows first, groups kept together, nothing lost, nothing dealt for ever."""

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


def dealt(plan, workers):
    """What is made of ``plan`` once its tokenizer is there, in the order in which ``workers`` get it."""
    return deal(Schedule(plan.artefacts, [WORDS.key], workers), workers)


def deal(schedule, workers=1):
    """Every node in the order in which ``workers``, taking turns, get them."""
    order = []
    while not schedule.over:
        nodes = {worker: schedule.take(worker) for worker in range(workers)}
        order += [node for node in nodes.values() if node is not None]
        for worker, node in nodes.items():
            if node is not None:
                assert schedule.done(worker) is node
    return order


def test_everything_is_dealt_once_whatever_the_number_of_workers():
    for workers in (1, 2, 5):
        order = deal(Schedule(PLAN.artefacts, (), workers), workers)
        assert sorted(node.key for node in order) == sorted(node.key for node in PLAN.artefacts)
        assert order.index(WORDS) < order.index(BERT) < order.index(CELLS[0])
        assert order.index(WORDS) < order.index(GPT) < order.index(CELLS[4])


def test_a_worker_stays_with_a_group_and_baselines_come_last():
    order = [node for node in dealt(PLAN, 1) if isinstance(node, Cell)]
    assert [c.group for c in order[:3]] == [CELLS[0].group] * 3  # the random twin shares its trace
    assert order[-1] is CELLS[5]


def test_what_is_pretrained_is_scored_before_the_next_pretraining_begins():
    order = dealt(PLAN, 1)
    assert order[0] is BERT and order.index(GPT) == 4  # after BERT's row and its twin, which share a trace
    assert order[5] is CELLS[4] and order[6] is CELLS[3]  # then GPT's, then what waited for nothing


def test_the_last_pretrainings_leave_no_worker_waiting():
    third = pretraining("electra")
    plan = Plan((WORDS, BERT, GPT, third, *CELLS, cell("electra", "cola", needs=third.key)))
    order = dealt(plan, 2)
    assert order[:3] == [BERT, GPT, third]  # one is left for two workers: it goes at once, the other worker scores
    assert isinstance(order[3], Cell) and order[3].pretraining


def test_only_what_is_needed_is_made():
    others = [one.key for one in CELLS if one.row.name not in ("bert", "majority")]
    assert deal(Schedule(PLAN.artefacts, [*others, WORDS.key, BERT.key])) == [CELLS[0], CELLS[5]]
    assert deal(Schedule(PLAN.artefacts, [*others, CELLS[0].key])) == [CELLS[5]]  # no tokenizer for a baseline
    assert deal(Schedule(PLAN.artefacts, [*others, CELLS[5].key])) == [WORDS, BERT, CELLS[0]]
    weights, cut = Given(key="checkpoint:abc", path="there"), Given(key=WORDS.key, path="there")
    one = cell("bert", "cola", needs="checkpoint:abc")
    assert deal(Schedule(Plan((weights, cut, one)).artefacts, [weights.key, cut.key])) == [one]


def test_cells_wait_for_their_pretraining_and_idle_workers_help_out():
    schedule = Schedule(Plan((WORDS, BERT, *CELLS[:3])).artefacts, [WORDS.key])
    assert schedule.take(0) is BERT
    assert schedule.take(1) is CELLS[1] and schedule.take(2) is CELLS[2]  # the group is taken: one from its end
    assert schedule.take(3) is None and not schedule.over
    schedule.done(0)
    assert schedule.take(3) is CELLS[0]


def test_a_continued_pretraining_follows_its_base_before_the_next_model_begins():
    second = pretraining("bert", base=BERT.key, other_tokenizer=WORDS.key)
    plan = Plan((WORDS, BERT, GPT, second, cell("bert", "cola", needs=second.key), CELLS[4]))
    names = [node.title for node in dealt(plan, 1)]
    assert names == [BERT.title, second.title, "bert-tiny cola finetune seed 0", GPT.title, CELLS[4].title]


def test_who_dies_over_a_piece_leaves_it_to_one_more():
    schedule = Schedule(Plan((WORDS, BERT, CELLS[0])).artefacts, [WORDS.key])
    assert schedule.died(0) == (None, False)
    assert schedule.take(0) is BERT and schedule.died(0) == (BERT, False)
    assert schedule.take(1) is BERT and schedule.take(0) is None
    assert schedule.died(1) == (BERT, True)
    assert schedule.take(0) is CELLS[0]  # to be told that there is nothing to begin from
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
    """Up to twelve nodes, each of which needs some of those before it, in any order."""
    count, found = draw(st.integers(1, 12)), []
    for number in range(count):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        group, weight = draw(st.sampled_from("abc")), draw(st.sampled_from((0.0, 1.0, 2.0)))
        found.append(Piece(str(number), tuple(map(str, sorted(needs))), group, weight))
    return draw(st.permutations(found))


@settings(max_examples=100, deadline=None)
@given(nodes=graphs(), workers=st.integers(1, 5), data=st.data())
def test_every_node_is_made_after_its_needs_whoever_dies(nodes, workers, data):
    """Any node may kill its workers, and any worker may die at any time: all the same, all that is left settles."""
    nodes = graph.ordered(nodes)
    keys = st.sets(st.sampled_from([node.key for node in nodes]))
    settled, fatal = data.draw(keys, "settled"), data.draw(keys, "fatal")
    schedule = Schedule(nodes, settled, workers)
    known = {node.key: node for node in nodes}
    targets = set(known) - {key for node in nodes for key in node.needs}
    ended, deaths, held = set(settled), Counter(), {}
    for _ in range(1000):
        for worker in set(range(workers)) - held.keys():
            node = schedule.take(worker)
            if node is None:  # all that is left waits for what others are at
                assert schedule.over or held
                left = graph.required(nodes, ended) - {other.key for other in held.values()}
                assert all(set(known[key].needs) - ended for key in left)
            else:
                assert ended.issuperset(node.needs) and node.key not in ended and node not in held.values()
                assert schedule.held(worker) is node
                held[worker] = node
        if schedule.over:
            break
        worker = data.draw(st.sampled_from(sorted(held)), "the worker that ends")
        node = held.pop(worker)
        if node.key in fatal or data.draw(st.integers(0, 9), "luck") == 0:
            deaths[node.key] += 1
            assert schedule.died(worker) == (node, deaths[node.key] == ATTEMPTS)
            ended |= {node.key} if deaths[node.key] == ATTEMPTS else set()
        else:
            assert schedule.done(worker) is node
            ended.add(node.key)
    assert schedule.over and not held and targets <= ended and max(deaths.values(), default=0) <= ATTEMPTS
    assert not graph.required(nodes, ended)


@settings(max_examples=60, deadline=None)
@given(nodes=graphs(), data=st.data())
def test_a_graph_is_put_in_order_or_refused(nodes, data):
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
        back = replace(one, needs=(*one.needs, needed[0].key))
        with pytest.raises(UsageError, match=r"cannot have a cycle: .* needs "):
            graph.ordered([back if node is one else node for node in nodes])


def drawn(rng):
    """A plan of some models with their twins, neighbours and baselines; what is settled, what kills, how many work."""
    made = [pretraining(f"m{number}") for number in range(rng.randint(1, 5))]
    cells = [cell("majority", "cola")] * rng.randint(0, 1)
    for one in made:
        for task in rng.sample(("cola", "sst2", "conll2003"), rng.randint(1, 3)):
            beside = {other.model: other.key for other in made if rng.random() < 0.1}
            cells.append(replace(cell(one.model, task, needs=one.key), neighbours=beside))
            cells += [cell(f"random-{one.model}", task)] * rng.randint(0, 1)
    rng.shuffle(cells)
    fatal = {piece.key for piece in (*made, *cells) if rng.random() < 0.1}
    settled = {one.key for one in made if rng.random() < 0.2} | {WORDS.key}
    return Plan((WORDS, *made, *cells)), settled, fatal, rng.randint(1, 6)


@pytest.mark.parametrize("seed", range(30))
def test_no_worker_rests_while_there_is_work_and_nothing_is_lost(seed):
    """Pieces take their time, some kill their worker, some workers die at random: all the same all is dealt."""
    rng = random.Random(seed)
    plan, settled, fatal, workers = drawn(rng)
    schedule = Schedule(plan.artefacts, settled, workers)
    needed, ended, at_work = {key for one in plan.cells for key in one.needs} - settled, Counter(), {}
    for _ in range(500):
        for worker in set(range(workers)) - at_work.keys():
            piece = schedule.take(worker)
            if piece is not None:
                assert isinstance(piece, Pretraining) or not needed.intersection(piece.needs) - ended.keys()
                at_work[worker] = piece
            else:  # all that is left waits for what somebody is at
                taken = {key for key, times in ended.items() if times} | {held.key for held in at_work.values()}
                left = [one for one in plan.cells if one.key not in taken]
                busy = {held.key for held in at_work.values() if isinstance(held, Pretraining)}
                assert needed <= taken and all(busy.intersection(one.needs) for one in left)
        if schedule.over:
            break
        worker = rng.choice(sorted(at_work))
        piece = at_work.pop(worker)
        if piece.key in fatal or rng.random() < 0.05:
            ended[piece.key] += schedule.died(worker)[1]
        else:
            assert schedule.done(worker) is piece
            ended[piece.key] += 1
        ended = +ended
    assert schedule.over and ended == dict.fromkeys({*needed, *(one.key for one in plan.cells)}, 1)
