"""What a node is used for: recorded texts of the kernel, real processes, and the thread that samples them."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.planned import planned_config
from trainmark.machine.accelerators import find_accelerators
from trainmark.machine.cpu_usage import (
    ALL_CORES,
    CpuShares,
    CpuTimes,
    parse_cpu_times,
    parse_process,
    read_processes,
    shares_between,
)
from trainmark.machine.network import (
    Interfaces,
    NetworkBytes,
    find_interfaces,
    moved_between,
    parse_interfaces,
    read_moved,
)
from trainmark.machine.usage import NO_ACCELERATOR, UsageMeter, Watched
from trainmark.spec.event_files import read_events
from trainmark.spec.events import Affinity, RankStarted
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.plan import Job, Rank
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.train.event_log import EventLog
from trainmark.train.usage_log import UsageSampler, sample_usage, watched_of

# user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
STAT_BEFORE = """cpu  6000 10 700 9000 50 5 15 20 100 0
cpu0 4000 10 500 2000 50 5 15 20 100 0
cpu1 2000 0 200 7000 0 0 0 0 0 0
intr 23902203 0 0 1370654 0 33023
ctxt 51017772
btime 1794710473
"""
STAT_AFTER = """cpu  6170 10 716 9085 55 6 18 35 160 0
cpu0 4060 10 510 2005 55 6 18 30 160 0
cpu1 2110 0 206 7080 0 0 0 5 0 0
intr 23902999 0 0 1370999 0 33099
ctxt 51018888
btime 1794710473
"""
PROCESS = (
    "21624 (python (a) b) S 21610 21624 21610 0 -1 4194304 90113 7 0 0 1234 56 20 3 20 0 9 0 3668800 8123456512 70001 "
    "18446744073709551615 1 1 0 0 0 0 0 16781312 16386 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
# As the kernel writes it, with fewer spaces between the columns.
DEVICES = """Inter-| Receive | Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 66766174914 14528160 0 0 0 0 0 0 66766174914 14528160 0 0 0 0 0 0
  eth0: 1782924451 49274 0 0 0 0 0 0 3278607 30445 0 0 0 0 0 0
   br0:1782924000 49000 0 0 0 0 0 0 3278000 30000 0 0 0 0 0 0
   ib0:     700 7 0 0 0 0 0 0 900 9 0 0 0 0 0 0
"""


def test_the_times_of_cores_are_read_from_the_kernels_text() -> None:
    found = parse_cpu_times(STAT_BEFORE, (0,))
    # user + nice, system + irq + softirq; guest is inside user already.
    assert found == {ALL_CORES: CpuTimes(6010, 720, 50, 20, 9000), 0: CpuTimes(4010, 520, 50, 20, 2000)}


def test_shares_are_those_of_the_ticks_that_passed() -> None:
    before, after = parse_cpu_times(STAT_BEFORE, (0, 1)), parse_cpu_times(STAT_AFTER, (0, 1))
    # Core 0: user 60, system 10 + 1 + 3, iowait 5, steal 10, idle 5: 94 ticks.
    assert shares_between(before, after, (0,)) == pytest.approx(CpuShares(60 / 94, 14 / 94, 5 / 94, 10 / 94))
    # Core 1: user 110, system 6, steal 5, idle 80: 201 ticks.
    both = CpuShares((60 + 110) / 295, (14 + 6) / 295, 5 / 295, 15 / 295)
    assert shares_between(before, after, (0, 1)) == pytest.approx(both)


def test_without_a_tick_or_a_core_there_is_no_share() -> None:
    before = parse_cpu_times(STAT_BEFORE, (0, 1))
    assert shares_between(before, before, (0, 1)) is None
    assert shares_between(before, parse_cpu_times(STAT_AFTER, ()), (0,)) is None  # taken offline
    assert shares_between(before, parse_cpu_times(STAT_AFTER, (0, 1)), (7,)) is None


def test_an_iowait_that_goes_back_counts_as_none() -> None:
    before, after = {0: CpuTimes(0, 0, 10, 0, 0)}, {0: CpuTimes(3, 0, 8, 0, 1)}
    assert shares_between(before, after, (0,)) == CpuShares(0.75, 0, 0, 0)


def test_a_process_is_read_whatever_it_is_called() -> None:
    # utime 1234, stime 56, of ended children 20 and 3; 70,001 pages.
    assert parse_process(PROCESS) == (1234 + 56 + 20 + 3, 70_001)


def test_a_busy_process_and_its_child_are_both_counted() -> None:
    spin = "import time\nstop = time.process_time() + 0.3\nwhile time.process_time() < stop: pass\n"
    child = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {spin + 'input()'!r}], stdin=0)\n"
    code = child + spin + "print('spun', flush=True)\nchild.wait()\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "spun\n"
            deadline = time.monotonic() + 20
            while (found := read_processes([process.pid])).cpu_s < 0.6 and time.monotonic() < deadline:
                time.sleep(0.05)  # the child may still compute
            assert found.processes == 2
            assert 0.6 <= found.cpu_s < 3  # and the start of two interpreters
            assert found.resident_bytes > 2 * 4 * 2**20
        finally:
            process.communicate("over\n")
    assert read_processes([process.pid]) == (0, 0, 0)


def test_interfaces_are_read_from_the_kernels_text() -> None:
    found = parse_interfaces(DEVICES, ("lo", "br0", "gone"))
    assert found == {
        "lo": NetworkBytes(66766174914, 66766174914),
        "br0": NetworkBytes(1782924000, 3278000),  # a large count leaves no space behind the colon
    }
    assert set(parse_interfaces(DEVICES)) == {"lo", "eth0", "br0", "ib0"}


def written_node(root: Path, *, infiniband: bool) -> tuple[Path, Path, Path]:
    """A node with a loopback, a real and an InfiniBand interface and a bridge, as sysfs shows them."""
    for name, kind in (("lo", "772"), ("eth0", "1"), ("br0", "1"), ("ib0", "32")):
        (root / "net" / name).mkdir(parents=True)
        (root / "net" / name / "type").write_text(f"{kind}\n")
        if name in ("eth0", "ib0"):
            (root / "net" / name / "device").mkdir()
    if infiniband:
        counters = root / "infiniband" / "mlx5_0" / "ports" / "1" / "counters"
        counters.mkdir(parents=True)
        (counters / "port_rcv_data").write_text("1000\n")
        (counters / "port_xmit_data").write_text("250\n")
    (root / "dev").write_text(DEVICES)
    return root / "net", root / "infiniband", root / "dev"


def test_a_node_is_left_by_its_real_interfaces(tmp_path: Path) -> None:
    assert find_interfaces(*written_node(tmp_path, infiniband=False)) == Interfaces(("lo",), ("eth0", "ib0"), {})


def test_infiniband_ports_count_words_of_four_bytes_and_hold_what_ip_moves_over_them(tmp_path: Path) -> None:
    found = find_interfaces(*written_node(tmp_path, infiniband=True))
    assert (found.loopback, found.external, found.names) == (("lo",), ("eth0",), ["eth0", "mlx5_0/1"])
    moved = read_moved(found, tmp_path / "dev")
    assert moved["mlx5_0/1"] == NetworkBytes(4000, 1000)
    assert moved["eth0"] == NetworkBytes(1782924451, 3278607)


def test_a_container_without_real_interfaces_is_left_by_those_it_has(tmp_path: Path) -> None:
    net, infiniband, counters = written_node(tmp_path, infiniband=False)
    for name in ("eth0", "ib0"):
        (net / name / "device").rmdir()
    assert find_interfaces(net, infiniband, counters).external == ("eth0", "br0", "ib0")


def test_an_interface_that_was_reset_or_came_late_moved_nothing_that_is_known() -> None:
    before = {"a": NetworkBytes(10, 20), "b": NetworkBytes(10, 20)}
    after = {"a": NetworkBytes(15, 20), "b": NetworkBytes(11, 0), "c": NetworkBytes(9, 9)}
    assert moved_between(before, after) == {"a": NetworkBytes(5, 0)}


def spin(seconds: float) -> None:
    stop = time.thread_time() + seconds
    while time.thread_time() < stop:
        pass


def test_a_meter_tells_what_this_process_does() -> None:
    meter = UsageMeter(Watched(tuple(os.sched_getaffinity(0)), (os.getpid(),)))
    began_s = time.monotonic()
    spin(0.5)
    sample = meter.read()
    assert sample.over_s == pytest.approx(time.monotonic() - began_s, abs=0.1)
    for cpu in (sample.cpu, sample.node_cpu):
        assert cpu is not None
        shares = cpu.model_dump().values()
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) <= 1.001  # rounded to four digits each
    assert sample.cpu is not None and sample.processes is not None
    assert sample.cpu.user > 0.1 * 0.5 / sample.over_s / os.cpu_count()  # type: ignore[operator]
    assert sample.processes.cpu_s >= 0.4  # the kernel counts in ticks of 10 ms
    assert (sample.processes.resident_bytes or 0) > 10 * 2**20
    assert sample.loopback_bytes is not None and sample.loopback_bytes >= 0
    assert sample.sampling_s is not None and 0 < sample.sampling_s < 0.1
    assert "accelerators" not in sample.facts()
    assert meter.unavailable == {"accelerators": NO_ACCELERATOR}


@pytest.mark.skipif(bool(find_accelerators()), reason="this machine has an accelerator")
def test_accelerators_that_are_not_there_are_unavailable_with_the_librarys_words() -> None:
    meter = UsageMeter(Watched((0,), (os.getpid(),), ("GPU-0",)))
    assert meter.unavailable["accelerators"].startswith("NVMLError")
    assert "accelerators" not in meter.read().facts()


@pytest.mark.skipif(not find_accelerators(), reason="this machine has no NVIDIA accelerator")
def test_accelerators_tell_utilisation_memory_and_power() -> None:
    import pynvml

    pynvml.nvmlInit()
    uuid = str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)))
    (found,) = UsageMeter(Watched((0,), (os.getpid(),), (uuid,))).read().accelerators or ()
    assert 0 <= found.utilisation <= 1
    assert found.memory_bytes > 0
    assert found.power_w is None or found.power_w > 0


def sampler(path: Path, period_s: float = 0.1, watched: Any = None) -> UsageSampler:
    own = Watched(tuple(os.sched_getaffinity(0)), (os.getpid(),))
    return UsageSampler(path, watched or (lambda: own), period_s, "here", [0])


def test_samples_come_at_their_period_until_the_end(tmp_path: Path) -> None:
    sampling = sampler(tmp_path / "usage-0.jsonl")
    began_s = time.monotonic()
    sampling.start()
    time.sleep(0.77)
    sampling.stop()
    lasted_s = time.monotonic() - began_s
    start, *rest = read_events(tmp_path / "usage-0.jsonl")[0]
    assert isinstance(start, UsageStart)
    assert (start.node, start.ranks, start.period_s) == ("here", [0], 0.1)
    samples = [event for event in rest if isinstance(event, Usage)]
    assert len(samples) == len(rest)
    # A sample for each tenth of a second and one for the rest, fewer where the machine is slow.
    assert 4 <= len(samples) <= lasted_s / 0.1 + 1
    times = [sample.monotonic_s for sample in samples]
    assert times == sorted(times)
    assert lasted_s - 0.5 < sum(sample.over_s for sample in samples) <= lasted_s  # all but the start of the thread


def test_a_series_whose_last_line_is_torn_is_read_up_to_it(tmp_path: Path) -> None:
    sampling = sampler(tmp_path / "usage-0.jsonl", period_s=0.05)
    sampling.start()
    time.sleep(0.2)
    sampling.stop()
    whole = (tmp_path / "usage-0.jsonl").read_bytes()
    events = read_events(tmp_path / "usage-0.jsonl")[0]
    assert len(events) == whole.count(b"\n")
    (tmp_path / "usage-0.jsonl").write_bytes(whole[:-20])
    assert read_events(tmp_path / "usage-0.jsonl")[0] == events[:-1]
    assert all(json.loads(line)["kind"] for line in whole.splitlines())


def test_a_sampler_that_cannot_write_or_find_out_says_so_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "usage-0.jsonl").touch()  # an attempt is never written twice

    def unknown() -> Watched:
        raise KeyError("affinity")

    for sampling in (sampler(tmp_path / "usage-0.jsonl"), sampler(tmp_path / "usage-1.jsonl", watched=unknown)):
        sampling.start()
        sampling.stop()
        told = capsys.readouterr().err
        assert told.startswith("trainmark: utilisation recording stopped: ")
        assert told.count("\n") == 1


def test_a_source_that_fails_is_null_with_its_reason_and_the_others_go_on() -> None:
    meter = UsageMeter(Watched((0,), ()))
    meter.interfaces = Interfaces((), (), {"mlx5_0/1": Path("/nowhere")})
    sample = meter.read()
    assert (sample.network, sample.loopback_bytes) == (None, None)
    assert sample.unavailable["network"].startswith("FileNotFoundError: ")
    assert sample.cpu is None or sample.cpu.user >= 0  # None: no tick has passed


def test_ranks_that_proc_does_not_show_make_the_members_own_share_unavailable() -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    meter = UsageMeter(Watched((0,), (os.getpid(), int(gone.stdout))))
    sample = meter.read()
    assert sample.processes is None
    assert sample.unavailable["processes"] == (
        "ProcessLookupError: /proc does not show 1 of the member's 2 rank(s) here"
    )


def test_a_sampler_that_is_stopped_while_a_driver_hangs_does_not_keep_the_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.train.usage_log.JOIN_TIMEOUT_S", 0.2)
    released = threading.Event()

    def hangs() -> Watched:
        released.wait(30)
        return Watched((0,), ())

    sampling = sampler(tmp_path / "usage-0.jsonl", watched=hangs)
    sampling.start()
    began_s = time.monotonic()
    sampling.stop()
    assert time.monotonic() - began_s < 5
    released.set()


RANKS = tuple(Rank(rank, f"node{rank // 2}", rank % 2, (rank % 2,), None) for rank in range(4))


def record_of(folder: Path, usage_seconds: float) -> JobRecord:
    """A member of two nodes with two ranks each."""
    group = NodeGroup(names=("node0", "node1"), count=2, slots=(Slot(cores=(0,)), Slot(cores=(1,))))
    config = planned_config(measure={"usage_seconds": usage_seconds})
    return JobRecord(RunFolder(folder), config, Site(name="test", groups=(group,)), Job(0, 0, RANKS))


@pytest.mark.parametrize(("rank", "file"), [(0, "usage-0.jsonl"), (1, None), (2, "usage-1.jsonl"), (3, None)])
def test_the_first_rank_of_each_node_samples_it(tmp_path: Path, rank: int, file: str | None) -> None:
    record = record_of(tmp_path, usage_seconds=0.05)
    attempt = record.folder.attempt(0, 1)
    stop = sample_usage(record, RANKS[rank], attempt)
    time.sleep(0.2)
    stop()
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ([file] if file else [])
    if file:
        start, *samples = read_events(attempt.events / file)[0]
        assert isinstance(start, UsageStart)
        assert (start.node, start.ranks) == (f"node{rank // 2}", [rank, rank + 1])
        assert samples


def test_a_period_of_zero_switches_sampling_off(tmp_path: Path) -> None:
    threads = threading.active_count()
    stop = sample_usage(record_of(tmp_path, usage_seconds=0), RANKS[0], RunFolder(tmp_path).attempt(0, 1))
    assert threading.active_count() == threads
    stop()
    assert list(tmp_path.iterdir()) == []


def test_cores_processes_and_accelerators_are_those_that_the_ranks_told(tmp_path: Path) -> None:
    attempt = RunFolder(tmp_path).attempt(0, 1)
    affinity = Affinity(cores_asked="0-1", cores_allowed="4-5", threads_asked=2, threads_running=2, verified=False)
    EventLog(attempt.rank_events(0)).write(RankStarted(affinity=affinity, pid=77, device_uuid="GPU-1"))
    # Rank 1 has told nothing yet: its planned core is all that is known.
    assert watched_of(list(RANKS[:2]), attempt) == Watched((1, 4, 5), (77,), ("GPU-1",))
