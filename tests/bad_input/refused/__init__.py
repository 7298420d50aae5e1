"""All mistakes that are tried, a table for each part of the package."""

from tests.bad_input.refused.control import CONTROL
from tests.bad_input.refused.deletion import DELETION
from tests.bad_input.refused.effective import EFFECTIVE
from tests.bad_input.refused.quantise import QUANTISE
from tests.bad_input.refused.readout import READOUT
from tests.bad_input.refused.response import EDITS
from tests.bad_input.refused.restoration import RESTORATION
from tests.bad_input.refused.rotary import ROTARY
from tests.bad_input.refused.spans import SPANS
from tests.bad_input.refused.sparse import GROUPS, PREPARED
from tests.bad_input.refused.tracked import TRACKED
from tests.bad_input.refused.transforms import TRANSFORMS
from tests.bad_input.refused.writes import WRITES

REFUSED = [
    *READOUT,
    *EDITS,
    *ROTARY,
    *EFFECTIVE,
    *CONTROL,
    *GROUPS,
    *SPANS,
    *PREPARED,
    *DELETION,
    *RESTORATION,
    *QUANTISE,
    *WRITES,
    *TRACKED,
    *TRANSFORMS,
]
