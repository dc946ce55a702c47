"""A small web on the loopback, and a transport that knows the way to it, for tests."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from observant.observer.transport import Guard, Politeness, Transport


class Site:
    """Serves `pages`: path → a function of the request's headers that gives status, headers, body.

    Any other path is asked of `page`, which gives a text, or None where there is none. `seen` holds
    every request as (path, headers).
    """

    def __init__(self, page=lambda _: None, host="127.0.0.1"):
        self.pages, self.page = {}, page
        self.seen = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                headers = {k.lower(): v for k, v in self.headers.items()}
                site.seen.append((self.path, headers))
                page = site.pages.get(self.path)
                status, extra, body = page(headers) if page else site.other(self.path)
                self.send_response(status)
                for key, value in extra.items():
                    self.send_header(key, value)
                if status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if status != 304:
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://{host}:{self.port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def other(self, path):
        text = self.page(path)
        found = (404, "") if text is None else (200, text)
        return found[0], {"Content-Type": "text/html"}, found[1].encode()

    def requests(self, path):
        return [headers for seen, headers in self.seen if seen == path]

    def serve(self, path, body, etag=None, status=200, content_type="text/html"):
        """An honest page."""

        def page(headers):
            extra = {"Content-Type": content_type} | ({"ETag": etag} if etag else {})
            if etag and headers.get("if-none-match") == etag:
                return 304, extra, b""
            return status, extra, body if isinstance(body, bytes) else body.encode()

        self.pages[path] = page

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def transport_to(port, **more):
    return Transport(
        user_agent="observant-test/1",
        guard=Guard(allow=["127.0.0.0/8"]),
        politeness=Politeness(floor=0.0, latency_factor=0.0, outage_first=0.0, backoff_first=0.0),
        proxies={},
        robots=False,
        locate=lambda host, _: ("127.0.0.1", port) if host.endswith(".example") else None,
        **more,
    )


def html(text):
    return f"<html><body><main>{text}</main></body></html>"
