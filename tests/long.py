"""Tests that take minutes of real processes on two cores: `make long` and a job of the workflow run them."""

from __future__ import annotations

import os

import pytest

long = pytest.mark.skipif(not os.environ.get("HCSFED_LONG"), reason="takes minutes: make long")
