"""Which tuple trees are complete: XOR ledger, edge ids, pending messages, retries, the acker actor."""

from .actor import EXPIRY_STEPS, AckerActor, Acks, Forget, Init, Verdicts
from .ids import IdSource
from .ledger import Ledger, Verdict, VerdictKind
from .pending import Emission, Pending, Settled, Tree
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
    "Ledger",
    "Pending",
    "Retries",
    "Settled",
    "Tree",
    "Verdict",
    "VerdictKind",
    "Verdicts",
]
