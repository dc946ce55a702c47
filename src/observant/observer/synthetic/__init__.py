"""A synthetic web whose changes are known, the real observer on it, and what came of it."""
