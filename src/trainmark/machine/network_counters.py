"""What went through the network interfaces of this node, InfiniBand ports included, as the kernel counts it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

INTERFACES = Path("/sys/class/net")
INFINIBAND = Path("/sys/class/infiniband")
COUNTERS = Path("/proc/self/net/dev")  # of the network that this process lives in
LOOPBACK_TYPE, INFINIBAND_TYPE = "772", "32"  # ARPHRD_LOOPBACK and ARPHRD_INFINIBAND of linux/if_arp.h
PORT_UNIT_BYTES = 4  # ports count data in 32-bit words (InfiniBand specification, PortCounters)


class NetworkBytes(NamedTuple):
    """Bytes of one interface, since it came up or between two counts."""

    received: int
    sent: int


class Interfaces(NamedTuple):
    """Names of the loopback interface and of those by which the node is left; InfiniBand ports and their counters."""

    loopback: tuple[str, ...]
    leaving: tuple[str, ...]
    ports: Mapping[str, Path]

    @property
    def names(self) -> list[str]:
        """All by which the node is left."""
        return [*self.leaving, *self.ports]


def find_interfaces(root: Path = INTERFACES, infiniband: Path = INFINIBAND, counters: Path = COUNTERS) -> Interfaces:
    """What is worth counting: bridges, bonds and tunnels repeat what real interfaces move.

    Where there are no real ones, as in a container, all are taken. IP over InfiniBand is inside the ports' counts.
    """
    names = parse_interfaces(counters.read_text())
    types = {name: _read(root / name / "type") for name in names}
    others = [name for name, kind in types.items() if kind != LOOPBACK_TYPE]
    leaving = [name for name in others if (root / name / "device").exists()] or others
    ports = _find_ports(infiniband)
    if ports:
        leaving = [name for name in leaving if types[name] != INFINIBAND_TYPE]
    return Interfaces(tuple(name for name in names if name not in others), tuple(leaving), ports)


def _find_ports(root: Path) -> dict[str, Path]:
    """The folders of counters of the InfiniBand ports, by names such as `mlx5_0/1`; none where there are none."""
    found = {f"{path.parents[2].name}/{path.parent.name}": path for path in sorted(root.glob("*/ports/*/counters"))}
    return {name: path for name, path in found.items() if (path / "port_rcv_data").exists()}


def parse_interfaces(text: str, wanted: Collection[str] | None = None) -> dict[str, NetworkBytes]:
    """What the interfaces have moved, from the text of /proc/net/dev; of all, or of the `wanted` ones."""
    found = {}
    for line in text.splitlines()[2:]:  # two lines of headings
        name, _, counts = line.partition(":")
        if wanted is None or name.strip() in wanted:
            fields = counts.split()  # bytes received are the first, bytes sent the ninth
            found[name.strip()] = NetworkBytes(int(fields[0]), int(fields[8]))
    return found


def read_moved(interfaces: Interfaces, counters: Path = COUNTERS) -> dict[str, NetworkBytes]:
    """What each interface has moved until now; one that is gone is left out."""
    with counters.open() as file:
        moved = parse_interfaces(file.read(), (*interfaces.loopback, *interfaces.leaving))
    for name, path in interfaces.ports.items():
        words = [int((path / f"port_{way}_data").read_text()) for way in ("rcv", "xmit")]
        moved[name] = NetworkBytes(*(PORT_UNIT_BYTES * count for count in words))
    return moved


def moved_between(before: dict[str, NetworkBytes], after: dict[str, NetworkBytes]) -> dict[str, NetworkBytes]:
    """What each interface moved between two counts; one that came, went or was reset in between is left out."""
    moved = {
        name: NetworkBytes(after[name].received - before[name].received, after[name].sent - before[name].sent)
        for name in after
        if name in before
    }
    return {name: count for name, count in moved.items() if min(count) >= 0}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
