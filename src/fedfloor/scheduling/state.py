"""Input and output of a scheduler: `RoundState` -> `Decision`."""

__all__ = ["IDLE", "Allocation", "Decision", "RoundState", "Scheduler", "fixed_allocation", "known_history"]

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints, read_only
from fedfloor.costs.plant import PlantArrays
from fedfloor.scenario.file import Baseline
from fedfloor.scheduling.history import History
from fedfloor.weather.draws import Weather

#: channel of a gateway that does not take part
IDLE = -1


@dataclass(frozen=True, slots=True, eq=False)
class RoundState:
    """Everything a decision may depend on, also from earlier rounds, so that any round can be replayed from its log."""

    index: int  #: t, counted from 0
    seed: int
    plant: PlantArrays  #: the same in every round
    weather: Weather  #: of this round
    queue: Floats  #: (M,) [1] Q_m(t)
    target_rate: Floats  #: (M,) [1] Gamma_m
    last_loss: Floats  #: (M,) [1] training loss when the floor last took part; nan if it never did
    baseline: Baseline  #: fixed allocation of the policies that do not allocate
    history: History | None = None  #: the rounds before this one; None if the policy does not need it

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def floors(self) -> int:
        """M."""
        return self.plant.gateways.count

    @property
    def channels(self) -> int:
        """J."""
        return int(self.weather.uplink_gain.shape[1])

    @property
    def gain_up(self) -> Floats:
        """(M, J) [1] h^u_{m,j}(t), a short name of `weather.uplink_gain` for policies of users."""
        return self.weather.uplink_gain


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Resources of the floors that take part."""

    cut: Ints  #: (N,) [1] l_n(t)
    frequency: Floats  #: (N,) [Hz] f^G_{m,n}(t), of the gateway for this device
    power: Floats  #: (M,) [W] P_m(t)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Which floors take part, and on which channels; without an allocation the scenario's fixed one applies."""

    channel: Ints  #: (M,) [1] j with I_{m,j}(t) = 1, or IDLE
    allocation: Allocation | None = None
    weight: Floats | None = None  #: (M,) [1] factor of a floor's model in the average; None: 1 for all

    @property
    def selected(self) -> Bools:
        """Whether each floor takes part, (M,)."""
        return np.asarray(self.channel != IDLE)


class Scheduler(Protocol):
    """A policy: a small class with one pure method."""

    def schedule(self, state: RoundState) -> Decision:
        """Decide one round. Reads `state`, changes nothing: same state, same decision."""


def known_history(state: RoundState) -> History:
    """The earlier rounds, for a policy that says with `needs_history` that it needs them."""
    assert state.history is not None
    return state.history


def fixed_allocation(state: RoundState) -> Allocation:
    """Allocation of the baselines: one cut, a share of the frequency split equally, a share of the power."""
    gateways, devices = state.plant.gateways, state.plant.devices
    per_device = state.baseline.frequency_share * gateways.max_frequency / devices.on_floor(gateways.count)  # (M,)
    return Allocation(
        cut=np.full(devices.floor.size, state.baseline.cut),
        frequency=per_device[devices.floor],
        power=state.baseline.power_share * gateways.max_power,
    )
