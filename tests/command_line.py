"""`observant` in the process of the tests: nothing has to be loaded again for every command."""

import contextlib
import io
import sys

import pytest


def run_here(*words, cwd, env=None, stdin=b""):
    """Run a command as a person would; its code, its output and its errors."""
    from observant.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code = 0
    with contextlib.chdir(cwd), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["observant", *map(str, words)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        for key, value in (env or {}).items():
            patch.setenv(key, value)
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert "Traceback" not in said[1]
    return code, *said
