"""Broadcast and all-gather of short strings over the key-value store that the ranks of a member share."""

from collections.abc import Callable
from typing import Protocol


class Store(Protocol):
    """A key-value store, such as torch's TCPStore; `get` blocks until the key is set."""

    def add(self, key: str, amount: int, /) -> int: ...

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes: ...

    def check(self, keys: list[str], /) -> bool: ...


def broadcast(store: Store | None, rank: int, key: str, compute: Callable[[], str]) -> str:
    """Returns what rank 0 computes; the other ranks wait for it."""
    if store is None:
        return compute()
    if rank == 0:
        store.set(key, compute())
    return store.get(key).decode()


def all_gather(store: Store | None, rank: int, workers: int, key: str, value: str) -> list[str]:
    """Returns every rank's value, on all ranks; a key is used once, and values contain no tabs."""
    if store is None:
        return [value]
    if rank > 0:
        store.set(f"{key}/{rank}", value)
    # Through rank 0: P ranks make 2 P requests, not P².
    others = (store.get(f"{key}/{other}").decode() for other in range(1, workers))
    return broadcast(store, rank, key, lambda: "\t".join([value, *others])).split("\t")
