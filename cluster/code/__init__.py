"""Code: what topologies are made of, submitted as one archive, stored under its hash, unpacked on each machine.

names.py     which names an archive may have
archive.py   a folder and additional files as a zip, and back
blobs.py     archives in a store, by their SHA-256
cache.py     the unpacked code of one machine
"""

from .archive import MAX_BYTES, MAX_UNPACKED_BYTES, add_files, archive_of, digest, pack, unpack
from .blobs import Blobs, check_digest
from .cache import UNUSED_S, CodeCache
from .errors import ArchiveError, BlobError, CodeError
from .names import MAX_FILES

__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "MAX_UNPACKED_BYTES",
    "UNUSED_S",
    "ArchiveError",
    "BlobError",
    "Blobs",
    "CodeCache",
    "CodeError",
    "add_files",
    "archive_of",
    "check_digest",
    "digest",
    "pack",
    "unpack",
]
