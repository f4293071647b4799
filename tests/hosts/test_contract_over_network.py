"""The contract of pools over a network: what it asks for holds however busy the machine is."""

import re
from pathlib import Path

import pytest
from hosts import SEEN, ran, why_not

REASON = why_not()


@pytest.mark.skipif(REASON is not None, reason=REASON or "")
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes: Ray starts the workers of forty tests
def test_the_contract_holds_over_the_network(tmp_path: Path) -> None:
    """Switches, resizes, kills and bundles of several sizes are in it. Files that its tests share with workers are
    where both machines find them."""
    suite = ("-m", "pytest", "-q", "-k", "ray", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'shared'}")
    printed = ran(*suite, "tests/contract", patience_s=880)
    assert re.search(r"\d\d passed", printed), printed[-2000:]
    assert int(printed.rpartition(SEEN)[2]) > 1_000_000
