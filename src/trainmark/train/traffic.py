"""Traffic: the bytes that a rank sends during training, intra-node and inter-node, as counted by the kernel."""

from trainmark.machine.network import SentBytes, node_addresses, tcp_bytes_sent_by_locality
from trainmark.spec.events import EpochFacts

NOT_COUNTED = "this kernel does not count bytes per socket"


class Traffic:
    """Counts between `start` and `stop` only."""

    def __init__(self, why_uncounted: str | None) -> None:
        self._reason = why_uncounted
        self._addresses = frozenset[str]() if self._reason else node_addresses()
        self._begin: SentBytes | None = None
        self._sent = SentBytes(0, 0)

    def start(self) -> None:
        """Starts counting."""
        self._begin = self._count()

    def stop(self) -> None:
        """Stops counting."""
        end = self._count()
        if self._begin is not None and end is not None:
            more = end.since(self._begin)
            self._sent = SentBytes(self._sent.intra_node + more.intra_node, self._sent.inter_node + more.inter_node)

    def take(self) -> EpochFacts:
        """Bytes since the last call, as fields of an epoch's event; None with a reason if they cannot be counted."""
        sent, self._sent = self._sent, SentBytes(0, 0)
        if self._reason:
            return {"sent_bytes": None, "sent_reason": self._reason}
        return {
            "sent_bytes": sent.total,
            "sent_intra_node_bytes": sent.intra_node,
            "sent_inter_node_bytes": sent.inter_node,
        }

    def _count(self) -> SentBytes | None:
        if self._reason:
            return None
        count = tcp_bytes_sent_by_locality(self._addresses)
        if count is None:
            self._reason = NOT_COUNTED
        return count
