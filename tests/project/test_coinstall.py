"""The extra ``judges`` decides no version of other tools. Asks the package index, so it runs by name only."""

import shutil
import urllib.error
import urllib.request

import pytest

from tools.coinstall import TOOLS, try_coinstall

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")]


@pytest.fixture(scope="module", autouse=True)
def _index():
    try:
        urllib.request.urlopen("https://pypi.org/simple/litellm/", timeout=20).close()
    except urllib.error.HTTPError:
        pass
    except OSError:
        pytest.skip("needs the package index")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_keeps_its_version_beside_the_judges(tool):
    found = try_coinstall(tool, "3.12")
    assert found.fits, found.reason
    assert not found.moved
