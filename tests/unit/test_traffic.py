"""Bytes within a node and between nodes, told apart on real sockets: loopback, own addresses, another network."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trainmark.machine.network import (
    SentBytes,
    address_for_other_nodes,
    canonical_address,
    node_addresses,
    tcp_bytes_sent,
    tcp_bytes_sent_by_locality,
)
from trainmark.spec.errors import PlanError
from trainmark.train.torch.process_group import why_bytes_uncounted
from trainmark.train.traffic import Traffic

COUNT = 300_001

needs_count = pytest.mark.skipif(tcp_bytes_sent() is None, reason="this kernel does not count bytes per socket")

# A server in a network of its own: says that it is there, waits for its cable, takes what comes and says so.
SERVER = """
import socket, subprocess, sys
address, device, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("up", flush=True)
sys.stdin.readline()
for words in (["address", "add", address + "/30", "dev", device], ["link", "set", device, "up"]):
    subprocess.run(["ip", *words], check=True)
with socket.create_server((address, 0)) as server:
    print(server.getsockname()[1], flush=True)
    accepted, _ = server.accept()
    while count:
        count -= len(accepted.recv(1 << 20))
    print("all here", flush=True)
    sys.stdin.readline()
"""


def counted() -> SentBytes:
    sent = tcp_bytes_sent_by_locality(node_addresses())
    assert sent is not None
    return sent


def sent_to(address: str) -> SentBytes:
    """What is counted when COUNT bytes go to a server of this process at an address."""
    with socket.create_server((address, 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            before = counted()
            sending = threading.Thread(target=client.sendall, args=(bytes(COUNT),))
            sending.start()
            left = COUNT
            while left:
                left -= len(accepted.recv(1 << 20))
            sending.join()
            return counted().since(before)


@needs_count
def test_bytes_to_a_loopback_address_stay_within_the_node() -> None:
    assert sent_to("127.0.0.1") == SentBytes(COUNT, 0)
    assert sent_to("127.0.0.7") == SentBytes(COUNT, 0)  # no interface names it, but all of 127.0.0.0/8 loops back


@needs_count
def test_bytes_to_an_own_address_stay_within_the_node() -> None:
    try:
        address = address_for_other_nodes(None).address
    except PlanError:
        pytest.skip("this machine has a loopback address only")
    assert sent_to(address) == SentBytes(COUNT, 0)


@contextmanager
def another_network() -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A server behind a cable: its process, address and port."""
    device, inside = f"tmu{os.getpid()}", f"tmv{os.getpid()}"
    # 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544).
    here, there = (f"198.19.{os.getpid() % 256}.{4 * (os.getpid() // 256 % 64) + host}" for host in (1, 2))
    command = ["unshare", "--net", sys.executable, "-c", SERVER, there, inside, str(COUNT)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None and server.stdout is not None
    try:
        assert server.stdout.readline() == "up\n"
        for words in (
            ["link", "add", device, "type", "veth", "peer", "name", inside, "netns", str(server.pid)],
            ["address", "add", f"{here}/30", "dev", device],
            ["link", "set", device, "up"],
        ):
            subprocess.run(["ip", *words], check=True)
        server.stdin.write("plugged\n")
        server.stdin.flush()
        yield server, there, int(server.stdout.readline())
    finally:
        server.kill()  # its network ends with it, and so does the cable
        server.communicate()


@needs_count
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"),
    reason="a second network needs root, ip and unshare",
)
def test_bytes_to_another_network_leave_the_node() -> None:
    with another_network() as (server, address, port):
        assert server.stdin is not None and server.stdout is not None
        with socket.create_connection((address, port)) as client:
            before = counted()
            client.sendall(bytes(COUNT))
            assert server.stdout.readline() == "all here\n"
            assert counted().since(before) == SentBytes(0, COUNT)


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),  # an IPv4 peer of a socket that speaks both
        ("fe80::1%eth0", "fe80::1"),
        ("fd00:0:0::2", "fd00::2"),
    ],
)
def test_an_address_has_one_spelling(told: str, plain: str) -> None:
    assert canonical_address(told) == plain


def test_a_process_without_a_group_says_why_it_sees_no_bytes() -> None:
    traffic = Traffic(why_bytes_uncounted())
    traffic.start()
    traffic.stop()
    assert traffic.take() == {"sent_bytes": None, "sent_reason": "a single worker sends nothing"}
