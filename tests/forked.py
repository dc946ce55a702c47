"""Processes that start at once: forked from one in which everything is imported already.

For tests about what a process does, of which the start is no part. Whatever is preloaded must not
start threads or open connections when it is imported.
"""

import multiprocessing
import os
import runpy
import sys

from .patience import PATIENCE

_context = multiprocessing.get_context("forkserver")


class Forked:
    """A script in a process of its own, working in `folder`; what it prints goes to files there."""

    def __init__(self, folder, script, *words, preload=()):
        _context.set_forkserver_preload([__name__, *preload])
        number = len(list(folder.glob("*.stdout")))
        self._out, self._err = (folder / f"{number}.{name}" for name in ("stdout", "stderr"))
        self._process = _context.Process(
            target=_run, args=(str(folder), str(script), words, str(self._out), str(self._err))
        )
        self._process.start()

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def communicate(self):
        """What it printed, and its log, when it has ended."""
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, f"it goes on and on\n{self._err.read_text()}"
        return self._out.read_text(), self._err.read_text()


def _run(folder, script, words, *outputs):
    os.chdir(folder)
    for number, file in enumerate(outputs, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), number)
    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")
