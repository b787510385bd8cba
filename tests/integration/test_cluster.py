"""The test cluster itself: four nodes that run jobs and fail as real ones do."""

from tests.cluster import Cluster


def test_all_four_nodes_run_a_task_under_their_own_names(cluster: Cluster) -> None:
    assert sorted(cluster.run("srun", "-N4", "hostname").split()) == ["n1", "n2", "n3", "n4"]
