"""Compiled loops on a new clone: each is compiled once, by whoever needs it first.

    python -m tests.compiling FOLDER PART

compiles what most tests and the programs they start need, and leaves a file of that name.
"""

import fcntl
import sys
from pathlib import Path


def compile_once(folder):
    """From now on whoever compiles a function waits for those who do, and takes what they kept."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_, held = Dispatcher.compile, set()

    def alone(self, signature):
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        with global_compiler_lock:
            if name in held:
                return compile_(self, signature)
            with (Path(folder) / name).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                held.add(name)
                try:
                    return compile_(self, signature)
                finally:
                    held.discard(name)
                    fcntl.flock(lock, fcntl.LOCK_UN)

    Dispatcher.compile = alone


def scheduler():
    from observant.observer.schedule import warm_up

    warm_up()


def simulation():
    from observant.processes import Exponential
    from observant.simulation import simulate
    from observant.simulation.traces import Trace

    trace = Trace.sample(Exponential(1.0), [0.5, 1.0], horizon=20.0, seed=1)
    simulate(trace, ["observant"], budget=2.0)


PARTS = {made.__name__: made for made in (scheduler, simulation)}


def is_done(folder):
    return all((Path(folder) / part).exists() for part in PARTS)


def main(folder, part):
    try:
        compile_once(folder)
        PARTS[part]()
    finally:
        (Path(folder) / part).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
