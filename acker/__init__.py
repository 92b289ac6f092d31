"""Tracks which tuple trees are complete: XOR ledger, edge ids, pending messages, retries, and the acker actor."""

from .actor import EXPIRY_STEPS, AckerActor, Acks, Forget, Init, Verdicts
from .encoding import ACKER_MESSAGES
from .ids import IdSource
from .ledger import Ledger, Verdict, VerdictKind, is_single_root, shared_root, single_root
from .pending import Emission, Key, Pending, Settled, Tree
from .retries import FailureAction, Retries

__all__ = [
    "ACKER_MESSAGES",
    "EXPIRY_STEPS",
    "AckerActor",
    "Acks",
    "Emission",
    "FailureAction",
    "Forget",
    "IdSource",
    "Init",
    "Key",
    "Ledger",
    "Pending",
    "Retries",
    "Settled",
    "Tree",
    "Verdict",
    "VerdictKind",
    "Verdicts",
    "is_single_root",
    "shared_root",
    "single_root",
]
