"""The one exception users meet: what was expected, what came, and the remedy."""

from __future__ import annotations


class DfstransError(ValueError):
    """Something a user can mend: bad data, bad settings, a damaged model.

    Its message names what was expected, what was received and what to do about it. The command line prints it without
    a traceback and exits with code 2.
    """
