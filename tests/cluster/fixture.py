"""What tests do where no cluster can run."""

import os

import pytest

from tests.cluster.requirements import find_missing


def require_cluster(*programs: str) -> None:
    """Skips the test where no cluster can run, or fails it where TRAINMARK_REQUIRE_CLUSTER=1 says that one must."""
    missing = find_missing(*programs)
    if missing and os.environ.get("TRAINMARK_REQUIRE_CLUSTER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
