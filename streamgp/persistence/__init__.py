"""State as data: records of JSON and plain arrays on disk, checkpoints made of them, optimisers replayed.

Nothing here knows a model. No pickle is written or read, so a file from elsewhere cannot run code.
"""

from streamgp.persistence.checkpoints import Checkpoint, CheckpointFolder, check_identity
from streamgp.persistence.evaluations import EvaluationLog
from streamgp.persistence.large import LargeArray
from streamgp.persistence.plain import record_digest
from streamgp.persistence.records import is_record, read_record, write_record

__all__ = [
    "Checkpoint",
    "CheckpointFolder",
    "EvaluationLog",
    "LargeArray",
    "check_identity",
    "is_record",
    "read_record",
    "record_digest",
    "write_record",
]
