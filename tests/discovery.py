"""Parts of the package are found, not listed: by walking the modules of a folder.

So a new estimator, process or store is checked on the day that its file is added.
"""

import importlib
import inspect
import pkgutil


def modules(package):
    """Every module below a package, imported; compiled loops define no parts and take long."""
    found = importlib.import_module(package)
    yield found
    for inner in pkgutil.walk_packages(getattr(found, "__path__", []), f"{package}."):
        if ".kernels" not in inner.name:
            yield importlib.import_module(inner.name)


def classes(package):
    """Every class that a module below the package defines under a public name."""
    return {
        value
        for module in modules(package)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    }


def concrete(base, package):
    """The classes of a package that are a `base` and can be made."""
    return {
        cls
        for cls in classes(package)
        if issubclass(cls, base) and cls is not base and not inspect.isabstract(cls)
    }


def able_to(package, *methods):
    """The classes of a package that have all of these methods; protocols only ask for them."""
    return {
        cls
        for cls in classes(package)
        if all(callable(getattr(cls, name, None)) for name in methods)
        and not getattr(cls, "_is_protocol", False)
        and not inspect.isabstract(cls)
    }


def functions(package):
    """Every function that a module below the package defines under a public name."""
    return {
        value
        for module in modules(package)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
