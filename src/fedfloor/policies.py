"""The policies of this package as classes, and what a policy of your own is made of.

>>> import fedfloor
>>> from fedfloor.policies import Ddsra
>>> fedfloor.simulate("quick", Ddsra(v=1), rounds=2)
Run(quick, ddsra:v=1, 2 rounds, folder=None)
"""

__all__ = [
    "IDLE",
    "Allocation",
    "CsUcbQ",
    "Ddsra",
    "DdsraLoss",
    "Decision",
    "DelayDriven",
    "FedCs",
    "LossDriven",
    "Lyapunov",
    "Oort",
    "ParticipationRate",
    "PowerOfChoice",
    "RandomScheduler",
    "RoundRobinScheduler",
    "RoundState",
    "Scheduler",
    "TiFL",
    "allocated",
    "fixed_allocation",
    "usage_of",
]

from fedfloor.scheduling.allocating import allocated
from fedfloor.scheduling.policies.cs_ucb_q import CsUcbQ
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.policies.ddsra_loss import DdsraLoss
from fedfloor.scheduling.policies.delay_driven import DelayDriven
from fedfloor.scheduling.policies.fedcs import FedCs
from fedfloor.scheduling.policies.loss_driven import LossDriven
from fedfloor.scheduling.policies.lyapunov import Lyapunov
from fedfloor.scheduling.policies.oort import Oort
from fedfloor.scheduling.policies.participation import ParticipationRate
from fedfloor.scheduling.policies.power_of_choice import PowerOfChoice
from fedfloor.scheduling.policies.random import RandomScheduler
from fedfloor.scheduling.policies.round_robin import RoundRobinScheduler
from fedfloor.scheduling.policies.tifl import TiFL
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState, Scheduler, fixed_allocation
from fedfloor.scheduling.usage import usage_of
