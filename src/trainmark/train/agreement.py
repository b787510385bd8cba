"""What the ranks of a member agree on, by what they leave in a store that they share."""

from collections.abc import Callable
from typing import Protocol


class Store(Protocol):
    """A key-value store, as torch's TCPStore is; `get` waits until the key is there."""

    def add(self, key: str, amount: int, /) -> int: ...

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes: ...

    def check(self, keys: list[str], /) -> bool: ...


def word_of_first(store: Store | None, rank: int, key: str, say: Callable[[], str]) -> str:
    """What rank 0 says; the other ranks wait for it."""
    if store is None:
        return say()
    if rank == 0:
        store.set(key, say())
    return store.get(key).decode()


def gather(store: Store | None, rank: int, workers: int, key: str, own: str) -> list[str]:
    """What each rank brings under a key that is used once, on all ranks; they carry no tabs."""
    if store is None:
        return [own]
    if rank > 0:
        store.set(f"{key}/{rank}", own)
    # Through rank 0, so that P ranks ask 2 P questions, not P².
    others = (store.get(f"{key}/{other}").decode() for other in range(1, workers))
    return word_of_first(store, rank, key, lambda: "\t".join([own, *others])).split("\t")
