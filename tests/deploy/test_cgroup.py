"""Control groups: a fake kernel for both versions, and the real one of this machine for version 1."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfloor.deploy.actuators.cgroup import CgroupActuator
from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.actuators.contract import Setting, carried_out
from fedfloor.deploy.actuators.groups import find_tree
from fedfloor.errors import DeploymentError, FailedRunError
from tests.runs.test_machine import put

V1 = "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
QUARTER = Setting(frequency=0.5e9, share=0.9)  # of a processor with 2 GHz


class FakeKernel:
    """Control groups in ordinary folders: their files come and go with them, and processes move between them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *, unified: bool) -> None:
        self.root, self.unified = root, unified
        self.top = root / ("sys/fs/cgroup" if unified else "sys/fs/cgroup/cpu")
        self.base = self.top / "system.slice/fedfloor.service"
        self.written: list[tuple[str, str]] = []  #: file without the top, and what was written, in order
        self.refused: set[str] = set()  #: names of files that cannot be written
        put(root, "proc/self/mountinfo", V2 if unified else V1)
        put(root, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2000000\n")
        for folder in (self.top, self.base.parent, self.base):
            folder.mkdir(parents=True, exist_ok=True)
            self.fill(folder)
        for process in ("self", "7", "8"):
            self.put_in(process, self.base)
        make, remove, write = Path.mkdir, Path.rmdir, os.write
        files: dict[int, Path] = {}
        opened = os.open

        def mkdir(folder: Path, *arguments: object, **options: object) -> None:
            make(folder, *arguments, **options)  # type: ignore[arg-type]
            if folder.is_relative_to(self.top):
                self.fill(folder)

        def rmdir(folder: Path) -> None:
            if folder.is_relative_to(self.top):
                if (folder / "cgroup.procs").read_text():
                    raise OSError(16, "Device or resource busy", str(folder))
                for file in folder.iterdir():
                    file.unlink()
            remove(folder)

        def open_file(path: Path, flags: int, *arguments: int) -> int:
            handle = opened(path, flags & ~os.O_TRUNC, *arguments)
            files[handle] = Path(path)
            return handle

        def write_file(handle: int, content: bytes) -> int:
            file = files.get(handle, Path("/"))
            return self.write(file, content.decode()) if file.is_relative_to(self.top) else write(handle, content)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "rmdir", rmdir)
        monkeypatch.setattr(os, "open", open_file)
        monkeypatch.setattr(os, "write", write_file)

    def fill(self, folder: Path) -> None:
        """Put the files of a new group there."""
        files = {"cgroup.procs": ""}
        if not self.unified:
            files |= {"cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "-1\n"}
        else:
            above = folder.parent / "cgroup.subtree_control"
            is_controlled = folder == self.top or "cpu" in above.read_text()
            files |= {"cgroup.controllers": "cpu memory\n" if is_controlled else "\n"}
            files |= {"cgroup.subtree_control": "cpu\n" if folder in (self.top, self.base.parent) else ""}
            files |= {} if folder == self.top else {"cgroup.type": "domain\n"}
            files |= {"cpu.max": "max 100000\n"} if is_controlled and folder != self.top else {}
        for name, text in files.items():
            (folder / name).write_text(text)

    def put_in(self, process: str, folder: Path) -> None:
        name = "/" + folder.relative_to(self.top).as_posix()
        put(
            self.root,
            f"proc/{process}/cgroup",
            f"0::{name}\n" if self.unified else f"4:memory:/\n2:cpu,cpuacct:{name}\n",
        )
        if process != "self":
            for file in self.top.rglob("cgroup.procs"):
                file.write_text("".join(f"{other}\n" for other in file.read_text().split() if other != process))
            with (folder / "cgroup.procs").open("a") as members:
                members.write(f"{process}\n")

    def write(self, file: Path, text: str) -> int:
        """What the kernel does with a text that is written to a file of a group."""
        self.written.append((file.relative_to(self.top).as_posix(), text.strip()))
        if file.name in self.refused:
            raise PermissionError(13, "Permission denied")
        if file.name == "cgroup.procs":
            if not (self.root / "proc" / text.strip()).exists():
                raise ProcessLookupError(3, "No such process")
            if self.unified and file.parent != self.top and (file.parent / "cgroup.subtree_control").read_text():
                raise OSError(16, "Device or resource busy")
            self.put_in(text.strip(), file.parent)
        elif file.name == "cgroup.subtree_control":
            if text.strip() == "+cpu" and (file.parent / "cgroup.procs").read_text():
                raise OSError(16, "Device or resource busy")
            file.write_text("cpu\n" if text.strip() == "+cpu" else "")
            for group in (path for path in file.parent.iterdir() if path.is_dir()):
                (group / "cpu.max").write_text("max 100000\n")
        else:
            file.write_text(text)
        return len(text)

    def groups(self) -> list[Path]:
        return list(self.top.rglob("fedfloor-*"))

    def members(self, folder: Path) -> list[str]:
        return (folder / "cgroup.procs").read_text().split()


@pytest.fixture(params=[False, True], ids=["version 1", "version 2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    return FakeKernel(tmp_path, monkeypatch, unified=request.param)


def actuator_of(kernel: FakeKernel, *processes: int) -> CgroupActuator:
    return CgroupActuator(lambda: processes or (7, 8), root=kernel.root)


def test_processes_get_their_share_of_one_core_and_are_moved_back(kernel: FakeKernel) -> None:
    actuator = actuator_of(kernel)
    assert actuator.problem() is None
    for _ in range(2):
        with carried_out(actuator, QUARTER):
            (group,) = kernel.groups()
            assert group.parent == kernel.base
            assert kernel.members(group) == ["7", "8"]
            if kernel.unified:
                assert (group / "cpu.max").read_text().split() == ["25000", "100000"]
            else:
                assert (group / "cpu.cfs_quota_us").read_text() == "25000\n"
                assert (group / "cpu.cfs_period_us").read_text() == "100000\n"
        assert kernel.groups() == []
        assert kernel.members(kernel.base) == ["7", "8"]
    actuator.end()


def test_the_group_is_removed_also_after_an_error(kernel: FakeKernel) -> None:
    with pytest.raises(ZeroDivisionError), carried_out(actuator_of(kernel), QUARTER):
        raise ZeroDivisionError
    assert kernel.groups() == []
    assert kernel.members(kernel.base) == ["7", "8"]


@pytest.mark.parametrize(
    ("unified", "name"),
    [
        (False, "cgroup.procs"),
        (False, "cpu.cfs_quota_us"),
        (True, "cgroup.procs"),
        (True, "cgroup.subtree_control"),
        (True, "cpu.max"),
    ],
)
def test_a_beginning_that_fails_halfway_leaves_everything_as_it_was(
    unified: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = FakeKernel(tmp_path, monkeypatch, unified=unified)
    before = kernel.members(kernel.base)
    kernel.refused = {name}
    with pytest.raises(FailedRunError, match=rf"{name}: the share .* cannot be limited: Permission denied"):
        actuator_of(kernel).begin(QUARTER)
    assert kernel.members(kernel.base) == before
    assert kernel.groups() == []
    assert caplog.records == []


def test_processes_that_end_or_begin_meanwhile_are_no_trouble(kernel: FakeKernel) -> None:
    actuator = actuator_of(kernel, 7, 8, 99)  # 99 has ended before
    actuator.begin(QUARTER)
    (group,) = kernel.groups()
    kernel.put_in("10", group)  # 7 has started it
    kernel.write(group / "cgroup.procs", "10")
    (group / "cgroup.procs").write_text("7\n10\n")  # 8 has ended
    actuator.end()
    assert kernel.groups() == []
    assert kernel.members(kernel.base) == ["7", "10"]


def test_groups_of_killed_processes_are_removed(kernel: FakeKernel) -> None:
    for name in ("fedfloor-4000000-0", "fedfloor-8-0", "fedfloor-mine"):  # 8 is alive
        (kernel.base / name).mkdir()
    with carried_out(actuator_of(kernel), QUARTER):
        pass
    assert sorted(path.name for path in kernel.groups() if path != kernel.base) == ["fedfloor-8-0", "fedfloor-mine"]


def test_a_decision_above_the_maximum_sets_no_limit_and_warns_once(
    kernel: FakeKernel, caplog: pytest.LogCaptureFixture
) -> None:
    actuator = actuator_of(kernel)
    for _ in range(2):
        with carried_out(actuator, Setting(frequency=3e9, share=1.0)):
            (group,) = kernel.groups()
            quota = group / ("cpu.max" if kernel.unified else "cpu.cfs_quota_us")
            assert quota.read_text().split()[0] == ("max" if kernel.unified else "-1")
    (warning,) = caplog.records
    assert "3 GHz were decided, but the processor has at most 2 GHz" in warning.message


def test_a_tiny_share_is_the_least_that_the_kernel_takes(kernel: FakeKernel) -> None:
    with carried_out(actuator_of(kernel), Setting(frequency=0.0, share=0.0)):
        (group,) = kernel.groups()
        assert (group / ("cpu.max" if kernel.unified else "cpu.cfs_quota_us")).read_text().split()[0] == "1000"


def test_without_a_frequency_of_the_processor_the_share_of_the_scenario_counts(kernel: FakeKernel) -> None:
    (kernel.root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").unlink()
    with carried_out(actuator_of(kernel), QUARTER):
        (group,) = kernel.groups()
        assert (group / ("cpu.max" if kernel.unified else "cpu.cfs_quota_us")).read_text().split()[0] == "90000"


def test_a_group_of_version_2_with_other_processes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = FakeKernel(tmp_path, monkeypatch, unified=True)
    with pytest.raises(DeploymentError, match=r"other processes are in this control group, as 8\. .*Delegate=yes"):
        make_actuator("cgroup", processes=lambda: (7,), root=kernel.root)
    empty = kernel.top / "factory"
    empty.mkdir()
    actuator = make_actuator(f"cgroup:{empty}", processes=lambda: (7,), root=kernel.root)
    with carried_out(actuator, QUARTER):
        assert [group.parent for group in kernel.groups()] == [empty]
    assert kernel.members(kernel.base) == ["8", "7"]
    assert (empty / "cgroup.subtree_control").read_text() == "cpu\n"  # others may use the group by now


def test_a_group_without_the_controller_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = FakeKernel(tmp_path, monkeypatch, unified=True)
    (kernel.base / "cgroup.controllers").write_text("memory\n")
    with pytest.raises(DeploymentError, match="no control groups that limit computing for this process"):
        find_tree(kernel.root)
    with pytest.raises(DeploymentError, match=r"fedfloor\.service: its controllers do not include cpu"):
        make_actuator(f"cgroup:{kernel.base}", root=kernel.root)
    with pytest.raises(DeploymentError, match="is in no hierarchy of control groups"):
        make_actuator(f"cgroup:{tmp_path / 'proc'}", root=kernel.root)


def test_a_container_sees_only_its_part_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = FakeKernel(tmp_path, monkeypatch, unified=False)
    put(
        tmp_path,
        "proc/self/mountinfo",
        V1.replace("0:28 / /sys", "0:28 /docker/a1 /sys").replace("cpu rw", r"c\040u rw"),
    )
    put(tmp_path, "proc/self/cgroup", "2:cpu,cpuacct:/docker/a1/inner\n")
    (tmp_path / "sys/fs/cgroup/c u/inner").mkdir(parents=True)
    assert find_tree(kernel.root).base == tmp_path / "sys/fs/cgroup/c u/inner"
    put(tmp_path, "proc/self/cgroup", "2:cpu,cpuacct:/../elsewhere\n")
    with pytest.raises(DeploymentError, match="no control groups"):
        find_tree(kernel.root)


BUSY = "import time\nprint('busy', flush=True)\nwhile True: pass"


@contextlib.contextmanager
def busy_process() -> Iterator[subprocess.Popen[str]]:
    """A process that computes without a pause until the block ends."""
    process = subprocess.Popen([sys.executable, "-S", "-c", BUSY], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def consumed(process: int) -> float:
    """Processor time [s] of a process so far."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def real_top(tmp_path: Path) -> Iterator[Path]:
    """A hierarchy of version 1 with the controller `cpu`; it is mounted for the test where it is not."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root may make control groups")
    with contextlib.suppress(DeploymentError):
        tree = find_tree(Path("/"))
        if not tree.unified:
            yield tree.top
            return
    mounted = subprocess.run(
        ["mount", "-t", "cgroup", "-o", "cpu", "fedfloor-test", str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=30,
    )
    if mounted.returncode:
        pytest.skip(f"no control groups of version 1 with cpu here: {mounted.stderr.decode().strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True, timeout=30)


def test_a_busy_process_with_a_quarter_of_a_core_computes_less_than_half_of_the_time(real_top: Path) -> None:
    if not os.access(real_top, os.W_OK):
        pytest.skip(f"{real_top} is read-only")
    before = set(real_top.iterdir())
    with busy_process() as process:
        actuator = CgroupActuator(lambda: (process.pid,), folder=real_top, maximum=2e9)
        assert actuator.problem() is None
        with carried_out(actuator, QUARTER):
            (group,) = set(real_top.iterdir()) - before
            assert (group / "cgroup.procs").read_text().split() == [str(process.pid)]
            begin, first = time.monotonic(), consumed(process.pid)
            time.sleep(1.2)
            share = (consumed(process.pid) - first) / (time.monotonic() - begin)
            assert 0.0 < share < 0.5
        assert set(real_top.iterdir()) == before
        assert str(process.pid) in (real_top / "cgroup.procs").read_text().split()
        with pytest.raises(ZeroDivisionError), carried_out(actuator, QUARTER):
            raise ZeroDivisionError
    assert set(real_top.iterdir()) == before


def test_a_process_that_ends_in_its_group_leaves_no_group(real_top: Path) -> None:
    before = set(real_top.iterdir())
    with busy_process() as process:
        actuator = CgroupActuator(lambda: (process.pid,), folder=real_top, maximum=2e9)
        actuator.begin(QUARTER)
        process.kill()
    actuator.end()
    assert set(real_top.iterdir()) == before


def test_a_user_without_permission_is_refused_at_the_start(real_top: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from fedfloor.deploy.actuators.cgroup import CgroupActuator\n"
        "os.setuid(65534)\n"
        "print(CgroupActuator(folder=Path(sys.argv[1])).problem())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(real_top)], capture_output=True, text=True, check=False, timeout=120
    )
    assert "this control group cannot be changed: Permission denied. Run as root" in done.stdout, done.stderr
