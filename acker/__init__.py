"""Which tuple trees are complete: XOR ledger, edge ids, pending messages, retries, the acker actor."""

from .actor import EXPIRY_STEPS, AckerActor, Acks, Forget, Init, Verdicts
from .ids import IdSource, alone, in_company, is_alone
from .ledger import Ledger, Verdict, VerdictKind
from .pending import Emission, Key, Pending, Settled, Tree
from .retries import Fate, Retries
from .wire import ACKER_MESSAGES

__all__ = [
    "ACKER_MESSAGES",
    "EXPIRY_STEPS",
    "AckerActor",
    "Acks",
    "Emission",
    "Fate",
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
    "alone",
    "in_company",
    "is_alone",
]
