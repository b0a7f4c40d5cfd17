"""Which runs every part of the study needs."""

__all__ = [
    "BEGUN",
    "BEST",
    "CLAIMED",
    "CLAIM_ROUNDS",
    "DOSES",
    "EVERY",
    "FAST_ROUNDS",
    "FEW",
    "FINALS",
    "ORACLE",
    "OURS",
    "PAPER",
    "PARTS",
    "PUBLISHED",
    "RACE",
    "RACED",
    "SCENARIOS",
    "SEEDS",
    "SHARED",
    "STEADY",
    "TRIED",
    "TUNING",
    "UNSEEN",
    "Variant",
    "as_published",
    "compared",
    "dosed",
    "finalists",
    "raced",
    "racing",
    "simulated",
    "tried",
    "with_levers",
]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType

from benchmarks.study.data import PLANT_SEED
from benchmarks.study.runs import Run

SEEDS = range(1, 11)  #: that results are reported of
TUNING = range(101, 104)  #: seeds that settings are chosen on
UNSEEN = range(4, 11)  #: of these, those that had not run when V = 1 was chosen
FEW = range(1, 4)  #: seeds of every variant; the best ones get all
SHARED = range(1, 5)  #: seeds that show the share of every lever: as many as an interval needs
PAPER = ("paper-cifar10", "paper-svhn")
SCENARIOS = (*PAPER, "specialists", "factory")
_NARROW = "model.width=0.0625"
_PAPER_SCALE = f"{_NARROW} participation.estimate_every=25 costs.width=1.0"
#: what is trained is narrower than the preset's network; delays, energies and memory are those of the preset
_SCALE = MappingProxyType(
    {
        "paper-cifar10": _PAPER_SCALE,
        "paper-svhn": _PAPER_SCALE,
        "factory": f"{_NARROW} participation.estimate_every=100 costs.width=0.25 plant_seed={PLANT_SEED}",
        "specialists": "",
    }
)
#: tests on fewer images, for all parts but `levers`
_FEWER_TESTS = MappingProxyType(
    {
        "paper-cifar10": "data.name=benchmarks.study.data:cifar10",
        "paper-svhn": "data.name=benchmarks.study.data:svhn",
        "factory": "data.name=benchmarks.study.data:factory",
    }
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy and settings of learning."""

    policy: str
    settings: tuple[str, ...] = ()
    fewer_tests: bool = False  #: whether it is tested on a part of the test set

    def on(self, scenario: str, seed: int, rounds: int) -> Run:
        """Its run."""
        tests = _FEWER_TESTS.get(scenario, "") if self.fewer_tests else ""
        settings = " ".join([*_SCALE[scenario].split(), *tests.split(), *self.settings])
        return Run(scenario, self.policy, settings, seed, rounds)


#: Algorithm 1 with the V that the paper's claims are about
PUBLISHED = Variant("ddsra:v=0.01,solver=paper")
_EXACT = "ddsra:v=0.1"
#: what our best setting has beyond the published one; the solver is a lever too
LEVERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "8 bits up, 16 bits down": ("precision.upload=8", "precision.download=16"),
        "averaged model": ("aggregation.averaged_decay=0.8",),
        "learning rate 0.05": ("training.learning_rate=0.05",),
        "fresh batches": ("training.redraw_batch=true",),
        "FedExP": ("aggregation.rule=fedexp",),
    }
)
SOLVER = "exact solver, V = 0.1"


def with_levers(names: Sequence[str]) -> Variant:
    """The published setting with some levers."""
    policy = _EXACT if SOLVER in names else PUBLISHED.policy
    return Variant(policy, tuple(entry for name in names if name != SOLVER for entry in LEVERS[name]))


EVERY = (SOLVER, *LEVERS)
STEADY = with_levers(EVERY)  #: all levers with a small V; shares of levers are measured by leaving each out of this
RACED = replace(
    STEADY, policy="ddsra:v=1"
)  #: with the V that was chosen on other seeds; all on the leaderboard learn so
_MOMENTUM = ("aggregation.rule=fedavgm", "aggregation.settings={momentum=0.5}")
#: server momentum in place of FedExP, chosen on other seeds too
BEST = replace(RACED, settings=(*(entry for entry in RACED.settings if "aggregation.rule" not in entry), *_MOMENTUM))


FAST_ROUNDS = 150  #: of runs with most levers, and with one


def levers() -> list[Run]:
    """Published and all levers with all seeds, all but one lever with some."""
    without = [with_levers([other for other in EVERY if other != name]) for name in EVERY]
    runs = [PUBLISHED.on(scenario, seed, 300) for seed, scenario in product(SEEDS, PAPER)]
    runs += [
        ours.on(scenario, seed, FAST_ROUNDS) for seed, scenario, ours in product(SEEDS, PAPER, (STEADY, RACED, BEST))
    ]
    return runs + [part.on(scenario, seed, FAST_ROUNDS) for seed, scenario, part in product(SHARED, PAPER, without)]


def alone() -> list[Run]:
    """Each lever by itself, with few seeds, for half as many rounds as the published setting has."""
    return [with_levers([name]).on(PAPER[0], seed, FAST_ROUNDS) for seed, name in product(FEW, EVERY)]


#: of Figs. 4 to 6; `random` is only compared by the floor-rounds that it completes, which simulations show
CLAIMED = ("ddsra:v=0.01", "round_robin", "delay_driven", "ddsra:v=10000", "loss_driven")


#: rounds of the runs that decide the paper's claims; SVHN is learnt late
CLAIM_ROUNDS = MappingProxyType({"paper-cifar10": 150, "paper-svhn": 200})


def as_published(policy: str) -> Variant:
    """A policy with learning as the paper has it."""
    return Variant(policy, fewer_tests=True)


def claims() -> list[Run]:
    """The paper's comparison, learning as published."""
    every = product(SEEDS, PAPER, CLAIMED)
    return [as_published(policy).on(scenario, seed, CLAIM_ROUNDS[scenario]) for seed, scenario, policy in every]


#: rounds of a run on the leaderboard; SVHN is learnt late
RACE = MappingProxyType({"paper-cifar10": 60, "paper-svhn": 100, "specialists": 40, "factory": 20})
#: rounds of the best policies, which have all seeds; 20 rounds of `factory` do not tell what participation is worth
FINALS = MappingProxyType({**RACE, "factory": 60})
#: [s] delays of single floors under `random` with the exact and with the fixed allocation, simulated with seed 101: the
#: median and the 90 % quantile. Rules whose settings are seconds get theirs from these; see docs/reproduce.md
_DELAYS: Mapping[str, Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "paper-cifar10": {"exact": (12.4, 19.0), "fixed": (21.0, 23.4)},
        "paper-svhn": {"exact": (12.4, 19.0), "fixed": (21.0, 23.4)},
        "specialists": {"exact": (0.87, 1.4), "fixed": (0.91, 1.4)},
        "factory": {"exact": (0.55, 0.71), "fixed": (1.4, 1.6)},
    }
)
#: J/M, squared: with this share of the median delay as lambda, `lyapunov` serves about J floors by itself
_SERVED = MappingProxyType({"paper-cifar10": 0.25, "paper-svhn": 0.25, "specialists": 0.25, "factory": 0.09})


def selecting(scenario: str, allocation: str) -> list[str]:
    """Rules that select floors, with an allocation; what they need to know of a plant is known."""
    median, most = _DELAYS[scenario][allocation]
    convergence = _SERVED[scenario] * median
    rules = [
        "random", "round_robin", "participation", "delay_driven", "loss_driven", "oort", "cs_ucb_q", "power_of_choice",
        f"tifl:rounds={RACE[scenario]}", f"fedcs:deadline_s={median:g}", f"fedcs:deadline_s={most:g}",
        f"lyapunov:convergence={convergence:.2g},v=1", f"lyapunov:convergence={convergence:.2g}",
    ]  # fmt: skip
    return rules if allocation == "fixed" else [allocating(rule, allocation) for rule in rules]


def allocating(policy: str, allocation: str) -> str:
    """A selecting policy with another allocation than the fixed one, which is its default."""
    return f"{policy}{',' if ':' in policy else ':'}allocation={allocation}"


#: our policy, which the others are compared with: with the V that was best on the seeds that settings are chosen on
OURS = MappingProxyType(
    {"paper-cifar10": RACED.policy, "paper-svhn": RACED.policy, "specialists": "ddsra:v=10", "factory": "ddsra:v=1000"}
)
#: what a floor with the mean loss is owed beside its queue, chosen on other seeds
_LOSS = 2.0


def loss_debts(scenario: str, loss: float = _LOSS) -> str:
    """Ours, with queues that also count losses."""
    return f"{OURS[scenario].replace('ddsra', 'ddsra_loss')},loss={loss:g}"


DDSRA = ("ddsra:v=0.01", "ddsra:v=0.1", "ddsra:v=1", "ddsra:v=1000")


def compared(scenario: str) -> list[str]:
    """Our policies, ddsra with four V and the one that was chosen, and each rule with our allocation."""
    return [*dict.fromkeys([*DDSRA, OURS[scenario]]), *_counting_losses(scenario), *selecting(scenario, "exact")]


def _counting_losses(scenario: str) -> list[str]:
    """Ours with losses; none on `factory`, where V weighs a tenth of a second as much as a hundred rounds."""
    return [] if scenario == "factory" else [loss_debts(scenario)]


_OTHER_CUTS = tuple(allocating("random", allocation) for allocation in ("one_cut", "dtfl"))


def simulated(scenario: str) -> list[str]:
    """Also each rule with the fixed allocation, and other ways to choose cuts."""
    return [*compared(scenario), *selecting(scenario, "fixed"), *_OTHER_CUTS]


def raced(scenario: str) -> list[str]:
    """Everything on the leaderboard. Of rules with the fixed allocation, only the paper's are trained, on two plants.

    Cuts change delays, not what is learnt, so one plant is enough for other ways to choose them.
    """
    fixed = ("random", "round_robin", "delay_driven", "loss_driven") if scenario in (PAPER[0], "specialists") else ()
    return [*compared(scenario), *fixed, *(_OTHER_CUTS if scenario == PAPER[0] else ())]


def racing(policy: str) -> Variant:
    """A policy on the leaderboard: all learn with all levers."""
    return Variant(policy, RACED.settings, fewer_tests=True)


#: the four best rivals with our allocation, which get all seeds, beside ddsra: those that reach the level soonest with
#: few seeds; on `factory`, where the fastest end before it, the first two of these and of those ahead at equal time
_FINALISTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        scenario: tuple(allocating(rule, "exact") for rule in rules)
        for scenario, rules in {
            "paper-cifar10": ("oort", "power_of_choice", "participation", "cs_ucb_q"),
            "paper-svhn": ("participation", "power_of_choice", "round_robin", "tifl:rounds=100"),
            "specialists": ("round_robin", "cs_ucb_q", "tifl:rounds=40", "lyapunov:convergence=0.22"),
            "factory": ("power_of_choice", "participation", "fedcs:deadline_s=0.55", "delay_driven"),
        }.items()
    }
)
#: ours with another V, with all seeds; on CIFAR-10 also with losses, because a rival learns more per round there
_OTHER_V: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "paper-cifar10": (STEADY.policy, f"{STEADY.policy.replace('ddsra', 'ddsra_loss')},loss={_LOSS:g}"),
        "paper-svhn": (),
        "specialists": (RACED.policy,),
        "factory": (RACED.policy,),
    }
)


def finalists(scenario: str) -> list[str]:
    """Policies that have all seeds: ours, with losses and with another V, and the best of the others."""
    return [OURS[scenario], *_counting_losses(scenario), *_OTHER_V[scenario], *_FINALISTS[scenario]]


def leaderboard() -> list[Run]:
    """Every variant with few seeds, first those with our allocation; the best ones with all."""
    few = [(scenario, seed, policy) for scenario in SCENARIOS for seed in FEW for policy in compared(scenario)]
    few += [(scenario, seed, policy) for scenario in SCENARIOS for seed in FEW for policy in raced(scenario)]
    best = [(scenario, seed, policy) for scenario in SCENARIOS for seed in SEEDS for policy in finalists(scenario)]
    runs = [racing(policy).on(scenario, seed, FINALS[scenario]) for scenario, seed, policy in best]
    return [*runs, *(racing(policy).on(scenario, seed, RACE[scenario]) for scenario, seed, policy in few)]


#: the share of floors that complete when their turn comes
DOSES = (0.78, 0.5, 0.3, 0.15, 0.05)
ORACLE = "benchmarks.study.policies:Always"


def dosed(share: float) -> str:
    """Round robin of which a share of the floors completes."""
    return f"benchmarks.study.policies:Thinned:share={share:g}"


def reasons() -> list[Run]:
    """Why accuracy gains appear or not: an oracle, a longer horizon, and fewer completed rounds."""
    scenario, rounds = PAPER[0], CLAIM_ROUNDS[PAPER[0]]
    oracles = [as_published(ORACLE).on(scenario, seed, rounds) for seed in SHARED]
    doses = [as_published(dosed(share)).on(scenario, seed, rounds) for seed, share in product(FEW, DOSES)]
    pairs = product(FEW, ("ddsra:v=0.01", "round_robin"))
    long = [as_published(policy).on(scenario, seed, 900) for seed, policy in pairs]
    return [*oracles, *doses, *long]


_SERVER_MOMENTUM = " ".join(_MOMENTUM)
#: what had helped by itself, together
_TOGETHER = (
    *(
        f"{policy} {settings}"
        for policy in (RACED.policy, loss_debts(PAPER[0]))
        for settings in (_SERVER_MOMENTUM, f"{_SERVER_MOMENTUM} training.extra_iterations=5")
    ),
    f"{RACED.policy} {_SERVER_MOMENTUM.replace('0.5', '0.7')}",
    f"{RACED.policy} training.extra_iterations=5",
)
#: the policy with which settings were tried
BEGUN = MappingProxyType(
    {"paper-cifar10": "ddsra:v=0.1", "paper-svhn": "ddsra:v=0.1", "specialists": "ddsra:v=1", "factory": "ddsra:v=1"}
)
#: what was tried in place of a part of the setting, or beside it, by scenario and rounds; "" is the setting itself
TRIED: Mapping[tuple[str, int], tuple[str, ...]] = MappingProxyType(
    {
        ("paper-cifar10", 60): (
            "", "ddsra:v=1", "ddsra:v=3", *(loss_debts("paper-cifar10", loss) for loss in (0.5, 1.0, 2.0, 5.0)),
            "aggregation.rule=mean", "aggregation.rule=fedvarp", "aggregation.rule=fedstale",
            _SERVER_MOMENTUM, "aggregation.rule=fedyogi",
            "aggregation.weights=fedau", "training.momentum=0.5 training.learning_rate=0.025",
            "training.schedule=cosine", "training.extra_iterations=5", "training.local_iterations=3",
            *_TOGETHER,
        ),
        ("paper-svhn", 100): (
            "", "ddsra:v=1", "ddsra:v=3", *(loss_debts("paper-svhn", loss) for loss in (0.5, 1.0, 2.0, 5.0)),
            *_TOGETHER,
        ),
        ("specialists", 40): ("", "ddsra:v=0.3", "ddsra:v=3", "ddsra:v=10", "ddsra:v=30"),
        ("factory", 20): ("", "ddsra:v=10", "ddsra:v=30", "ddsra:v=100", "ddsra:v=1000"),
        ("factory", 60): ("", "ddsra:v=30", "ddsra:v=100", "ddsra:v=1000"),
    }
)  # fmt: skip


def tried(scenario: str, change: str) -> Variant:
    """Our setting with a change: another policy, entries of --set, or both."""
    ours, entries = racing(BEGUN[scenario]), change.split()
    if entries and ":" in entries[0].partition("=")[0]:
        ours = replace(ours, policy=entries.pop(0))
    keys = {entry.partition("=")[0] for entry in entries}
    kept = tuple(entry for entry in ours.settings if entry.partition("=")[0] not in keys)
    return replace(ours, settings=(*kept, *entries))


def tuning() -> list[Run]:
    """What was tried on seeds that no result is reported of."""
    return [
        tried(scenario, change).on(scenario, seed, rounds)
        for (scenario, rounds), changes in TRIED.items()
        for change in changes
        for seed in TUNING
    ]


PARTS: Mapping[str, Callable[[], list[Run]]] = MappingProxyType(
    {
        "levers": levers,
        "claims": claims,
        "leaderboard": leaderboard,
        "reasons": reasons,
        "alone": alone,
        "tuning": tuning,
    }
)
