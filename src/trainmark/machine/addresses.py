"""The address at which other nodes reach this one, and the network interface that has it."""

import socket
from typing import NamedTuple

import psutil

from trainmark.machine.sockets import plain_address
from trainmark.spec.errors import PlanError

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    """An IPv4 address of this node and its interface."""

    address: str
    interface: str


def address_within_node() -> Address:
    """Where processes of this node reach each other; found without looking up any name, which can take seconds."""
    found = next((each for each in _addresses() if each.address == LOOPBACK), None)
    return found or Address(LOOPBACK, "lo")


def address_for_other_nodes(interface: str | None) -> Address:
    """The address of the named interface; else the one that this host's own name stands for."""
    addresses = [each for each in _addresses() if not each.address.startswith("127.")]
    if interface is not None:
        return _of_interface(addresses, interface)
    known = {each.address: each for each in addresses}
    try:
        named = socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        named = []
    # Many hosts call themselves 127.0.1.1 in /etc/hosts, which no other node can reach.
    found = next((known[address] for address in named if address in known), next(iter(addresses), None))
    if found is None:
        raise PlanError(
            f"{socket.gethostname()} has no network interface that other nodes could reach. "
            "Name one as groups.network_interface in the site file, or plan members within one node."
        )
    return found


def own_addresses() -> frozenset[str]:
    """Every IP address of this node: who has one of them is on this node."""
    internet = (socket.AF_INET, socket.AF_INET6)
    found = (entry for entries in psutil.net_if_addrs().values() for entry in entries if entry.family in internet)
    return frozenset(plain_address(entry.address) for entry in found)


def _of_interface(addresses: list[Address], interface: str) -> Address:
    found = next((each for each in addresses if each.interface == interface), None)
    if found is None:
        known = ", ".join(f"{each.interface} ({each.address})" for each in addresses) or "none"
        raise PlanError(
            f"{socket.gethostname()} has no IPv4 address on '{interface}', which the site file names as "
            f"groups.network_interface. It has: {known}."
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
