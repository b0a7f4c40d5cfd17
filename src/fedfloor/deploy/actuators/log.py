"""The actuator `log`: says what was decided and changes nothing."""

__all__ = ["LogActuator"]

import logging

from fedfloor.deploy.actuators.contract import Setting

_LOG = logging.getLogger(__name__)


class LogActuator:
    """Writes one line per round to the log."""

    def problem(self) -> None:
        """None: a log is always there."""

    def begin(self, setting: Setting) -> None:
        """Write what was decided."""
        power = "" if setting.power is None else f", transmit power {1e3 * setting.power:.4g} mW"
        count = len(setting.steps)
        steps = f", {count} step{'s' * (count > 1)} in {sum(setting.steps):.4g} s" if count else ""
        _LOG.info(
            "Decided: %.4g GHz, %.3g %% of the maximum%s%s.",
            1e-9 * setting.frequency,
            100 * setting.share,
            power,
            steps,
        )

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        """Wait for nothing."""

    def end(self) -> None:
        """Restore nothing."""
