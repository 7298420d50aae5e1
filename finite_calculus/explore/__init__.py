"""A local page on which a person explores edits of one prompt: see, pick, trust or not, execute, export.

    Session   what was asked of the model, what was done, and both as a script or as a page
    Explorer  the server of that page on the loopback address

Everything that the page shows comes from `finite_calculus.models`, `search` and `cache`; nothing is derived
here. The page shares its tables, colours and style with the report.
"""

from finite_calculus.explore.server import Explorer as Explorer
from finite_calculus.explore.session import Session as Session
