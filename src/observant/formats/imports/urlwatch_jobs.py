"""Job files of urlwatch and webchanges: what they watch. They tell no visits.

They are YAML, one document a job. PyYAML reads them where it is installed; it is no dependency of
observant. Commands are never taken over from a file: what is run here is only what the user's own
configuration names.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.formats.imports.base import Described, Describer, SourceDescription
from observant.formats.imports.loose import plain_text

if TYPE_CHECKING:
    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "JobFile", "addresses_in"]

_LARGEST = 1 << 24
_MOST_VALUES = 2_000_000
_SELECTORS = {"css": "css", "xpath": "xpath", "jsonpath": "jsonpath", "element-by-id": "css"}
_HARMLESS = {"html2text", "strip", "strip_each_line", "beautify", "format-json", "pretty-xml"}
_WITHOUT_PLACE = {
    "diff_filter": "filters of differences",
    "diff_filters": "filters of differences",
    "http_proxy": "proxies",
    "https_proxy": "proxies",
    "proxy": "proxies",
    "cookies": "cookies (they may hold secrets)",
    "additions_only": "the wish for additions only",
    "deletions_only": "the wish for deletions only",
    "ssl_no_verify": "the wish not to verify certificates",
    "differ": "ways to show differences",
}


class JobFile(Describer):
    """``urls.yaml`` of urlwatch, ``jobs.yaml`` of webchanges."""

    name = "urlwatch-jobs"
    title = "urlwatch or webchanges job file"
    evidence: Evidence = "S"
    endings = ("urls.yaml", "jobs.yaml")

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is YAML by its name, with a job at the top."""
        if not name.endswith((".yaml", ".yml")):
            return False
        keys = rb"(?m)^(?:- )?(?:url|navigate|command|name|kind): *\S"
        return re.search(keys, head) is not None and b"seeds:" not in head

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:  # noqa: ARG002 - the contract's
        """Yield the jobs that have an address."""
        for number, job in enumerate(_jobs(file), 1):
            report.add_rows()
            described = _described(job, number, report)
            if described is not None:
                yield described


IMPORTERS = (JobFile(),)


def addresses_in(file: ImportFile) -> list[str]:
    """Locations of all jobs, as the databases know them."""
    keys = ("user_visible_url", "url", "navigate", "command")
    jobs = [job for job in _jobs(file) if isinstance(job, dict)]
    return [job[key] for job in jobs for key in keys if isinstance(job.get(key), str)]


def _jobs(file: ImportFile) -> list[Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise InputError(
            "job files are YAML, and PyYAML is not installed: pip install pyyaml"
        ) from None
    with file.open() as stream:
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InputError("is larger than 16 MiB, which no job file is")
    try:
        for document in yaml.compose_all(text, yaml.SafeLoader):
            _check_expansion(document, {})
        jobs = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        told = " ".join(str(error).split())
        raise InputError(f"this is no YAML: {told[:200]}") from error
    return [job for job in jobs if job is not None]


def _check_expansion(node: Any, sizes: dict[int, int]) -> int:
    """How many values a part of a document has, written out; InputError if that is absurd.

    An alias stands for a whole part, also for one with aliases in it: forty lines can stand for
    more values than any memory holds.
    """
    size = sizes.setdefault(id(node), 0)
    if size:
        return size
    children = getattr(node, "value", None)
    sizes[id(node)] = _MOST_VALUES  # a part that holds itself never ends
    size = 1
    for child in children if isinstance(children, list) else ():
        for part in child if isinstance(child, tuple) else (child,):
            size += _check_expansion(part, sizes)
    if size > _MOST_VALUES:
        raise InputError(f"its aliases stand for more than {_MOST_VALUES:,} values")
    sizes[id(node)] = size
    return size


def _described(job: Any, number: int, report: Report) -> SourceDescription | None:
    if not isinstance(job, dict):
        report.malformed(number, "a job is a list of keys and values", str(job)[:100])
        return None
    if isinstance(job.get("command"), str) and "url" not in job:
        report.warn("{n} jobs run commands, which are not taken over from a file")
        return None
    address = job.get("url") or job.get("navigate")
    if not isinstance(address, str) or not address.lower().startswith(("http://", "https://")):
        report.malformed(number, "a job without an address that can be visited", str(job)[:100])
        return None
    rules = _selection(job, report)
    settings: dict[str, Any] = {"compare": rules} if rules else {}
    headers = job.get("headers")
    if isinstance(headers, dict) and headers:
        settings["headers"] = {str(key): str(value) for key, value in headers.items()}
    paused = job.get("enabled") is False
    if job.get("data") or str(job.get("method") or "GET").upper() != "GET":
        report.warn("{n} jobs ask by another method than GET: they are paused")
        paused = True
    if job.get("navigate") or job.get("use_browser"):
        report.warn("{n} jobs use a browser; their pages will be fetched without one")
    for key, words in _WITHOUT_PLACE.items():
        if job.get(key):
            report.warn(f"{words} of {{n}} jobs have no counterpart and were left out")
    tags = job.get("tags")
    return SourceDescription(
        # A number as fragment makes a second job of one address.
        address=plain_text(re.sub(r"#\d+$", "", address)),
        title=str(job.get("name") or ""),
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        paused=paused,
        settings=settings,
    )


def _selection(job: dict[Any, Any], report: Report) -> dict[str, Any]:
    filters = job.get("filter", job.get("filters")) or []
    if isinstance(filters, str):
        filters = [part.partition(":")[::2] for part in filters.split(",")]
        filters = [{name: value} if value else name for name, value in filters]
    settings: dict[str, Any] = {}
    for step in filters if isinstance(filters, list) else []:
        name, value = next(iter(step.items())) if isinstance(step, dict) and step else (step, None)
        if isinstance(value, dict):
            value = value.get("path") or value.get("selector") or value.get("query")
        if name in _SELECTORS and isinstance(value, str):
            wanted = f"#{value}" if name == "element-by-id" else value
            if any(language in settings for language in ("css", "xpath", "jsonpath")):
                report.warn("{n} jobs select more than once: the first selection was taken")
            else:
                settings[_SELECTORS[name]] = wanted
        elif name == "re.sub" and isinstance(value, str):
            settings.setdefault("ignore", []).append(value)
        elif name not in _HARMLESS:
            report.warn(f"the filter {str(name)[:40]!r} of {{n}} jobs has no counterpart")
    return settings
