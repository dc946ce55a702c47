"""WACZ: a zip of WARC files with their index; nothing is ever unpacked to disk."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, BinaryIO, cast

from observant.errors import InputError
from observant.formats.imports.base import Batches, Importer
from observant.formats.imports.blocks import read_lines
from observant.formats.imports.cdxj import CdxjLines
from observant.formats.imports.files import ImportFile
from observant.formats.imports.warc import read_warc

if TYPE_CHECKING:
    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.report import Report

__all__ = ["IMPORTERS", "Wacz"]

_LARGEST_RATIO = 200
"""Content is already compressed in a WACZ; a zip that unpacks to far more is a bomb."""

_SMALL = 1 << 26  # bytes that are no bomb, whatever the ratio
_MOST_MEMBERS = 100_000
_ENCRYPTED = 1


class Wacz(Importer):
    """Web archives in one file, as Browsertrix, ArchiveWeb.page and py-wacz write them."""

    name = "wacz"
    title = "WACZ web archive"
    evidence: Evidence = "V"
    endings = (".wacz",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is a zip with a description and an archive or an index."""
        del name
        entries = head.split(b"\n")
        return (
            entries[0] == b"PK\x03\x04"
            and b"datapackage.json" in entries
            and any(entry.startswith((b"archive/", b"indexes/")) for entry in entries)
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the visits of the index; of the WARC files themselves if there is none."""
        with file.local() as path, zipfile.ZipFile(path) as archive:
            members = _safe(archive, path.stat().st_size)
            indexes = [m for m in members if _is_index(m.filename)]
            warcs = [m for m in members if _is_warc(m.filename)]
            if not indexes and not warcs:
                raise InputError("there is neither an index nor a WARC file in it")
            for member in indexes or warcs:
                report.file = f"{file.name}/{member.filename}"
                with archive.open(member) as packed:
                    stream = cast("BinaryIO", packed)
                    with ImportFile(report.file, None, stream).open() as plain:
                        if indexes:
                            form = CdxjLines(by_key=options.key == "surt")
                            yield from read_lines(plain, form, report)
                        else:
                            yield from read_warc(plain, options, report)
            report.file = file.name


def _is_index(name: str) -> bool:
    return name.startswith("indexes/") and name.endswith((".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz"))


def _is_warc(name: str) -> bool:
    return name.startswith("archive/") and name.endswith((".warc", ".warc.gz", ".warc.zst"))


def _safe(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """The members, unless they could not all be in a file of this size."""
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise InputError(f"a zip of {len(members):,} members is not read")
    packed = sum(member.compress_size for member in members)
    unpacked = sum(member.file_size for member in members)
    if any(member.flag_bits & _ENCRYPTED for member in members):
        raise InputError("the zip is encrypted")
    if packed > size:
        raise InputError("the zip's members overlap; it is broken or malicious")
    if unpacked > max(_SMALL, _LARGEST_RATIO * size):
        raise InputError(
            f"the zip claims to unpack to {unpacked:,} bytes, more than {_LARGEST_RATIO} times its "
            "size; it is not read"
        )
    return members


IMPORTERS = (Wacz(),)
