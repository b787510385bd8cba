"""A real Slurm cluster of several nodes on one Linux machine; see docs/development/test-cluster.md."""

from tests.cluster.cluster import Cluster

__all__ = ["Cluster"]
