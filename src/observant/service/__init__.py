"""The service: dashboard, REST API, feeds and metrics over one `Collection`.

Nothing here is loaded before somebody says `observant serve` (or imports it): Litestar, uvicorn and
Jinja2 stay out of everybody else's way.
"""

__all__: list[str] = []
