"""The node's network: addresses, and traffic by interface and socket from the kernel's counters."""

import os
import socket
import stat
import struct
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

import psutil

from trainmark.spec.errors import PlanError

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    """An IPv4 address of this node and its interface."""

    address: str
    interface: str


def address_within_node() -> Address:
    """Returns the loopback address for processes of this node, without a name lookup, which can take seconds."""
    found = next((each for each in _addresses() if each.address == LOOPBACK), None)
    return found or Address(LOOPBACK, "lo")


def address_for_other_nodes(interface: str | None) -> Address:
    """Returns the address of the given interface, else the one that the hostname resolves to."""
    addresses = [each for each in _addresses() if not each.address.startswith("127.")]
    if interface is not None:
        return _of_interface(addresses, interface)
    known = {each.address: each for each in addresses}
    try:
        named = socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        named = []
    # Many hosts map their name to 127.0.1.1 in /etc/hosts, which is unreachable from other nodes.
    found = next((known[address] for address in named if address in known), next(iter(addresses), None))
    if found is None:
        raise PlanError(
            f"{socket.gethostname()} has no network interface that other nodes can reach. "
            "Set groups.network_interface in the site file, or plan members within one node."
        )
    return found


def node_addresses() -> frozenset[str]:
    """Returns every IP address of this node."""
    internet = (socket.AF_INET, socket.AF_INET6)
    found = (entry for entries in psutil.net_if_addrs().values() for entry in entries if entry.family in internet)
    return frozenset(canonical_address(entry.address) for entry in found)


def _of_interface(addresses: list[Address], interface: str) -> Address:
    found = next((each for each in addresses if each.interface == interface), None)
    if found is None:
        known = ", ".join(f"{each.interface} ({each.address})" for each in addresses) or "none"
        raise PlanError(
            f"{socket.gethostname()} has no IPv4 address on '{interface}', the site's groups.network_interface. "
            f"It has: {known}."
        )
    return found


def _addresses() -> list[Address]:
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return [
        Address(entry.address, name)
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and name in up
    ]


INTERFACES = Path("/sys/class/net")
INFINIBAND = Path("/sys/class/infiniband")
COUNTERS = Path("/proc/self/net/dev")  # of this process's network namespace
LOOPBACK_TYPE, INFINIBAND_TYPE = "772", "32"  # ARPHRD_LOOPBACK and ARPHRD_INFINIBAND of linux/if_arp.h
PORT_UNIT_BYTES = 4  # ports count data in 32-bit words (InfiniBand specification, PortCounters)


class NetworkBytes(NamedTuple):
    """Bytes through one interface, since it came up or between two readings."""

    received: int
    sent: int


class Interfaces(NamedTuple):
    """Names of loopback and external interfaces; InfiniBand ports with their counters."""

    loopback: tuple[str, ...]
    external: tuple[str, ...]
    ports: Mapping[str, Path]

    @property
    def names(self) -> list[str]:
        """All external interfaces."""
        return [*self.external, *self.ports]


def find_interfaces(root: Path = INTERFACES, infiniband: Path = INFINIBAND, counters: Path = COUNTERS) -> Interfaces:
    """Returns the interfaces to count: bridges, bonds and tunnels repeat the traffic of physical ones.

    Without physical ones, as in a container, all count. IP over InfiniBand is included in the ports' counters.
    """
    names = parse_interfaces(counters.read_text())
    types = {name: _read(root / name / "type") for name in names}
    others = [name for name, kind in types.items() if kind != LOOPBACK_TYPE]
    external = [name for name in others if (root / name / "device").exists()] or others
    ports = _find_ports(infiniband)
    if ports:
        external = [name for name in external if types[name] != INFINIBAND_TYPE]
    return Interfaces(tuple(name for name in names if name not in others), tuple(external), ports)


def _find_ports(root: Path) -> dict[str, Path]:
    """Returns the counter folders of InfiniBand ports by names such as `mlx5_0/1`."""
    found = {f"{path.parents[2].name}/{path.parent.name}": path for path in sorted(root.glob("*/ports/*/counters"))}
    return {name: path for name, path in found.items() if (path / "port_rcv_data").exists()}


def parse_interfaces(text: str, wanted: Collection[str] | None = None) -> dict[str, NetworkBytes]:
    """Returns the bytes through each interface, or each of `wanted`, from the text of /proc/net/dev."""
    found = {}
    for line in text.splitlines()[2:]:  # after two header lines
        name, _, counts = line.partition(":")
        if wanted is None or name.strip() in wanted:
            fields = counts.split()  # bytes received are the first, bytes sent the ninth
            found[name.strip()] = NetworkBytes(int(fields[0]), int(fields[8]))
    return found


def read_moved(interfaces: Interfaces, counters: Path = COUNTERS) -> dict[str, NetworkBytes]:
    """Reads the bytes through each interface so far, without those that have disappeared."""
    with counters.open() as file:
        moved = parse_interfaces(file.read(), (*interfaces.loopback, *interfaces.external))
    for name, path in interfaces.ports.items():
        words = [int((path / f"port_{way}_data").read_text()) for way in ("rcv", "xmit")]
        moved[name] = NetworkBytes(*(PORT_UNIT_BYTES * count for count in words))
    return moved


def moved_between(before: dict[str, NetworkBytes], after: dict[str, NetworkBytes]) -> dict[str, NetworkBytes]:
    """Returns the bytes through each interface between two readings, without those added, removed or reset."""
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


OPEN_FILES = Path("/proc/self/fd")

# struct tcp_info of linux/tcp.h: 8 one-byte fields, 24 of four bytes, 96 bytes of later ones, then
# tcpi_bytes_sent and tcpi_bytes_retrans (Linux 4.19).
SENT_AND_RESENT = struct.Struct("=200xQQ")


class SentBytes(NamedTuple):
    """Bytes to processes of this node, and to those of other nodes."""

    intra_node: int
    inter_node: int

    @property
    def total(self) -> int:
        """Bytes to all peers."""
        return self.intra_node + self.inter_node

    def since(self, before: "SentBytes") -> "SentBytes":
        """Bytes since an earlier reading."""
        return SentBytes(self.intra_node - before.intra_node, self.inter_node - before.inter_node)


def tcp_bytes_sent() -> int | None:
    """Returns the payload bytes sent through this process's open TCP sockets, without retransmits; None: unknown."""
    sent = tcp_bytes_sent_by_locality(frozenset())
    return None if sent is None else sent.total


def tcp_bytes_sent_by_locality(node_addresses: frozenset[str]) -> SentBytes | None:
    """The same, split by whether the peer has one of this node's `node_addresses`, or a loopback one.

    A closed socket takes its counter with it, so take differences over periods in which none is closed.
    """
    try:
        descriptors = [int(entry.name) for entry in OPEN_FILES.iterdir()]
    except OSError:
        return None
    intra_node = inter_node = 0
    for descriptor in descriptors:
        found = _sent_by(descriptor)
        if found is None:
            return None
        count, peer = found
        if peer in node_addresses or is_loopback(peer):
            intra_node += count
        else:
            inter_node += count
    return SentBytes(intra_node, inter_node)


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address; False for none ("")."""
    return bool(address) and ip_address(address).is_loopback


def canonical_address(address: str) -> str:
    """Returns an IP address in canonical form: without scope, and IPv4-mapped IPv6 as IPv4."""
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def _sent_by(descriptor: int) -> tuple[int, str] | None:
    """Returns bytes sent and peer of a descriptor: 0 if it is no connected TCP socket, None if the kernel lacks it."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return 0, ""
        # A duplicate, so that closing it leaves the owner's descriptor open.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
                return 0, ""
            info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SENT_AND_RESENT.size)
            if len(info) < SENT_AND_RESENT.size:
                return None
            peer = canonical_address(copy.getpeername()[0])
    except OSError:  # closed since it was listed, or not connected
        return 0, ""
    sent, resent = SENT_AND_RESENT.unpack(info)
    return int(sent) - int(resent), peer
