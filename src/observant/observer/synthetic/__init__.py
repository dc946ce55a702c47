"""A synthetic web whose changes are known, the real observer on it, and what came of it."""

__all__: list[str] = []
