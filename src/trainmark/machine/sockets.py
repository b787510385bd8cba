"""What this process has sent over TCP, as the kernel counted it."""

import os
import socket
import stat
import struct
from pathlib import Path

OPEN_FILES = Path("/proc/self/fd")

# struct tcp_info of linux/tcp.h: 8 one-byte fields, 24 of four bytes, 96 bytes of later ones, then
# tcpi_bytes_sent and tcpi_bytes_retrans (Linux 4.19).
SENT_AND_RESENT = struct.Struct("=200xQQ")


def tcp_bytes_sent() -> int | None:
    """Bytes that the open TCP sockets of this process have sent, without headers and repeats; None: not told.

    A socket that is closed takes its count with it, so differences are taken over a time in which none is closed.
    """
    try:
        descriptors = [int(entry.name) for entry in OPEN_FILES.iterdir()]
    except OSError:
        return None
    counts = [_sent_by(descriptor) for descriptor in descriptors]
    return None if None in counts else sum(count for count in counts if count is not None)


def _sent_by(descriptor: int) -> int | None:
    """The count of one open file: 0 for what is no TCP socket, None where the kernel is too old to count."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return 0
        # A copy of the descriptor, so that closing it leaves the owner's open.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
                return 0
            info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SENT_AND_RESENT.size)
    except OSError:  # closed since it was listed
        return 0
    if len(info) < SENT_AND_RESENT.size:
        return None
    sent, resent = SENT_AND_RESENT.unpack(info)
    return int(sent) - int(resent)
