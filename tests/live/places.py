"""Where scripts/install-test-services has put what images are made of."""

from __future__ import annotations

from tests.conftest import TEST_CACHE

DEBIAN_ROOT = TEST_CACHE / "bookworm"
DEBIAN_ARCHIVE = TEST_CACHE / "bookworm.tar"
BARE_ROOT = TEST_CACHE / "bare"
BARE_ARCHIVE = TEST_CACHE / "bare.tar"
