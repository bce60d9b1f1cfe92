"""Pre-training curves ("courses"): read from runs and baselines for the weights of the records, thinned and drawn."""

import hashlib
import json

import pytest

from ptmbench.leaderboard import board
from ptmbench.leaderboard.records import courses
from ptmbench.leaderboard.records.baseline import accept, verify
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page


def weights(name):
    """Returns the hash of the weights in the made-up records of ``name``."""
    return hashlib.sha256(ascii(name).encode()).hexdigest()


def manifest(folder, name, losses, digest=None):
    """Writes the manifest of a finished pre-training to a run folder."""
    about = {"curve": [{"step": 10 * i, "loss": loss} for i, loss in enumerate(losses, 1)]}
    body = {"format": 1, "about": about, "files": {"weights.safetensors": digest or weights(name)}}
    seal = hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    place = folder / "pretrained" / f"{name}-tiny.abc"
    place.mkdir(parents=True)
    (place / "manifest.json").write_text(json.dumps(body | {"seal": seal}))
    return place / "manifest.json"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    for name in ("bert", "gpt"):
        write(folder, record(name=name))
    manifest(folder, "bert", [9.0, 8.0, 7.5, 7.0])
    manifest(folder, "gpt", [8.0 - i / 100 for i in range(400)])
    return folder


def load_courses(folder, *records):
    return courses.load([folder], records or [record(name="bert"), record(name="gpt")])


def test_courses_are_loaded_only_for_weights_named_in_records(run):
    assert load_courses(run)[weights("bert")] == ((10, 9.0), (20, 8.0), (30, 7.5), (40, 7.0))
    assert set(load_courses(run, record(name="bert"))) == {weights("bert")}
    manifest(run, "elmo", [9.0, 8.0], digest="0" * 64)
    assert set(load_courses(run)) == {weights("bert"), weights("gpt")}


def test_long_courses_are_thinned_and_keep_their_first_and_last_point(run):
    points = load_courses(run)[weights("gpt")]
    assert len(points) == courses.MOST and points[0] == (10, 8.0) and points[-1] == (4000, 8.0 - 3.99)
    assert [step for step, _ in points] == sorted(step for step, _ in points)


@pytest.mark.parametrize("damage", ["cut", "changed", "nan", "not json"])
def test_a_damaged_manifest_gives_no_course(run, damage):
    path = run / "pretrained" / "bert-tiny.abc" / "manifest.json"
    text = path.read_text()
    path.write_text(
        {"cut": text[:-9], "changed": text.replace("9.0", "1.0"), "nan": text.replace("9.0", "NaN"), "not json": "{"}[
            damage
        ]
    )
    assert set(load_courses(run)) == {weights("gpt")}


def test_a_baseline_keeps_the_courses_and_detects_a_change(run, tmp_path):
    accept(run, tmp_path / "baseline", "they are right", predictions=False)
    assert verify(tmp_path / "baseline")
    assert load_courses(tmp_path / "baseline") == load_courses(run)
    path = tmp_path / "baseline" / "courses.json"
    assert path.stat().st_size < 4000 and not (tmp_path / "baseline" / "pretrained").exists()
    path.write_text(path.read_text().replace("9", "8"))
    with pytest.raises(ValueError, match="was changed"):
        verify(tmp_path / "baseline")


def test_page_draws_courses_over_tokens_and_flops_with_a_table(run, tmp_path):
    source = board.build([run], tmp_path / "site").read_text()
    section = source[source.index('id="courses"') :]
    section = section[: section.index("</section>")]
    assert section.count("<svg") == 2 and section.count('class="mean"') == 4  # two models in two charts
    text = " ".join(Page(section).text.split())
    assert "Losses of different objectives cannot be compared" in text
    assert "9.000" in text and "7.000" in text and "1 BERT mini" in text


def test_many_models_have_distinct_colours_and_dashes():
    from ptmbench.leaderboard.page import charts

    lines = [
        charts.Course(number=i, label=f"m{i}", paths=[[(10.0, 9.0), (1000.0, 5.0 + i / 50)]]) for i in range(1, 27)
    ]
    svg = str(charts.courses(lines, "tokens"))
    looks = [part.split('"')[1] for part in svg.split("<g ")[1:]]
    assert len(set(looks)) == 26
    heights = [float(part.split('y="')[1].split('"')[0]) for part in svg.split('class="label"')[1:]]
    assert all(later - earlier > 15.9 for earlier, later in zip(sorted(heights), sorted(heights)[1:], strict=False))


def test_pretrainings_without_a_curve_are_counted_with_the_reason(run, tmp_path):
    write(run, record(name="elmo"))
    source = board.build([run], tmp_path / "site").read_text()
    assert "1 of 3 pre-trainings have no curve, because" in source and source.count('class="mean"') == 4
    write(tmp_path / "old", record())
    source = board.build([tmp_path / "old"], tmp_path / "old site").read_text()
    section = source[source.index('id="courses"') :].partition("</section>")[0]
    assert "The pre-training of this board has no curve" in section and "<svg" not in section
    assert 'href="#courses"' not in source


def test_boards_without_pretrainings_have_no_courses_section(tmp_path):
    write(tmp_path / "run", record(kind="random"))
    write(tmp_path / "run", record(kind="published", row={"division": "published"}))
    assert 'id="courses"' not in board.build([tmp_path / "run"], tmp_path / "site").read_text()


def test_a_column_without_a_number_is_left_out(run):
    text = Page(board.build([run], run / "board").read_text()).text
    assert "Last loss" in text and "Held-out loss" not in text
    assert "Peak memory" in text and "Zero weights" not in text and "The last columns are measured" not in text
