"""Fixtures of the tests that need a real control plane."""

import pytest

from tests.kubernetes.session import RealCluster, real_cluster


@pytest.fixture(scope="session")
def cluster_under_test(pytestconfig: pytest.Config) -> RealCluster:
    return real_cluster(pytestconfig)
