"""A cache folder of their own for these tests."""

import pytest

from heavytop.compile import loader as code


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEAVYTOP_CACHE", str(folder))
        patch.delenv("HEAVYTOP_NATIVE", raising=False)
        yield folder


@pytest.fixture
def fresh_warnings():
    """Forget which warnings were given."""
    code.warn_interpreted.cache_clear()
    yield
    code.warn_interpreted.cache_clear()
