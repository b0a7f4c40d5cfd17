"""What base station, gateways and devices say to each other: one frozen dataclass per message.

The annotation of a field is its row in the table of limits: what it may hold when it arrives. A field that may be None
may be missing. `wire.proto` has the same names and fields; a test compares the two.
"""

__all__ = [
    "Abandon",
    "Begin",
    "Bottom",
    "Boundary",
    "Compare",
    "Compared",
    "Distance",
    "Expected",
    "Failed",
    "Gradient",
    "Hello",
    "Inputs",
    "Message",
    "Model",
    "Order",
    "Present",
    "Profile",
    "Ready",
    "Received",
    "Refused",
    "Settled",
    "Share",
    "Slope",
    "Sums",
    "Survey",
    "Surveyed",
    "Trained",
    "Turn",
    "Welcome",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

import numpy.typing as npt

from fedfloor.arrays import Floats, Ints
from fedfloor.deploy.fields import (
    Document,
    Entries,
    Flag,
    Layout,
    Numbers,
    Real,
    Reals,
    Text,
    Whole,
    Wholes,
    fields_of,
)

Tensor = npt.NDArray[Any]

MOST_DEVICES = 4096  #: of a floor
MOST_CHANNELS = 4096  #: of an input sample
MOST_LAYERS = 4096
_NAME = Text(200)
_REMARK = Text(4096, shorten=True)
_JSON = Document(4 * 2**20)
_ANY = -math.inf


@dataclass(frozen=True, slots=True)
class Turn:
    """The round and the attempt that a message belongs to; attempt 0: it belongs to no round."""

    round: int = 0
    attempt: int = 0  #: from 1; grows when the base station restarts inside a round


@dataclass(frozen=True, slots=True, eq=False)
class Hello:
    """First message of the side that dials."""

    role: Annotated[str, _NAME]  #: gateway or device
    name: Annotated[str, _NAME]
    software: Annotated[str, _NAME]  #: version of fedfloor
    profile: Annotated[str, _JSON]  #: what the machine is, as JSON


@dataclass(frozen=True, slots=True, eq=False)
class Welcome:
    """First message of the side that was dialled, if the other may join."""

    task: Annotated[str, _JSON]  #: what there is to be done, as JSON


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """Last message of either side to one that it does not go on with."""

    reason: Annotated[str, _REMARK]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What the mean and the deviation of the inputs are agreed from, per channel."""

    count: Annotated[int, Whole(2**53)]  #: numbers per channel
    sum: Annotated[Floats, Reals(MOST_CHANNELS, _ANY)]
    square_sum: Annotated[Floats, Reals(MOST_CHANNELS)]
    devices: Annotated[int, Whole(MOST_DEVICES)] = 1  #: whose samples these are


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The agreed mean and deviation of the inputs, per channel."""

    mean: Annotated[Floats, Reals(MOST_CHANNELS, _ANY)]
    deviation: Annotated[Floats, Reals(MOST_CHANNELS)]


@dataclass(frozen=True, slots=True)
class Present:
    """A device that its gateway can reach."""

    name: Annotated[str, _NAME]
    energy_j: Annotated[float | None, Real()]  #: None: not measured


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A machine can take part in the next round; a gateway also says with which devices."""

    energy_j: Annotated[float | None, Real()]  #: None: not measured
    devices: Annotated[tuple[Present, ...], Entries(Present, MOST_DEVICES)] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What a gateway does in a round."""

    channel: Annotated[int, Whole()]
    power_w: Annotated[float, Real()]
    download_bps: Annotated[float, Real()]
    upload_bps: Annotated[float, Real()]
    download_s: Annotated[float, Real()]  #: predicted by the cost model, as the next two
    train_s: Annotated[float, Real()]
    upload_s: Annotated[float, Real()]
    cuts: Annotated[Ints, Wholes(MOST_DEVICES, MOST_LAYERS)]  #: per device of the floor, as is the next
    frequencies_hz: Annotated[Floats, Reals(MOST_DEVICES)]
    deadline_s: Annotated[float, Real()]
    weights: Annotated[Tensor, Numbers()]
    iterations: Annotated[int | None, Whole(10**6)] = None  #: of every device; None: as many as its task says


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """The gateway has the whole order."""


@dataclass(frozen=True, slots=True, eq=False)
class Begin:
    """What a device does in a round."""

    cut: Annotated[int, Whole(MOST_LAYERS)]
    iterations: Annotated[int, Whole(10**6)]
    frequency_hz: Annotated[float, Real()]
    train_s: Annotated[float, Real()]  #: how long its half takes by the cost model, for the actuator `pace`
    deadline_s: Annotated[float, Real()]
    weights: Annotated[Tensor, Numbers()]  #: of the bottom


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What a device sends across its cut."""

    iteration: Annotated[int, Whole()]
    scale: Annotated[float | None, Real()]  #: length of a step if the activations are rounded to whole steps
    activations: Annotated[Tensor, Numbers()]
    labels: Annotated[Tensor | None, Numbers()]  #: with the first iteration of a batch only


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """What the gateway sends back across the cut."""

    iteration: Annotated[int, Whole()]
    scale: Annotated[float | None, Real()]  #: length of a step if the gradient is rounded to whole steps
    gradient: Annotated[Tensor, Numbers()]


@dataclass(frozen=True, slots=True, eq=False)
class Bottom:
    """A device's half after training."""

    seconds: Annotated[float, Real()]  #: that it computed
    energy_j: Annotated[float | None, Real()]  #: None: not measured
    samples: Annotated[int, Whole(10**9)]  #: in its batch
    loss: Annotated[float | None, Real(_ANY)]  #: mean over the iterations, if it trained the whole network
    weights: Annotated[Tensor, Numbers()]


@dataclass(frozen=True, slots=True)
class Share:
    """What a device contributed to its floor's round."""

    name: Annotated[str, _NAME]
    seconds: Annotated[float, Real()]  #: that it computed
    link_s: Annotated[float, Real()]  #: that its link was busy
    energy_j: Annotated[float | None, Real()]  #: None: not measured


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A floor has trained; its model follows."""

    loss: Annotated[float, Real(_ANY)]
    points: Annotated[float, Real()]  #: sum of the samples of the devices that took part
    energy_j: Annotated[float | None, Real()]  #: of the gateway; None: not measured
    devices: Annotated[tuple[Share, ...], Entries(Share, MOST_DEVICES)]  #: those that took part


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A floor's averaged model, or its packed update as uint8."""

    weights: Annotated[Tensor, Numbers()]


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """The sender gives up this round, not the plant."""

    reason: Annotated[str, _REMARK]


@dataclass(frozen=True, slots=True, eq=False)
class Abandon:
    """The base station no longer waits for this round of the floor."""


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The round is over."""

    completed: Annotated[bool, Flag()]  #: the floor's model was used


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Request for the gradients that participation rates are estimated from; gateways hand it on to their devices."""

    samples: Annotated[int, Whole(10**9)]  #: of a device that are looked at, at most
    deadline_s: Annotated[float, Real()]
    weights: Annotated[Tensor, Numbers()]  #: of the whole network, at which gradients are taken


@dataclass(frozen=True, slots=True)
class Slope:
    """What a device found of its gradients."""

    name: Annotated[str, _NAME]
    samples: Annotated[int, Whole(10**12)]  #: that it holds, which is its weight in a mean
    sigma: Annotated[float, Real()]  #: spread of the gradients of its samples
    norm: Annotated[float, Real()]
    smoothness: Annotated[float, Real()]  #: along its own gradient


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """What a device found, or all devices of a floor that answered in time."""

    devices: Annotated[tuple[Slope, ...], Entries(Slope, MOST_DEVICES)]
    gradient: Annotated[Tensor, Numbers()]  #: mean over the samples that these devices hold


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """The mean gradient of all devices, with which each compares its own."""

    deadline_s: Annotated[float, Real()]
    gradient: Annotated[Tensor, Numbers()]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a device's gradient is from the mean."""

    name: Annotated[str, _NAME]
    delta: Annotated[float, Real()]
    smoothness: Annotated[float, Real()]  #: along the mean gradient


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The comparison of a device, or of all devices of a floor that answered in time."""

    devices: Annotated[tuple[Distance, ...], Entries(Distance, MOST_DEVICES)]


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What a machine says about itself once it knows its task; gateways hand on those of their devices."""

    profile: Annotated[str, _JSON]


Message = (
    Hello | Welcome | Refused | Sums | Inputs | Ready | Order | Received | Begin | Boundary | Gradient | Bottom
    | Trained | Model | Failed | Abandon | Settled | Survey | Surveyed | Compare | Compared | Profile
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """A message that the receiver is prepared for, with the layouts of its tensors; other layouts are refused.

    Every tensor of the message needs a layout. None: this tensor must be missing.
    """

    message: type[Message]
    tensors: Mapping[str, Layout | None] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        names = {row.name for row in fields_of(self.message) if type(row.kind) is Numbers}
        assert names == set(self.tensors), f"{self.message.__name__} has the tensors {sorted(names)}"
