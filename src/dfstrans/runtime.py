"""Predict with an exported model where there is no torch; the code is in `dfstrans.deploy.runtime`."""

from dfstrans.deploy.runtime import *  # noqa: F403
