"""Names that an attacker would try wherever a name is taken: paths out of a folder, in every spelling that is known."""

from __future__ import annotations

from itertools import product
from typing import Final

_UP: Final = ("..", "%2e%2e", "%252e%252e", "..;", "....", "\uff0e\uff0e", "\u2024\u2024", "..\u200b", "..\0", ".\r.")
_SEPARATORS: Final = ("/", "\\", "%2f", "%5c", "%252f", "//", "\u2215", "\u2044", "\uff0f", "\u29f8", "%c0%af", "\\\\")
_CLIMBS: Final = tuple(f"{up}{separator}secret" for up, separator in product(_UP, _SEPARATORS))

_ABSOLUTE: Final = (
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "/proc/self/environ",
    "/dev/stdin",
    "\\\\host\\share\\x",
    "\\\\.\\pipe\\x",
    "\\\\?\\C:\\x",
    "C:\\x",
    "c:/x",
    "C:x",
    "file:///etc/passwd",
    "~/x",
    "~root",
    "$HOME/x",
    "${HOME}",
)

_RELATIVE: Final = (
    "",
    ".",
    "..",
    "...",
    "./x",
    "x/",
    "x/..",
    "x/../..",
    "x/./y",
    "x//y",
    "../../../secret",
    "x/../../secret",
    "../" * 500,
    ".hidden",
    " ",
    "x ",
    "x.",
    "x. .",
    "x::$DATA",
    "x:stream",
)

_CHARACTERS: Final = (
    "\0",
    "x\0",
    "x\0.log",
    "secret\0/parent",
    "x\n",
    "x\ny",
    "x\r\nSet-Cookie: a=b",
    "\t",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202ex",
    "\ufeffx",
    "\ud800",
    "\udcff",
    "\U0010ffff",
    "e\u0301",
    "\ufb00",
    "\u0130",
)

_DEVICES: Final = tuple(
    form.format(device)
    for device in ("CON", "PRN", "AUX", "NUL", "COM1", "LPT9", "CLOCK$")
    for form in ("{}", "{}.log", "{}.", "{}:")
)

_COMMANDS: Final = (
    "-rf",
    "--help",
    "$(id)",
    "`id`",
    ";id",
    "|id",
    "&&id",
    "'x",
    '"x',
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "!x",
    "%s%n",
    "{0.__class__}",
    "<script>",
    "'; DROP TABLE nodes; --",
    "?token=x",
    "#x",
)

_LONG: Final = ("x" * 129, "x" * 255, "x" * 256, "x" * 4096, "\xe4" * 34, "\xe4" * 128, "\U0001f4a5" * 100, "/" * 1000)

_OURS: Final = (
    "credentials",
    "tokens",
    "cluster.db",
    "parent.log.1",
    "worker-1.log",
    "worker-01",
    "parent.address",
    "__proto__",
    "__init__",
    "WORDS",
)
"""Names of other files and folders of a home, and of what code has."""

NAMES: Final = (
    *_CLIMBS,
    *_ABSOLUTE,
    *_RELATIVE,
    *_CHARACTERS,
    *_DEVICES,
    *_COMMANDS,
    *_LONG,
    *_OURS,
)
