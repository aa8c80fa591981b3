"""Fixtures that every test may use."""

from tests.examples import use_profile

use_profile()
