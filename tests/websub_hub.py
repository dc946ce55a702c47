"""A WebSub hub for tests that follows the specification to the letter, over real HTTP."""

import hashlib
import hmac
import http.client
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

FEED = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<id>urn:news</id>{links}<updated>2026-01-01T00:00:00Z</updated>
<entry><id>1</id><title>{title}</title><link href="https://news.example/1"/></entry></feed>"""


class Hub:
    """Serves a topic at /feed, which names the hub, and is the hub at /hub.

    `verifications` are (mode, topic, status, whether the challenge came back). `lease` is what it
    grants; `twist` changes what it asks at a verification; `deny` is the reason of a denial.
    """

    def __init__(self):
        self.subscribers, self.requests, self.verifications = {}, [], []
        self.lease, self.twist, self.deny, self.title = 1000, {}, "", "one"
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path != "/feed":
                    return self.answer(404)
                links = f"<{hub.address}/hub>; rel=hub, <{hub.topic}>; rel=self"
                return self.answer(200, FEED.format(links="", title=hub.title), {"Link": links})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                form = self.headers["Content-Type"] == "application/x-www-form-urlencoded"
                given = dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True))
                hub.requests.append(given)
                reason = "" if form else "this is no form"
                reason = reason or hub.refusal(given)
                self.answer(400 if reason else 202, reason)
                if not reason:
                    threading.Thread(target=hub.verify, args=[given], daemon=True).start()

            def answer(self, status, body="", headers=()):
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.topic = f"{self.address}/feed"
        threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True).start()

    def refusal(self, given):
        """Why a request is not one of section 5.1, if it is not."""
        callback = urlsplit(given.get("hub.callback", ""))
        if callback.scheme not in {"http", "https"} or not callback.netloc:
            return "hub.callback must be an absolute address"
        if given.get("hub.mode") not in {"subscribe", "unsubscribe"}:
            return "hub.mode must be subscribe or unsubscribe"
        if given.get("hub.topic") != self.topic:
            return "no such topic"
        if len(given.get("hub.secret", "").encode()) >= 200:
            return "hub.secret must be shorter than 200 bytes"
        if not given.get("hub.lease_seconds", "1").isdigit():
            return "hub.lease_seconds must be a number"
        return ""

    def verify(self, given):
        """Section 5.3: does the subscriber mean it?"""
        callback, mode = given["hub.callback"], given["hub.mode"]
        asked = {"hub.mode": mode, "hub.topic": given["hub.topic"]}
        if self.deny:
            asked = asked | {"hub.mode": "denied", "hub.reason": self.deny}
        else:
            asked["hub.challenge"] = secrets.token_urlsafe(16)
            if mode == "subscribe":
                asked["hub.lease_seconds"] = str(self.lease)
        asked |= self.twist
        status, body = ask("GET", f"{callback}?{urlencode(asked)}")
        echoed = 200 <= status < 300 and body == asked.get("hub.challenge", "").encode()
        self.verifications.append((asked["hub.mode"], asked["hub.topic"], status, echoed))
        if echoed and mode == "subscribe" and not self.deny:
            self.subscribers[callback] = given.get("hub.secret", "")
        elif echoed and mode == "unsubscribe":
            self.subscribers.pop(callback, None)

    def publish(self, body, method="sha256", *, signature=None, callback=None):
        """Section 7: the content to every subscriber, signed; the statuses."""
        statuses = []
        for place, secret in [*self.subscribers.items()]:
            own = hmac.new(secret.encode(), body, getattr(hashlib, method, hashlib.sha256))
            signed = f"{method}={own.hexdigest()}" if signature is None else signature
            headers = {"Content-Type": "application/atom+xml", "X-Hub-Signature": signed}
            headers["Link"] = f"<{self.address}/hub>; rel=hub, <{self.topic}>; rel=self"
            statuses.append(ask("POST", callback or place, body, headers)[0])
        return statuses

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def ask(method, address, body=None, headers=()):
    """Status and body of an answer; what ends the connection early is a status, too."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(method, path, body, dict(headers))
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()
