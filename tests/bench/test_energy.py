"""Joules: counters that wrap around, that may not be read, that are not there."""

import pytest

from ptmbench.bench.engine import energy


@pytest.fixture
def powercap(tmp_path):
    """Two packages, a part of the first and the platform, as Linux lays them out."""
    for folder, name in (("0", "package-0"), ("0:0", "core"), ("1", "package-1"), ("2", "psys")):
        place = tmp_path / f"intel-rapl:{folder}"
        place.mkdir()
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text("999999\n")
        (place / "energy_uj").write_text("900000\n")
    return tmp_path


def test_packages_only_and_the_wrap_around_counted(powercap):
    found, reason = energy.packages(powercap)
    assert len(found) == 2 and reason == ""
    (powercap / "intel-rapl:0" / "energy_uj").write_text("950000\n")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("100000\n")  # 100,000 up to the end, then 100,000
    assert [package.joules() for package in found] == [0.05, 0.2]
    (powercap / "intel-rapl:1" / "energy_uj").write_text("0\n")
    assert found[1].joules() == pytest.approx(1.1)


def test_a_counter_adds_its_sources_up_or_says_why_not(powercap, monkeypatch):
    found, _ = energy.packages(powercap)
    reads = [package.joules for package in found] + [lambda: 5.0]
    monkeypatch.setattr(energy, "_meters", lambda: (reads, "two packages and a GPU", ""))
    counter = energy.Counter()
    (powercap / "intel-rapl:0" / "energy_uj").write_text("900500\n")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("901000\n")
    assert counter.stop() == {"joules": 0.002, "source": "two packages and a GPU"}
    monkeypatch.setattr(energy, "_meters", lambda: ([], "", "nothing counts."))
    assert energy.Counter().stop() == {"joules": None, "reason": "nothing counts."}


def test_a_counter_that_goes_away_costs_no_work(monkeypatch):
    readings = [1.0, 2.0]
    monkeypatch.setattr(energy, "_meters", lambda: ([readings.pop], "a GPU", ""))
    counter = energy.Counter()
    readings.clear()  # the next look raises
    reason = {"joules": None, "reason": "a GPU counts no more (pop from empty list)."}
    assert counter.stop() == reason
    assert energy.Counter().stop() == reason


def test_what_cannot_be_read_is_told(powercap, tmp_path):
    assert energy.packages(tmp_path / "nowhere") == ([], f"{tmp_path / 'nowhere'} holds no RAPL package")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("")
    found, reason = energy.packages(powercap)
    assert found == [] and "cannot be read" in reason
    what, readable = energy.describe()
    assert what and isinstance(readable, bool)
