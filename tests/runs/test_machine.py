"""What a machine says about itself, read from files as Linux writes them."""

from pathlib import Path

import pytest

from fedfloor.errors import ProfileError
from fedfloor.runs.machine import (
    maximum_frequency,
    memory_bytes,
    processor_name,
    read_frequency,
    start_energy_reading,
    start_power_reading,
)

PC = "\n".join(
    f"processor\t: {n}\nmodel name\t: Fast CPU\ncpu MHz\t\t: {mhz}\n" for n, mhz in enumerate((2800, 3100.5))
)
PI = "processor\t: 0\nBogoMIPS\t: 108.00\n\nRevision\t: c03111\nModel\t\t: Raspberry Pi 4 Model B Rev 1.1\n"


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_pc_names_its_processor_and_frequency_in_one_file(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", PC)
    assert processor_name(tmp_path) == "Fast CPU"
    assert read_frequency(tmp_path) == (3100.5e6, "/proc/cpuinfo")


def test_a_raspberry_pi_names_its_board_and_scales_its_frequency(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", PI)
    assert processor_name(tmp_path) == "Raspberry Pi 4 Model B Rev 1.1"
    assert read_frequency(tmp_path) is None
    for core, kilohertz in enumerate((600_000, 1_500_000)):
        put(tmp_path, f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{kilohertz}\n")
    assert read_frequency(tmp_path) == (1.5e9, "scaling_cur_freq")


def test_the_highest_frequency_is_that_of_the_fastest_core_or_else_the_present_one(tmp_path: Path) -> None:
    assert maximum_frequency(tmp_path) is None
    put(tmp_path, "proc/cpuinfo", PC)
    assert maximum_frequency(tmp_path) == 3100.5e6
    for core, kilohertz in enumerate((1_800_000, 2_400_000)):
        put(tmp_path, f"sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq", f"{kilohertz}\n")
    assert maximum_frequency(tmp_path) == 2.4e9


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_container_has_the_memory_of_its_limit(name: str, tmp_path: Path) -> None:
    installed = memory_bytes(tmp_path)
    for text, expected in (("10000000\n", 10**7), ("max\n", installed), (f"{2**63}\n", installed), ("", installed)):
        put(tmp_path, f"sys/fs/cgroup/{name}", text)
        assert memory_bytes(tmp_path) == expected


def test_energy_is_read_several_times_from_one_beginning(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "5000000\n")
    spent = start_energy_reading(tmp_path)
    for microjoules, joules in ((6_000_000, 1.0), (9_500_000, 4.5)):
        put(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", f"{microjoules}\n")
        assert spent() == pytest.approx(joules)


def test_power_is_a_number_or_the_mean_of_a_file(tmp_path: Path) -> None:
    assert start_power_reading("4.5")().watts == 4.5
    put(tmp_path, "meter.txt", "4.0\n\n5.0\n")
    end = start_power_reading(str(tmp_path / "meter.txt"))
    put(tmp_path, "meter.txt", "4.0\n5.0\n9.0\n")  # the meter has written on
    assert (end().watts, end().source) == (6.0, "meter.txt")


@pytest.mark.parametrize("wrapped", [False, True])
def test_counters_of_energy_give_power_also_when_they_wrap(tmp_path: Path, wrapped: bool) -> None:
    counter = "sys/class/powercap/intel-rapl:0"
    put(tmp_path, f"{counter}/max_energy_range_uj", "1000000000000\n")
    put(tmp_path, f"{counter}/energy_uj", "999999999999\n" if wrapped else "5000000\n")
    end = start_power_reading("rapl", tmp_path)
    put(tmp_path, f"{counter}/energy_uj", "2999999\n" if wrapped else "8000000\n")
    reading = end()
    assert reading.watts > 0
    assert reading.source == "rapl"


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("0", r"power 0: must be more than 0 W, got '0'"),
        ("-3", r"power -3: must be more than 0 W"),
        ("nan", r"power nan: must be more than 0 W"),
        ("none.txt", r"power none.txt: no such file"),
        ("x" * 5000, r"power 'x{100,196}\.\.\.: must be a path that can exist, .*File name too long"),
        ("a\0b", r"power 'a\\x00b': must be a path that can exist, .*embedded null"),
        ("9" * 5000, r"power '9{100,196}\.\.\.: must be more than 0 W"),
        ("rapl", r"power rapl: this machine has no RAPL counters"),
    ],
)
def test_power_that_cannot_be_read_is_refused_at_once(tmp_path: Path, choice: str, problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        start_power_reading(choice, tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"), [("", "has no readings"), ("4\nlots\n", "line 2: .* got 'lots'"), ("-1", "line 1")]
)
def test_readings_that_are_no_power_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    put(tmp_path, "meter.txt", text)
    with pytest.raises(ProfileError, match=rf"meter\.txt: {problem}"):
        start_power_reading(str(tmp_path / "meter.txt"))()


def test_counters_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "sys/class/powercap/intel-rapl:0").mkdir(parents=True)
    with pytest.raises(ProfileError, match="energy_uj cannot be read: No such file"):
        start_power_reading("rapl", tmp_path)
