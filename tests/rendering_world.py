"""Hostile pages, the private server they are after, and a browser that many tests share."""

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from benchmarks.rendering import after

from observant.observer.browser import Browser, BrowserSettings
from observant.observer.config import SourceSettings
from observant.observer.content import Comparer, Rules
from observant.observer.sources import Surroundings, make_source
from observant.observer.transport import Guard, Limits, Politeness, Transport

from .observer_world import Site

PRIVATE = "127.0.0.9"
"""Where the private server is: the guard of the tests allows 127.0.0.1 and nothing else."""


class PrivateServer:
    """Something that no page may reach: it writes down whoever comes, by TCP or UDP."""

    def __init__(self):
        self.seen = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle(self):
                outer.seen.append("a connection")
                super().handle()

            def do_GET(self):
                outer.seen.append(self.path)
                body = b"SECRET"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.do_GET()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer((PRIVATE, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((PRIVATE, self.port))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        threading.Thread(target=self._packets, daemon=True).start()

    @property
    def address(self):
        return f"{PRIVATE}:{self.port}"

    def _packets(self):
        while True:
            try:
                self._udp.recv(2000)
            except OSError:
                return
            self.seen.append("a packet")

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._udp.close()


def attack_page(private):
    """Every way that a page has to ask for something; each has an address of its own."""
    at = f"http://{private.address}"
    ws = f"ws://{private.address}"
    worker = f"fetch('{at}/worker',{{mode:'no-cors'}})"
    return f"""<!doctype html><title>attack</title>
<link rel=stylesheet href="{at}/stylesheet"><link rel=preload as=image href="{at}/preload">
<link rel=prefetch href="{at}/prefetch"><link rel=preconnect href="{at}">
<style>body {{ background: url({at}/background) }}</style>
<p>harmless</p><img src="{at}/image"><iframe src="{at}/frame"></iframe>
<img src="/to?{at}/redirected-image"><iframe src="/to?{at}/redirected-frame"></iframe>
<iframe src="file:///etc/passwd"></iframe><iframe src="chrome://version"></iframe>
<img src="http://rebind.example/first"><script src="{at}/script"></script>
<object data="{at}/object"></object><video src="{at}/video" autoplay></video>
<iframe name=target></iframe>
<form method=post action="{at}/form" target=target><input name=a value=b></form>
<iframe name=other></iframe><a id=download href="{at}/download" download target=other>x</a>
<script>
const quietly = (work) => {{
  try {{ const made = work(); made && made.catch && made.catch(() => 0) }} catch {{}}
}};
quietly(() => fetch("{at}/fetch", {{mode: "no-cors"}}));
quietly(() => fetch("/to?{at}/redirected-fetch", {{mode: "no-cors"}}));
quietly(() => {{ const x = new XMLHttpRequest(); x.open("GET", "{at}/xhr"); x.send() }});
quietly(() => new WebSocket("{ws}/websocket"));
quietly(() => new EventSource("{at}/events"));
quietly(() => navigator.sendBeacon("{at}/beacon", "x"));
quietly(() => document.forms[0].submit());
quietly(() => window.open("{at}/popup"));
quietly(() => document.getElementById("download").click());
quietly(() => new Worker(URL.createObjectURL(new Blob(["{worker}"]))));
quietly(() => navigator.serviceWorker.register("/service-worker"));
quietly(() => fetch("http://rebind.example/second", {{mode: "no-cors"}}));
quietly(() => fetch("http://[::ffff:127.0.0.9]:{private.port}/mapped", {{mode: "no-cors"}}));
quietly(() => fetch("http://2130706441:{private.port}/number", {{mode: "no-cors"}}));
quietly(() => new WebTransport("https://{private.address}/transport").ready);
quietly(() => {{
  const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{private.address}"}},
    {{urls: "turn:{private.address}?transport=tcp", username: "a", credential: "b"}}]}});
  peer.createDataChannel("x");
  return peer.createOffer().then((offer) => peer.setLocalDescription(offer));
}});
</script>"""


WAYS_OUT = {
    "/stylesheet", "/background", "/image", "/frame", "/redirected-image", "/redirected-frame",
    "/script", "/object", "/video", "/form", "/fetch", "/redirected-fetch", "/xhr", "/websocket",
    "/events", "/beacon", "/worker", "/second", "/mapped", "/number",
}  # fmt: skip
"""What arrives where nothing is refused: these attacks are real."""


class RenderingWorld:
    """An event loop that stays, a transport and a browser in it."""

    def __init__(self, site, *, allow=("127.0.0.1/32",), locate=None, **settings):
        self._runner = asyncio.Runner()
        self.run = self._runner.run
        self.site, self.allow, self._locate = site, allow, locate
        self.transport = self.run(self._transport())
        self.browser = Browser(self.transport, BrowserSettings(**settings))

    async def _transport(self):
        calm = Politeness(floor=0.0, latency_factor=0.0, outage_first=0.0, backoff_first=0.0)
        return Transport(
            guard=Guard(allow=self.allow),
            politeness=calm,
            proxies={},
            locate=self.locate,
            limits=Limits(total=300.0),
        )

    def locate(self, host, _port):
        if self._locate and (found := self._locate(host)):
            return found
        return ("127.0.0.1", self.site.port) if host.endswith(".example") else None

    def look(self, url, **more):
        return self.run(self.transport.fetch(url, through=self.browser, **more))

    def close(self):
        self.run(self.browser.close())
        self.run(self.transport.close())
        self._runner.close()


@pytest.fixture(scope="session")
def pages():
    """A site on loopback, of which every name under .example is."""
    made = Site()
    yield made
    made.close()


@pytest.fixture(scope="session")
def rendering(pages):
    """One browser for all tests that do no harm to it; its bounds are those of a hang."""
    made = RenderingWorld(pages, seconds=300.0)
    yield made
    made.close()


@pytest.fixture
def patient_steps(monkeypatch):
    """Steps have as long as they need: only a hang takes longer."""
    monkeypatch.setattr("observant.observer.browser.steps._SECONDS", 100.0)


def source_of(world, url, rules, settings, secrets=None, seal=None, browser=None):
    """A page that is visited with the browser of this world."""
    around = Surroundings(
        world.transport,
        time=time.time,
        browser=lambda: browser or world.browser,
        secrets=secrets,
        seal=seal,
    )
    comparer = Comparer(rules or Rules())
    return make_source("http", url, url, SourceSettings(**settings), comparer, around)


def visits_of(world, url, number, before=None, *, secrets=None, seal=None, **settings):
    """Visit a source again and again, as an observer does."""
    made = source_of(world, url, settings.pop("rules", None), settings, secrets, seal)
    seen = []
    for _ in range(number):
        visit = world.run(made.visit(before))
        before = after(before, visit)
        seen.append(visit)
    return seen, before
