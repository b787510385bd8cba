"""What this process has sent over TCP, within its node and to others, as the kernel counted it."""

import os
import socket
import stat
import struct
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

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
        """What was added since an earlier count."""
        return SentBytes(self.intra_node - before.intra_node, self.inter_node - before.inter_node)


def tcp_bytes_sent() -> int | None:
    """Bytes that the open TCP sockets of this process have sent, without headers and repeats; None: not available."""
    sent = tcp_bytes_sent_by_reach(frozenset())
    return None if sent is None else sent.total


def tcp_bytes_sent_by_reach(own_addresses: frozenset[str]) -> SentBytes | None:
    """The same, split by whether the peer has one of this node's `own_addresses`, or a loopback one.

    A socket that is closed takes its count with it, so differences are taken over a time in which none is closed.
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
        if peer in own_addresses or is_loopback(peer):
            intra_node += count
        else:
            inter_node += count
    return SentBytes(intra_node, inter_node)


def is_loopback(address: str) -> bool:
    """Whether an address never leaves the node; none at all ("") does not."""
    return bool(address) and ip_address(address).is_loopback


def plain_address(address: str) -> str:
    """An IP address in one spelling: without the interface it is valid on, and IPv4 as such inside IPv6 as well."""
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def _sent_by(descriptor: int) -> tuple[int, str] | None:
    """Count and peer of one open file: 0 for what is no connected TCP socket, None where the kernel cannot count."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return 0, ""
        # A copy of the descriptor, so that closing it leaves the owner's open.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
                return 0, ""
            info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SENT_AND_RESENT.size)
            if len(info) < SENT_AND_RESENT.size:
                return None
            peer = plain_address(copy.getpeername()[0])
    except OSError:  # closed since it was listed, or not connected: it listens, or the peer is gone
        return 0, ""
    sent, resent = SENT_AND_RESENT.unpack(info)
    return int(sent) - int(resent), peer
