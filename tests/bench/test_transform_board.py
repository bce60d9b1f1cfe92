"""Records of transformed models on the board and in the gate."""

import pytest

from ptmbench.bench.adapt import transforms
from ptmbench.leaderboard import record, sides, survey
from ptmbench.leaderboard.arrange import arrange
from ptmbench.leaderboard.export import every_eval_ever
from tests.leaderboard import made
from tests.leaderboard.gates import side


def compressed(asked="prune:sparsity=0.8", version=1, **changes):
    """A made-up record of a transformed model; ``version`` is the version of its last transform."""
    chain = transforms.choose(asked)
    about = transforms.joined([one.recorded() for one in chain]) | {"version": version}
    about |= transforms.described(chain)
    return made.record(adaptation={"name": f"finetune>{asked}", "transform": about}, **changes)


def test_a_transformed_model_stands_in_a_row_of_its_own():
    found = [made.record(value=80.0), compressed(value=75.0), compressed("int8", value=79.0)]
    grid = arrange([*found, made.record(task="wikitext2", value=30.0, adaptation={"name": "likelihood"})])
    assert [row.title for row in grid.rows] == [
        "BERT (mini · pre-trained · fine-tuning)",
        "BERT (mini · pre-trained · fine-tuning · int8)",
        "BERT (mini · pre-trained · fine-tuning · pruned 80 %)",
    ]
    plain, *others = grid.rows
    (perplexity,) = (column for column in grid.columns if column.task["name"] == "wikitext2")
    assert (plain, perplexity) in grid.cells  # of the model without the transform
    assert not any((row, perplexity) in grid.cells for row in others)
    lines = {line["method"].title: line["type"] for line in survey.table_3(grid)}
    assert lines == {others[0].title: "quantisation", others[1].title: "pruning"}
    assert plain.card["reported"] and not any(row.card["reported"] for row in others)  # no paper's of these
    names = [one["model_info"]["additional_details"]["adaptation"] for one in every_eval_ever(grid)]
    assert names == ["finetune", "finetune>int8", "finetune>prune:sparsity=0.8"]


def test_the_gate_compares_the_same_transform(tmp_path):
    one, newer, plain = compressed(value=80.0), compressed(version=2, value=80.0), made.record(value=80.0)
    assert len({sides.identity_of(each) for each in (plain, one, compressed("int8"))}) == 3
    left, right = (sides.read(side(tmp_path / name, [each])) for name, each in (("a", one), ("b", newer)))
    ((_, _, apart),) = sides.match(left, right)
    assert apart == ["version of the transform"]
    assert left.groups[0].trained


def test_a_chain_has_a_row_of_its_own_and_its_earlier_versions_count(tmp_path):
    chain = "prune:sparsity=0.8+int8"
    grid = arrange([made.record(value=80.0), compressed("int8", value=79.0), compressed(chain, value=74.0)])
    titles = [row.title for row in grid.rows]
    assert "BERT (mini · pre-trained · fine-tuning · pruned 80 %, then int8)" in titles and len(titles) == 3
    lines = {line["method"].title: line["type"] for line in survey.table_3(grid)}
    assert lines[titles[-1]] == "pruning, quantisation"
    older = compressed(chain, value=74.0)
    older.adaptation["transform"]["before"][0]["version"] = 0
    assert sides.identity_of(older) == sides.identity_of(compressed(chain))
    left, right = (sides.read(side(tmp_path / name, [one])) for name, one in (("a", older), ("b", compressed(chain))))
    ((*_, apart),) = sides.match(left, right)
    assert apart == ["version of transform 1"]
    older.adaptation["transform"]["before"] = ["prune"]
    with pytest.raises(record.RecordError, match="adaptation.transform.before"):
        record.write(tmp_path, older)


@pytest.mark.parametrize("broken", [{"name": "x"}, "int8", {"name": "x", "settings": {}, "version": "1"}])
def test_a_record_with_half_a_transform_is_refused(tmp_path, broken):
    with pytest.raises(record.RecordError, match="adaptation.transform"):
        record.write(tmp_path, made.record(adaptation={"transform": broken}))
