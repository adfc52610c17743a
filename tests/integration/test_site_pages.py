"""Every page of the documents' site in a headless Chromium, as wide as a phone and as a desk: nothing sticks out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.browser import Page, chromium
from tests.unit.suite.test_site import build

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PHONE, DESK = 390, 1280
TOO_WIDE = """(() => {
  const wide = window.WIDTH, page = document.scrollingElement.scrollWidth;
  const out = [...document.querySelectorAll('.md-content *')].filter(e => e.getBoundingClientRect().right > wide + 1)
    .filter(e => !e.closest('.md-typeset__scrollwrap, pre')).map(e => e.outerHTML.slice(0, 100));
  return page > wide ? [page, ...out.slice(0, 3)] : [];
})()"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def root(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(28_390, tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(page: Page, address: str, width: int) -> None:
    """Open a page in a window of so many pixels, and wait until it is drawn."""
    page.send("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width == PHONE)
    page.open(address)
    deadline = time.monotonic() + 30
    while not page.value(f"location.href === '{address}' && document.readyState === 'complete'"):
        assert time.monotonic() < deadline, address
        time.sleep(0.01)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_no_page_is_wider_than_the_window_or_complains(site: Path, root: str, page: Page, width: int) -> None:
    pages = sorted(str(file.relative_to(site)) for file in site.rglob("*.html"))
    assert len(pages) > 100
    page.listen()
    wide = {}
    for name in pages:
        show(page, f"{root}/{name}", width)
        if found := page.value(TOO_WIDE.replace("window.WIDTH", str(width))):
            wide[name] = found
    assert wide == {}
    assert page.complaints == []


def test_the_search_finds_a_page_without_a_server(site: Path, page: Page) -> None:
    show(page, f"{(site / 'index.html').as_uri()}?q=superfluous+quarantine", DESK)
    found = page.text(".md-search-result__list a", within_s=60)
    assert "uarantine" in found
