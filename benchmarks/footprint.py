"""Memory of `observant serve` that watches some pages: at rest, and after its pages were looked at.

    python -m benchmarks.footprint [--sources 50] [--rest 20]

A small web on loopback is watched for a while by a real `observant serve` with a new store. Then
every page and figure of the dashboard is asked for twice. Printed is the resident memory of the
process and of its workers, and how much of it belongs to large libraries. The targets are 200 MB
at rest and 300 MB after.
"""

import argparse
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from benchmarks.dashboard import PAGES

TARGETS = {"at rest": 200, "after its pages were looked at": 300}
LARGE = ("llvmlite", "libarrow", "_vl_convert", "vl_convert", "scipy", "numba", "lxml")


class Pages(http.server.BaseHTTPRequestHandler):
    """Pages that change every few seconds."""

    def do_GET(self):
        number = hash(self.path) % 7 + 3
        body = f"<html><body><p>{self.path}</p><p>{int(time.time() / number)}</p></body></html>"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        """Nothing is told."""


def memory(pid):
    """Resident memory of a process and all below it, in MB, by process."""
    found = {}
    left = [pid]
    while left:
        one = left.pop()
        try:
            rolled = Path(f"/proc/{one}/smaps_rollup").read_text("utf-8")
            children = Path(f"/proc/{one}/task/{one}/children").read_text("utf-8")
        except OSError:
            continue
        found[one] = int(re.search(r"^Rss: +(\d+)", rolled, re.MULTILINE)[1]) / 1024
        left += [int(child) for child in children.split()]
    return found


def mapped(pid):
    """Which large libraries are there, and how much of each is in memory."""
    sizes, name = {}, ""
    for line in Path(f"/proc/{pid}/smaps").read_text("utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            path = line.split()[5:]
            name = next((large for large in LARGE if path and large in path[0]), "")
            name = name or (path[0] if path and path[0].startswith("[heap") else "")
            name = name or ("" if path else "anonymous")
        elif line.startswith("Rss:") and name:
            sizes[name] = sizes.get(name, 0) + int(line.split()[1]) / 1024
    return {name: round(size) for name, size in sizes.items() if size >= 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=int, default=50)
    parser.add_argument("--rest", type=float, default=20.0, help="seconds before it is measured")
    options = parser.parse_args()
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{web.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        names = "".join(f"{origin}/{n}\n" for n in range(options.sources))
        Path(folder, "pages.txt").write_text(names, "utf-8")
        Path(folder, "observant.toml").write_text(
            'budget = "400000/day"\nallow = ["127.0.0.0/8"]\n', "utf-8"
        )
        command = [str(Path(sys.executable).with_name("observant"))]
        subprocess.run([*command, "add", "--file", "pages.txt"], cwd=folder, check=True)  # noqa: S603
        with subprocess.Popen(  # noqa: S603
            [*command, "serve", "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
        ) as server:
            try:
                measure(server, options.rest)
            finally:
                server.terminate()


def measure(server, rest):
    lines = iter(server.stderr.readline, "")
    address = next(line.split()[-1] for line in lines if line.startswith("Serving at "))
    password = next(line.split()[-1] for line in lines if "password" in line)
    threading.Thread(target=lambda: list(lines), daemon=True).start()
    time.sleep(rest)
    tell("at rest", server.pid)
    person = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    page = person.open(f"{address}login").read().decode()
    form = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page))
    form |= {"name": "owner", "password": password}
    person.open(f"{address}login", urllib.parse.urlencode(form).encode()).read()
    for _ in range(2):
        for path in PAGES:
            try:
                person.open(address + path.lstrip("/").replace("{id}", "1")).read()
            except urllib.error.HTTPError as error:
                if error.code != 503:  # its numbers are being computed
                    raise
        time.sleep(3)
    tell("after its pages were looked at", server.pid)


def tell(when, pid):
    found = memory(pid)
    print(f"{when}: {found[pid]:,.0f} MB", end="")
    print(f" (target {TARGETS[when]}), and {sum(found.values()) - found[pid]:,.0f} MB in workers")
    print("  ", ", ".join(f"{name} {size} MB" for name, size in sorted(mapped(pid).items())))


if __name__ == "__main__":
    main()
