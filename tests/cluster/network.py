"""The cluster's network: a bridge on this machine and a veth pair to each node."""

import json
import subprocess
from collections.abc import Mapping, Sequence


def ip_batch(lines: Sequence[str]) -> None:
    """Runs several `ip` commands in one process; raises at the first failure."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ip failed: {done.stderr.strip()} in {list(lines)}")


def create(bridge: str, address: str) -> None:
    """Creates the bridge, with this machine's address in the cluster's network."""
    ip_batch([f"link add {bridge} type bridge", f"address add {address}/24 dev {bridge}", f"link set {bridge} up"])


def plug(bridge: str, links: Mapping[str, int]) -> None:
    """Connects the bridge to each process's network namespace by a veth pair: `eth0` there, the named device here."""
    ip_batch(
        [
            line
            for link, pid in links.items()
            for line in (f"link add {link} type veth peer name eth0 netns {pid}", f"link set {link} master {bridge} up")
        ]
    )


def unplug(link: str) -> None:
    """Removes a link, if it exists."""
    subprocess.run(["ip", "link", "delete", link], capture_output=True)


def set_carrier(link: str, up: bool) -> None:
    """Sets a link up or down: packets are dropped, connections stay open."""
    ip_batch([f"link set {link} {'up' if up else 'down'}"])


def remove(bridge: str) -> None:
    """Removes the bridge and its links, if they exist."""
    listed = subprocess.run(["ip", "-json", "link", "show", "master", bridge], capture_output=True, text=True)
    if listed.returncode == 0:
        for device in json.loads(listed.stdout or "[]"):
            unplug(device["ifname"])
        unplug(bridge)


def limit_command(device: str, megabits_per_s: float) -> list[str]:
    """Returns the command that limits a device's rate by a token bucket."""
    # The bucket has 4 ms of traffic, at least one TCP segment of 64 KiB; the queue 50 ms.
    burst_bytes = max(65_536, int(megabits_per_s * 1e6 / 8 * 0.004))
    bucket = ["tbf", "rate", f"{megabits_per_s}mbit", "burst", str(burst_bytes), "latency", "50ms"]
    return ["tc", "qdisc", "replace", "dev", device, "root", *bucket]


def lift_command(device: str) -> list[str]:
    """Returns the command that removes a device's limit."""
    return ["tc", "qdisc", "delete", "dev", device, "root"]
