"""Dealing pieces: whole rows first, groups kept together, nothing lost, nothing dealt for ever."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from ptmbench.bench.budget import Budget
from ptmbench.bench.plan import Cell, Plan, Pretraining, Row
from ptmbench.bench.schedule import Schedule
from ptmbench.tasks.forms import Form


def pretraining(model):
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
        tokenizer="x",
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
PLAN = Plan(pretrainings=(BERT, GPT), cells=CELLS)


def dealt(plan, workers):
    """The pieces of ``plan`` in the order in which ``workers`` get them."""
    return deal(Schedule(plan, plan.cells, (), workers), workers)


def deal(schedule, workers=1):
    """Every piece in the order in which ``workers``, taking turns, get them."""
    order = []
    while not schedule.over:
        pieces = {worker: schedule.take(worker) for worker in range(workers)}
        order += [piece for piece in pieces.values() if piece is not None]
        for worker, piece in pieces.items():
            if piece is not None:
                assert schedule.done(worker) is piece
    return order


def test_everything_is_dealt_once_whatever_the_number_of_workers():
    for workers in (1, 2, 5):
        order = dealt(PLAN, workers)
        assert sorted(piece.key for piece in order) == sorted(piece.key for piece in (BERT, GPT, *CELLS))
        assert order.index(BERT) < order.index(CELLS[0]) and order.index(GPT) < order.index(CELLS[4])


def test_a_worker_stays_with_a_group_and_baselines_come_last():
    order = [piece for piece in deal(Schedule(PLAN, CELLS, ())) if isinstance(piece, Cell)]
    assert [c.group for c in order[:3]] == [CELLS[0].group] * 3  # the random twin shares its trace
    assert order[-1] is CELLS[5]


def test_what_is_pretrained_is_scored_before_the_next_pretraining_begins():
    order = dealt(PLAN, 1)
    assert order[0] is BERT and order.index(GPT) == 4  # after BERT's row and its twin, which share a trace
    assert order[5] is CELLS[4] and order[6] is CELLS[3]  # then GPT's, then what waited for nothing


def test_the_last_pretrainings_leave_no_worker_waiting():
    third = pretraining("electra")
    cells = (*CELLS, cell("electra", "cola", needs=third.key))
    order = dealt(Plan(pretrainings=(BERT, GPT, third), cells=cells), 2)
    assert order[:3] == [BERT, GPT, third]  # one is left for two workers: it goes at once, the other worker scores
    assert isinstance(order[3], Cell) and order[3].needs


def test_only_what_is_needed_is_pretrained():
    assert deal(Schedule(PLAN, CELLS[1:3], ())) == [*CELLS[1:3]]
    assert deal(Schedule(PLAN, CELLS[:1], [BERT.key])) == [CELLS[0]]
    given = cell("bert", "cola", needs="checkpoint:abc")
    assert deal(Schedule(Plan(pretrainings=(), cells=(given,)), [given], ())) == [given]


def test_cells_wait_for_their_pretraining_and_idle_workers_help_out():
    schedule = Schedule(Plan(pretrainings=(BERT,), cells=CELLS[:3]), CELLS[:3], ())
    assert schedule.take(0) is BERT
    assert schedule.take(1) is CELLS[1] and schedule.take(2) is CELLS[2]  # the group is taken: one from its end
    assert schedule.take(3) is None and not schedule.over
    schedule.done(0)
    assert schedule.take(3) is CELLS[0]


def test_who_dies_over_a_piece_leaves_it_to_one_more():
    schedule = Schedule(Plan(pretrainings=(BERT,), cells=CELLS[:1]), CELLS[:1], ())
    assert schedule.died(0) == (None, False)
    assert schedule.take(0) is BERT and schedule.died(0) == (BERT, False)
    assert schedule.take(1) is BERT and schedule.take(0) is None
    assert schedule.died(1) == (BERT, True)
    assert schedule.take(0) is CELLS[0]  # to be told that there is nothing to begin from
    schedule.done(0)
    assert schedule.over


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
    plan = Plan(pretrainings=tuple(made), cells=tuple(cells))
    return plan, {one.key for one in made if rng.random() < 0.2}, fatal, rng.randint(1, 6)


@pytest.mark.parametrize("seed", range(30))
def test_no_worker_rests_while_there_is_work_and_nothing_is_lost(seed):
    """Pieces take their time, some kill their worker, some workers die at random: all the same all is dealt."""
    rng = random.Random(seed)
    plan, settled, fatal, workers = drawn(rng)
    schedule = Schedule(plan, plan.cells, settled, workers)
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
