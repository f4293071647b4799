"""A folder as a source: what its sentences hide."""

from __future__ import annotations

import pytest

from apps.input.folder import FolderFeed
from compositions.errors import RecomposeError


@pytest.mark.parametrize("url", ["foo://KEY:S3CRET@bucket", "s3://KEY:S3/CRET@bucket"])
def test_keys_of_an_object_store_are_in_no_sentence(url: str) -> None:
    with pytest.raises(RecomposeError, match="cannot be read") as refused:
        FolderFeed(url, endless=False)
    assert "bucket" in str(refused.value)
    assert "KEY" not in str(refused.value)
    assert "CRET" not in str(refused.value)
