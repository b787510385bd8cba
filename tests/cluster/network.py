"""The cluster's network: a bridge on this machine and a cable (a pair of virtual devices) to each node."""

import json
import subprocess
from collections.abc import Mapping, Sequence


def ip_batch(lines: Sequence[str]) -> None:
    """Runs several `ip` commands in one process, in order; raises at the first that fails."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ip failed: {done.stderr.strip()} in {list(lines)}")


def create(bridge: str, address: str) -> None:
    """Makes the bridge, with this machine's address in the cluster's network."""
    ip_batch([f"link add {bridge} type bridge", f"address add {address}/24 dev {bridge}", f"link set {bridge} up"])


def plug(bridge: str, links: Mapping[str, int]) -> None:
    """Lays a cable from the bridge to the network of each process: `eth0` there, the named device here."""
    ip_batch(
        [
            line
            for link, pid in links.items()
            for line in (f"link add {link} type veth peer name eth0 netns {pid}", f"link set {link} master {bridge} up")
        ]
    )


def unplug(link: str) -> None:
    """Removes a cable, if there is one."""
    subprocess.run(["ip", "link", "delete", link], capture_output=True)


def set_carrier(link: str, up: bool) -> None:
    """Cuts or mends a cable: packets are lost, connections are not told."""
    ip_batch([f"link set {link} {'up' if up else 'down'}"])


def remove(bridge: str) -> None:
    """Removes the bridge and its cables, if there are any."""
    listed = subprocess.run(["ip", "-json", "link", "show", "master", bridge], capture_output=True, text=True)
    if listed.returncode == 0:
        for device in json.loads(listed.stdout or "[]"):
            unplug(device["ifname"])
        unplug(bridge)


def limit_command(device: str, megabits_per_s: float) -> list[str]:
    """The command that lets a device send at no more than a rate (a token bucket)."""
    # The bucket holds 4 ms of traffic, at least one unsplit TCP segment of 64 KiB; the queue 50 ms.
    burst_bytes = max(65_536, int(megabits_per_s * 1e6 / 8 * 0.004))
    bucket = ["tbf", "rate", f"{megabits_per_s}mbit", "burst", str(burst_bytes), "latency", "50ms"]
    return ["tc", "qdisc", "replace", "dev", device, "root", *bucket]


def lift_command(device: str) -> list[str]:
    """The command that takes a device's limit away."""
    return ["tc", "qdisc", "delete", "dev", device, "root"]
