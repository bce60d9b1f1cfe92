"""Records of transformed models on the board and in the gate."""

import re

import pytest

from ptmbench.bench.adapt import transforms
from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.gate import sides
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.export import every_eval_ever
from ptmbench.leaderboard.survey import reported as survey
from tests.leaderboard import made
from tests.leaderboard.gates import side

CHAIN = "prune:sparsity=0.8+int8"


def compressed(asked="prune:sparsity=0.8", version=1, **changes):
    """Returns a made-up record of a transformed model. ``version`` is the version of its last transform."""
    chain = transforms.choose(asked)
    about = transforms.joined([one.recorded() for one in chain]) | {"version": version}
    about |= transforms.described(chain)
    return made.record(adaptation={"name": f"finetune>{asked}", "transform": about}, **changes)


def test_a_transformed_model_has_its_own_row():
    found = [made.record(value=80.0), compressed(value=75.0), compressed("int8", value=79.0)]
    grid = arrange([*found, made.record(task="wikitext2", value=30.0, adaptation={"name": "likelihood"})])
    assert [row.title for row in grid.rows] == [
        "BERT (mini · pre-trained · fine-tuning)",
        "BERT (mini · pre-trained · fine-tuning · int8)",
        "BERT (mini · pre-trained · fine-tuning · pruned 80 %)",
    ]
    plain, *others = grid.rows
    (perplexity,) = (column for column in grid.columns if column.task["name"] == "wikitext2")
    assert (plain, perplexity) in grid.cells  # a result of the model without the transform
    assert not any((row, perplexity) in grid.cells for row in others)
    assert [row.compression for row in others] == [("quantization",), ("pruning",)]
    assert survey.table_3(grid) == []  # which needs a GLUE average
    assert plain.card["reported"] and not any(row.card["reported"] for row in others)  # papers lack these
    names = [one["model_info"]["additional_details"]["adaptation"] for one in every_eval_ever(grid)]
    assert names == ["finetune", "finetune>int8", "finetune>prune:sparsity=0.8"]


def test_the_gate_matches_records_of_the_same_transform(tmp_path):
    one, newer, plain = compressed(value=80.0), compressed(version=2, value=80.0), made.record(value=80.0)
    assert len({sides.identity_of(each) for each in (plain, one, compressed("int8"))}) == 3
    left, right = (sides.read(side(tmp_path / name, [each])) for name, each in (("a", one), ("b", newer)))
    ((_, _, apart),) = sides.match(left, right)
    assert apart == ["version of the transform"]
    assert left.groups[0].trained


def test_a_chain_has_its_own_row_and_the_gate_compares_all_its_versions(tmp_path):
    grid = arrange([made.record(value=80.0), compressed("int8", value=79.0), compressed(CHAIN, value=74.0)])
    kinds = {row.title: row.compression for row in grid.rows}
    chain = "BERT (mini · pre-trained · fine-tuning · pruned 80 %, then int8)"
    assert kinds[chain] == ("pruning", "quantization") and len(kinds) == 3
    older = compressed(CHAIN, value=74.0)
    older.adaptation["transform"]["before"][0]["version"] = 0
    assert sides.identity_of(older) == sides.identity_of(compressed(CHAIN))
    left, right = (sides.read(side(tmp_path / name, [one])) for name, one in (("a", older), ("b", compressed(CHAIN))))
    ((*_, apart),) = sides.match(left, right)
    assert apart == ["version of transform 1"]
    older.adaptation["transform"]["before"] = ["prune"]
    with pytest.raises(record.RecordError, match="adaptation.transform.before"):
        record.write(tmp_path, older)


def test_the_cost_table_shows_bits_zeros_and_bytes(tmp_path):
    sizes = {"bits_per_weight": 32.0, "zero_weights": 0.001, "disk_bytes": 44 * 2**20, "disk_bytes_compressed": 2**25}
    small = {"bits_per_weight": 8.25, "zero_weights": 0.4567, "disk_bytes": 3 * 2**19, "disk_bytes_compressed": 2**20}
    older = made.record(name="gpt")  # from before these were recorded
    found = [made.record(cost=sizes), compressed(CHAIN, cost=small), older]
    names = ["bits per weight", "zero weights", "disk MiB", "compressed MiB"]
    frame = tables.cost(found)
    values = {tuple(line[name] for name in names) for line in frame.dropna(subset=names).to_dict("records")}
    assert values == {(32.0, 0.001, 44.0, 32.0), (8.25, 0.4567, 1.5, 1.0)}
    for one in found:
        record.write(tmp_path, one)
    page = board.build([tmp_path], tmp_path / "board").read_text()
    table = page.partition('id="cost-title"')[2].partition("</table>")[0]
    assert "Bits per weight: the bits of the number format" in table
    lines = table.split("<tr ")[1:]
    cells = [re.findall(r"<td class=num[^>]*>([^<]*)", line)[-4:] for line in lines]
    assert sorted(cells) == [[""] * 4, ["32", "0.1 %", "44 MiB", "32 MiB"], ["8.25", "45.7 %", "1.5 MiB", "1 MiB"]]
    assert "pruned 80 %, then int8" in lines[cells.index(["8.25", "45.7 %", "1.5 MiB", "1 MiB"])]


@pytest.mark.parametrize("broken", [{"name": "x"}, "int8", {"name": "x", "settings": {}, "version": "1"}])
def test_a_record_with_an_incomplete_transform_is_rejected(tmp_path, broken):
    with pytest.raises(record.RecordError, match="adaptation.transform"):
        record.write(tmp_path, made.record(adaptation={"transform": broken}))
