"""The actuator `pace`: waits after each step of computing until the model says that it ends.

So a fast machine takes the time of the machine that a scenario describes, which is what a testbed needs.
"""

__all__ = ["PaceActuator", "Pacing"]

import asyncio
import logging
import math
import time
from dataclasses import dataclass

from fedfloor.deploy.actuators.contract import Setting

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pacing:
    """How well a round kept to its modelled times."""

    steps: int  #: that were paced
    longer: int  #: steps whose computing took longer than modelled
    excess: float  #: [s] the most by which a step did
    behind: float  #: [s] end of the last step, behind its modelled end; less than 0 if it was early


class PaceActuator:
    """Keeps the modelled schedule of a round.

    The schedule adds up the modelled seconds of the steps and what the machine has waited for others. Every step ends
    at its place in the schedule, not some seconds after its beginning. So a timer that is late, or a step that takes
    longer than modelled, shortens the waiting after the next steps, and errors do not add up.
    """

    def __init__(self) -> None:
        self.pacing: Pacing | None = None  #: of the last round that has ended
        self._is_open = False
        self._scheduled = self._ended = 0.0
        self._steps = self._longer = 0
        self._excess = 0.0

    def problem(self) -> None:
        """None: a clock is always there."""

    def begin(self, setting: Setting) -> None:  # noqa: ARG002  # steps are given one by one
        """Begin the schedule of a round now."""
        self._is_open, self._steps, self._longer, self._excess = True, 0, 0, 0.0
        self._scheduled = self._ended = time.monotonic()

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        """Wait until the modelled end of the step; return at once if that has passed."""
        assert 0.0 <= seconds < math.inf, seconds
        arrived = time.monotonic()
        begin = self._ended if began is None else began
        self._scheduled += max(begin - self._ended, 0.0) + seconds
        excess = arrived - begin - seconds
        self._steps += 1
        self._longer += excess > 0.0
        self._excess = max(self._excess, excess)
        while (remaining := self._scheduled - time.monotonic()) > 0.0:  # a sleep may end a little early
            await asyncio.sleep(remaining)
        self._ended = time.monotonic()

    def end(self) -> None:
        """End the schedule, and say how often computing took longer than modelled."""
        if not self._is_open:
            return
        self._is_open = False
        self.pacing = Pacing(self._steps, self._longer, self._excess, self._ended - self._scheduled)
        if self._longer:
            _LOG.warning(
                "Computing took longer than modelled in %d of %d steps, by up to %.4f s; the round ended %.4f s behind "
                "its schedule. Give the machine more time in the scenario, or less work.",
                self._longer,
                self._steps,
                self._excess,
                self.pacing.behind,
            )
        else:
            _LOG.info("Paced %d steps; the round ended %.4f s behind its schedule.", self._steps, self.pacing.behind)
