"""The OpenAPI document against the application, by schemathesis, in a process of its own: to import it and to make its
cases takes eleven seconds of CPU, and each process of pytest would collect them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("api_cases.py")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", [1, pytest.param(30, marks=pytest.mark.long)])
def test_no_generated_request_is_answered_against_the_document(examples: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    env = {**os.environ, "CASES": str(examples)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
