"""One text for plain data, and its sha256."""

import hashlib
import json
from typing import Any


def canonical(data: Any) -> str:
    """The one JSON text of plain data: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: Any) -> str:
    """sha256 of the canonical text of plain data, or of bytes as they are."""
    blob = data if isinstance(data, bytes) else canonical(data).encode()
    return hashlib.sha256(blob).hexdigest()
