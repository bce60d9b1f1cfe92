"""Energy in joules: counters that wrap around, cannot be read, or do not exist."""

import pytest

from ptmbench.bench.engine import energy


@pytest.fixture
def powercap(tmp_path):
    """A powercap folder in Linux's layout: two packages, a part of the first one, and the platform."""
    for folder, name in (("0", "package-0"), ("0:0", "core"), ("1", "package-1"), ("2", "psys")):
        place = tmp_path / f"intel-rapl:{folder}"
        place.mkdir()
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text("999999\n")
        (place / "energy_uj").write_text("900000\n")
    return tmp_path


def test_only_packages_are_read_and_wrap_arounds_are_counted(powercap):
    found, reason = energy.packages(powercap)
    assert len(found) == 2 and reason == ""
    (powercap / "intel-rapl:0" / "energy_uj").write_text("950000\n")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("100000\n")  # 100,000 up to the wrap-around, then 100,000
    assert [package.joules() for package in found] == [0.05, 0.2]
    (powercap / "intel-rapl:1" / "energy_uj").write_text("0\n")
    assert found[1].joules() == pytest.approx(1.1)


def test_a_counter_sums_its_meters_or_gives_a_reason(powercap, monkeypatch):
    found, _ = energy.packages(powercap)
    reads = [package.joules for package in found] + [lambda: 5.0]
    monkeypatch.setattr(energy, "_meters", lambda: (reads, "two packages and a GPU", ""))
    counter = energy.Counter()
    (powercap / "intel-rapl:0" / "energy_uj").write_text("900500\n")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("901000\n")
    assert counter.stop() == {"joules": 0.002, "source": "two packages and a GPU"}
    monkeypatch.setattr(energy, "_meters", lambda: ([], "", "nothing counts."))
    assert energy.Counter().stop() == {"joules": None, "reason": "nothing counts."}


def test_a_meter_that_disappears_gives_a_reason_instead_of_an_error(monkeypatch):
    readings = [1.0, 2.0]
    monkeypatch.setattr(energy, "_meters", lambda: ([readings.pop], "a GPU", ""))
    counter = energy.Counter()
    readings.clear()  # the next reading raises
    reason = {"joules": None, "reason": "a GPU counts no more (pop from empty list)."}
    assert counter.stop() == reason
    assert energy.Counter().stop() == reason


def test_missing_and_unreadable_meters_give_a_reason(powercap, tmp_path):
    assert energy.packages(tmp_path / "nowhere") == ([], f"{tmp_path / 'nowhere'} holds no RAPL package")
    (powercap / "intel-rapl:1" / "energy_uj").write_text("")
    found, reason = energy.packages(powercap)
    assert found == [] and "cannot be read" in reason
    what, readable = energy.describe()
    assert what and isinstance(readable, bool)
