"""Apps reach nothing: every way out is tried in a real browser, with listeners on loopback."""

import http.server
import selectors
import socket
import threading
import time
from contextlib import suppress

import pytest

from support.app_attacks import ATTACKS, NAVIGATIONS, attack_page
from tiltyard.web.pages.layout import PAGE_POLICY
from tiltyard.web.texts.app_sandbox import APP_HEADERS, sandboxed_app

#: Frames of one page.
AT_ONCE = 8
#: The policy alone, which is what an app had before; and what it lets through at least.
POLICY = {
    "Content-Security-Policy": (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}
LET_THROUGH = {"own", "old name", "frame with a document", "frame in a shadow", "announced connection"}
WITHOUT_ALLOWLIST = {name: value for name, value in APP_HEADERS.items() if name != "Connection-Allowlist"}
HONEST = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>honest</title>
<link rel="preconnect" href="https://fonts.example"><link href="https://fonts.example/css" rel="stylesheet">
<style>body > main { color: rgb(1, 2, 3) }</style></head><body><main id="main"></main>
<iframe src="https://video.example/">no video</iframe><a id="link" href="javascript:void(0)" onclick="done.push('click')">x</a>
<script>
const done = [];
document.getElementById("main").innerHTML = "<ul><li>one</li></ul><object data='x'>old</object>";
document.querySelector("ul").insertAdjacentHTML("beforeend", "<li>two</li>");
document.write("<p id=written>wri"); document.write("tten</p>"); document.write("<p id=split"); document.write("ted>x</p>");
customElements.define("my-part", class extends HTMLElement { connectedCallback() { this.textContent = "part"; } });
document.body.append(document.createElement("my-part"), document.createElementNS("http://www.w3.org/2000/svg", "svg"));
const svg = new DOMParser().parseFromString("<svg xmlns='http://www.w3.org/2000/svg'><circle r='3'/></svg>", "image/svg+xml");
document.body.append(svg.documentElement);
document.head.append(document.createElement("link"));
const box = document.createElement("canvas").getContext("2d"); box.fillRect(0, 0, 1, 1);
const image = new Image(); image.src = URL.createObjectURL(new Blob(["<svg xmlns='http://www.w3.org/2000/svg'/>"], {type: "image/svg+xml"}));
setTimeout(() => { document.getElementById("link").click(); done.push("later"); }, 50);
</script></body></html>"""


class Listeners:
    """A UDP and a TCP socket for each name: the names at which anybody came by, and those that were sent something."""

    def __init__(self, names):
        self.heard = set()
        self.sent = set()
        self.ports = {}
        self._selector = selectors.DefaultSelector()
        self._going = True
        for name in names:
            udp, tcp = (
                socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)
            )
            for one in (udp, tcp):
                one.bind(("127.0.0.1", 0))
                self._selector.register(one, selectors.EVENT_READ, name)
            tcp.listen()
            self.ports[name] = (udp.getsockname()[1], tcp.getsockname()[1])
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        while self._going:
            for key, _ in self._selector.select(0.1):
                self.heard.add(key.data)
                if key.fileobj.type == socket.SOCK_DGRAM:
                    self.sent.add(key.data)
                    key.fileobj.recv(4096)
                    continue
                with key.fileobj.accept()[0] as connection:
                    connection.settimeout(0.3)
                    with suppress(OSError):
                        if connection.recv(1):
                            self.sent.add(key.data)

    def close(self):
        self._going = False
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()


class Pages(http.server.BaseHTTPRequestHandler):
    """Attacks in frames of a page that has our pages' policy, as many at once as the address names."""

    def do_GET(self):
        kind, _, numbers = self.path.strip("/").partition("/")
        names = list(ATTACKS)
        if kind == "page":
            frame = '<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" src="/app/{}"></iframe>'
            self._send(
                "".join(frame.format(k) for k in numbers.split(",")).encode(),
                {"Content-Security-Policy": PAGE_POLICY},
            )
        elif kind == "app":
            name = names[int(numbers)]
            page = attack_page(name, *self.server.listeners.ports[name])
            self._send(self.server.shield(page), self.server.headers)
        else:
            self._send(sandboxed_app(HONEST), APP_HEADERS)

    def _send(self, body, headers):
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def chromium(driver, tmp_path_factory):
    """Starts browsers with a profile of their own, which connect ahead as people's do; tests' own are told not to."""

    def start(*flags):
        return driver.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path="/usr/bin/chromium",
            ignore_default_args=["--disable-background-networking"],
            args=["--no-sandbox", "--disable-gpu", *flags],
        )

    return start


@pytest.fixture
def server():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    made.listeners = Listeners(ATTACKS)
    made.shield, made.headers = sandboxed_app, APP_HEADERS
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()
    made.listeners.close()


def escaped(context, server):
    """The attacks that reached a listener, and what went wrong in the pages around them."""
    page, crashed = context.new_page(), []
    page.on("crash", lambda _: crashed.append(page.url))
    for start in range(0, len(ATTACKS), AT_ONCE):
        numbers = ",".join(map(str, range(start, min(start + AT_ONCE, len(ATTACKS)))))
        page.goto(f"http://127.0.0.1:{server.server_port}/page/{numbers}")
        page.wait_for_timeout(600)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        page.wait_for_timeout(100)
    assert crashed == []
    return server.listeners.heard


@pytest.mark.slow
def test_the_listeners_hear_what_a_policy_alone_lets_through(chromium, server):
    server.shield, server.headers = bytes, POLICY
    with chromium() as context:
        assert escaped(context, server) >= LET_THROUGH


def test_no_app_reaches_the_network(chromium, server):
    with chromium() as context:
        assert escaped(context, server) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [(), ("--disable-blink-features=TrustedDOMTypes",)],
    ids=["trusted-types", "without-trusted-types"],
)
def test_a_browser_that_does_not_know_the_allowlist_sends_nothing(chromium, server, flags):
    """But it connects to where an app wants to go, before the policy of the page around it says no."""
    server.headers = WITHOUT_ALLOWLIST
    with chromium(*flags) as context:
        assert escaped(context, server) <= NAVIGATIONS
        assert server.listeners.sent == set()


@pytest.mark.slow
def test_the_browser_ends_connections_where_it_knows_the_allowlist(chromium, server):
    server.shield, server.headers = (
        bytes,
        POLICY | {"Connection-Allowlist": APP_HEADERS["Connection-Allowlist"]},
    )
    names = list(ATTACKS)
    with chromium() as context:
        page = context.new_page()
        for name in ("own", "old name", "announced connection"):
            page.goto(f"http://127.0.0.1:{server.server_port}/page/{names.index(name)}")
            page.wait_for_timeout(600)
    assert server.listeners.heard == set()


def test_an_honest_app_works_as_before(chromium, server):
    with chromium() as context:
        page, errors, asked = context.new_page(), [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{server.server_port}/honest")
        page.wait_for_function("document.title === 'honest' && done.includes('later')")
        assert errors == []
        assert page.evaluate("[document.compatMode, document.documentElement.lang]") == ["CSS1Compat", "en"]
        assert page.locator("main li").all_inner_texts() == ["one", "two"]
        assert page.locator("#written").inner_text() == "written"
        assert page.locator("#splitted").count() == 1
        assert page.locator("my-part").inner_text() == "part"
        assert page.evaluate("getComputedStyle(main).color") == "rgb(1, 2, 3)", "the page keeps its structure"
        assert page.evaluate("[done, frames.length, document.querySelectorAll('link, iframe, object').length]") == [
            ["click", "later"], 0, 0,
        ]  # fmt: skip
        assert {url.partition(":")[0] for url in asked} <= {"http", "blob"}
        assert not [url for url in asked if ".example" in url]
