"""Executor access: how the executors of a master reach this process, and what protects the connections."""

from __future__ import annotations

from dataclasses import dataclass

from ...transport import ExposedError, Security
from ..resources import is_local


@dataclass(frozen=True, slots=True)
class ExecutorAccess:
    """The arguments of SparkWorkers of the same names."""

    listen: str
    credentials: str
    insecure: bool
    host: str

    def security(self, master: str) -> Security:
        """The security for executors of other machines. ExposedError if it is missing, or the error of the files.

        `master`: empty if it is not known, and not local.
        """
        if master and is_local(master):
            return Security()
        what = f"the executors of {master or 'this Spark'} may be on other machines"
        if not self.listen:
            raise ExposedError(f"{what}: say where they reach this process, listen=HOST:PORT (--listen)")
        if self.credentials:
            found = Security.from_directory(self.credentials)
            return Security(found.credentials, found.tls, self.insecure)
        if self.insecure:
            return Security(insecure=True)
        raise ExposedError(
            f"{what}: they need TLS and a token. Give credentials=DIR (--credentials), a directory that `aiostorm "
            "certs node` has made, in the same place on every machine (or insecure, in a private network)"
        )
