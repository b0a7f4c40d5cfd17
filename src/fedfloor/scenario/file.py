"""Every table of a scenario file, in the reader's units; `expand.py` turns them into a plant in SI units."""

__all__ = [
    "LONGEST_NAME",
    "Aggregation",
    "Baseline",
    "BatteryFile",
    "Deploy",
    "DeviceGroup",
    "FloorGroup",
    "GatewayGroup",
    "Hardware",
    "Link",
    "Participation",
    "Policy",
    "Precision",
    "RadioFile",
    "ScenarioFile",
    "Traces",
    "Training",
]

import math
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, Strict, ValidationInfo, field_validator, model_validator

from fedfloor.errors import shown
from fedfloor.scenario.catalogue import DATASETS
from fedfloor.scenario.data import Data
from fedfloor.scenario.model import MODEL_SETTINGS, Costs, Model
from fedfloor.scenario.numbers import Number, Range
from fedfloor.scenario.section import Flag, Int0, Int1, Level, PositiveReal, Section, finding

LONGEST_NAME = 250  #: characters of a floor or device, its number and its floor included
_LETTERS = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Label = Annotated[str, Field(min_length=1, max_length=100, pattern=_LETTERS)]  #: becomes a part of folder names
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=_LETTERS)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Positive = Annotated[Number, Range(above=0)]
NonNegative = Annotated[Number, Range(at_least=0)]
Rate = Annotated[
    Number, Range(above=0, at_most=math.inf, advice="Give a positive rate, or leave it out if sending takes no time")
]
Count = Annotated[Number, Range(at_least=1, at_most=1e9, whole=True)]
ProfilePath = Annotated[str, Field(min_length=1)]


def _plain_settings(settings: object) -> object:
    """Refuse settings that cannot be written in a name: lists, tables and numbers that are too long or not finite."""
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if not isinstance(value, bool | int | float | str):
            raise finding(f"must be a number, true, false or a string in quotes, got {shown(value)}", below=str(key))
        if isinstance(value, int) and abs(value) >= 10**100:
            raise finding(f"must be a number below 10^100, got {shown(value)}", below=str(key))
        if isinstance(value, float) and not math.isfinite(value):
            raise finding(f"must be a finite number, got {value}", below=str(key))
    return settings


class Training(Section):
    """Local training in a round."""

    task: Literal["classification", "regression"] = "classification"
    """what the network gives: a class of several, with cross-entropy as loss, or a number, with the squared error"""
    local_iterations: Int1 = 5
    """K, gradient steps per round"""
    learning_rate: PositiveReal = 0.01
    """beta, step size of the gradient descent"""
    batch_fraction: Share = 0.05
    """alpha, share of a device's samples in its batch"""
    redraw_batch: Flag = False
    """draw a new batch in every iteration instead of one per round"""
    min_cut: Int0 = 0
    """least number of layers that stay on a device; with 0 raw samples may leave it"""
    evaluate_every: Int1 = 5
    """rounds between two evaluations on the test set; the last 20 rounds, or the last fifth, are all tested"""
    checkpoint_every: Int1 = 5
    """rounds between two checkpoints"""
    halves: Literal["joined", "apart"] = "joined"
    """train the two halves of the network in one piece, which gives the same weights, or apart as real machines do"""
    extra_iterations: Annotated[int, Strict(), Field(ge=0, le=100)] = 0
    """most gradient steps per round that a floor adds to K while it would wait for slower ones"""
    momentum: Annotated[float, Strict(), Field(ge=0, le=0.9999)] = 0.0
    """mu of heavy-ball momentum inside a round; the velocity is dropped at its end"""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """of the learning rate over rounds"""
    schedule_rounds: Int1 = 100
    """of `cosine`: rounds until the rate is lowest, where it stays; of `step`: rounds between two steps"""
    schedule_factor: Share = 0.1
    """of `cosine`: the lowest rate as a share of `learning_rate`; of `step`: factor of every step"""

    @property
    def predicts_numbers(self) -> bool:
        """Whether the network predicts a number in place of a class."""
        return self.task == "regression"

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> Self:
        for key in ("schedule_rounds", "schedule_factor"):
            value = getattr(self, key)
            if self.schedule == "constant" and value != type(self).model_fields[key].default:
                problem = f"has no effect while training.schedule is constant, got {shown(value)}"
                raise finding(f"{problem}. Set the schedule to cosine or step, or leave it out", below=key)
        return self


class Precision(Section):
    """Bits per number of what is sent; 32 everywhere is the same as leaving the section out."""

    upload: Literal[32, 16, 8] = 32
    """update of the model that a gateway sends to the base station; below 32 it is rounded, and the error kept"""
    download: Literal[32, 16] = 32
    """weights that the base station sends to the gateways"""
    boundary: Literal[32, 16, 8] = 32
    """activations that a device sends to its gateway, and their gradients on the way back"""

    @field_validator("upload", "download", "boundary", mode="before")
    @classmethod
    def _bits_are_known(cls, bits: object, info: ValidationInfo) -> object:
        known = get_args(cls.model_fields[str(info.field_name)].annotation)
        if type(bits) is not int or bits not in known:
            choice = f"{', '.join(map(str, known[:-1]))} or {known[-1]}"
            raise finding(f"must be {choice} bits, got {shown(bits)}. Set one of them, or leave it out for 32")
        return bits


class Aggregation(Section):
    """How the base station makes the next model from those of the floors; the defaults average them."""

    rule: Annotated[str, Field(min_length=1)] = "mean"
    """name of a rule, as `fedfloor list` shows them, or `package.module:Class`"""
    settings: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """settings of the rule, as in {momentum = 0.9}"""
    weights: Literal["points", "fedau"] = "points"
    """of the floors in the mean: their batch sizes, or these times the mean gap between the rounds they complete"""
    averaged_decay: Annotated[float, Strict(), Field(ge=0, le=0.9999)] = 0.0
    """d, decay per round of an exponential mean of the global weights, which is tested and exported; 0: no mean"""

    _settings_can_be_written = field_validator("settings", mode="before")(_plain_settings)


class RadioFile(Section):
    """Channels between the gateways and the base station."""

    channels: Int1
    """J, at most this many floors take part in a round"""
    uplink_bandwidth_mhz: PositiveReal = 1.0
    """B_u, bandwidth of one channel to the base station"""
    downlink_bandwidth_mhz: PositiveReal = 20.0
    """B_d, bandwidth of one channel from the base station"""
    noise_dbm_per_hz: Level = -174.0
    """N_0, power density of the noise"""
    base_station_power_w: PositiveReal = 1.0
    """P_BS, transmit power of the base station"""
    reference_gain_db: Level = -30.0
    """h_0, gain at the reference distance"""
    reference_distance_m: PositiveReal = 1.0
    """d_0, where `reference_gain_db` holds"""
    path_loss_exponent: Annotated[float, Strict(), Field(ge=0, le=20)] = 2.0
    """nu: 2 in free space, about 3 in a hall full of machines"""


class Link(Section):
    """Link between a device and its gateway; without one, what they exchange takes no time and no energy."""

    rate_up_mbps: Rate | None = None
    """from the device to the gateway; without it, or with `inf`, a transfer takes no time"""
    rate_down_mbps: Rate | None = None
    """from the gateway to the device"""
    device_up_nj_per_bit: NonNegative = 0.0
    """energy that the device spends on what it sends"""
    device_down_nj_per_bit: NonNegative = 0.0
    """energy that the device spends on what it receives"""
    gateway_up_nj_per_bit: NonNegative = 0.0
    """energy that the gateway spends on what the device sends"""
    gateway_down_nj_per_bit: NonNegative = 0.0
    """energy that the gateway spends on what it sends"""


class Hardware(Section):
    """A class of devices, to be named by `hardware` in a device group."""

    frequency_ghz: Positive
    """f_n, clock of the processor"""
    flops_per_cycle: Positive
    """phi_n, floating-point operations per clock cycle, all cores together"""
    switched_capacitance: Positive
    """v_n [W/Hz^3], (power under load - idle power) / frequency^3"""
    memory_gb: Positive
    """G_n, memory that training may use"""
    max_energy_j: NonNegative
    """E_n^max, most energy that arrives in a round"""
    link: Link | None = None
    """link of each device of the class to its gateway"""
    profile: ProfilePath | None = None
    """hardware profile with measured costs; its path is relative to the scenario"""
    source: str = ""
    """where the values come from"""


class DeviceGroup(Section):
    """One device, or `count` devices alike."""

    name: Name = "device"
    """a group numbers it, `<floor>.<name>-1` and so on; a single device of a single floor keeps it"""
    count: Int1 | None = None
    """number of devices on each floor of the group"""
    samples: Count
    """D_n, data points the device holds"""
    held: Int1 | None = None
    """data points that were left for it where its classes ran out; written by runs"""
    hardware: str | None = None
    """class from [hardware.<class>] that gives what is not given here"""
    frequency_ghz: Positive | None = None
    """f_n, clock of the processor"""
    flops_per_cycle: Positive | None = None
    """phi_n, floating-point operations per clock cycle, all cores together"""
    switched_capacitance: Positive | None = None
    """v_n [W/Hz^3], (power under load - idle power) / frequency^3"""
    memory_gb: Positive | None = None
    """G_n, memory that training may use"""
    max_energy_j: NonNegative | None = None
    """E_n^max, most energy that arrives in a round"""
    profile: ProfilePath | None = None
    """hardware profile with measured costs, in place of the hardware class's"""
    link: Link | None = None
    """link of each device to its gateway, in place of the hardware class's or the floor's"""


class GatewayGroup(Section):
    """The gateway of each floor of the group."""

    distance_m: Positive
    """d_m, to the base station"""
    flops_per_cycle: Positive
    """phi_m, floating-point operations per clock cycle, all cores together"""
    switched_capacitance: Positive
    """v_m [W/Hz^3], (power under load - idle power) / frequency^3"""
    min_frequency_ghz: NonNegative = 0.0
    """f_m^min, lowest clock while it trains"""
    max_frequency_ghz: Positive
    """f_m^max, highest clock"""
    memory_gb: Positive
    """G_m, memory that training may use"""
    max_energy_j: NonNegative
    """E_m^max, most energy that arrives in a round"""
    max_power_mw: Positive
    """P_m^max, greatest transmit power"""
    uplink_interference_w: NonNegative = 0.0
    """deviation of the half-normal interference; a list or distribution has a value for every floor and channel"""
    downlink_interference_w: NonNegative = 0.0
    """the same at the receiver of the gateway"""
    profile: ProfilePath | None = None
    """hardware profile with measured costs; its path is relative to the scenario"""


class FloorGroup(Section):
    """One shop floor, or `count` floors alike."""

    name: Name = "floor"
    """a group numbers it, `<name>-1` and so on; the numbers go on over groups of the same name"""
    count: Int1 | None = None
    """number of floors"""
    classes_per_device: Count | None = None
    """q_m, how many classes each device of the floor holds; all if not given"""
    classes: Annotated[tuple[Int0, ...], Field(min_length=1)] | None = None
    """labels that each device of the floor holds, in place of drawn ones"""
    gateway: GatewayGroup
    """the floor's gateway"""
    link: Link | None = None
    """medium that the devices without a link of their own share: each gets the rate divided by their number"""
    devices: Annotated[tuple[DeviceGroup, ...], Field(min_length=1)]
    """the floor's devices"""

    @model_validator(mode="after")
    def _classes_are_said_once(self) -> Self:
        if self.classes is None:
            return self
        if self.classes_per_device is not None:
            raise finding("says the same as classes_per_device. Leave one of the two out", below="classes")
        if len(set(self.classes)) < len(self.classes):
            raise finding(f"must name every label once, got {shown(list(self.classes))}", below="classes")
        return self


class BatteryFile(Section):
    """What carries unspent energy to the next round; it starts empty, and without it what is not spent is lost."""

    gateway_capacity_j: NonNegative | None = None
    """most energy a gateway carries over; a list or distribution has a value for every floor"""
    device_capacity_j: NonNegative | None = None
    """most energy a device carries over; a list or distribution has a value for every device, floor by floor"""


class Baseline(Section):
    """Fixed allocation of every policy but ddsra."""

    cut: Int0
    """layers on the device"""
    frequency_share: Share
    """of the gateway's greatest frequency, split equally over the floor's devices"""
    power_share: Share = 1.0
    """of the gateway's greatest transmit power"""


class Participation(Section):
    """How often each floor should take part."""

    rates: Literal["estimated", "updates", "uniform"] | tuple[Share, ...] = "uniform"
    """of training runs: `estimated` from gradients, or from the floors' `updates`; `uniform`; or one rate per floor"""
    simulated_rates: Literal["uniform"] | tuple[Share, ...] = "uniform"
    """what a simulation without training uses in place of rates that training gives"""
    estimate_every: Int1 = 10
    """rounds between two estimates of the rates"""
    estimate_samples: Int1 = 64
    """most samples of a device whose gradients are looked at in an estimate"""
    observe_every: Int0 = 0
    """rounds between two measurements of how far floors diverge, in which all floors train; 0 for never"""

    @field_validator("rates", "simulated_rates", mode="before")
    @classmethod
    def _rates_are_shares(cls, raw: object, info: ValidationInfo) -> object:
        words = ("estimated", "updates", "uniform") if info.field_name == "rates" else ("uniform",)
        if isinstance(raw, list | tuple):
            Range(above=0, at_most=1).parse(raw)
        elif raw not in words:
            raise finding(f"must be {' or '.join(map(repr, words))} or a list of rates, got {shown(raw)}")
        return raw


class Deploy(Section):
    """What a run on real machines may ask of them; the defaults are the same as leaving the section out."""

    allow_samples: Flag = False
    """let samples leave a device, which happens at cut 0"""
    allow_gradients: Flag = False
    """let gradients of a device's loss leave it, which estimated participation rates need"""
    allow_class_counts: Flag = False
    """let a device tell how many samples of each class it holds"""
    gains: Literal["weather", "measured"] = "weather"
    """gains of the radio: drawn or recorded, as in simulations, or from the rates of the last transfers"""
    energy: Literal["weather", "reported"] = "weather"
    """energy of a round: drawn or recorded, as in simulations, or what the machines report"""
    measure: Flag | None = None
    """have machines without a hardware profile measure their layers before the first round; not given, false"""
    deadline_factor: Annotated[float, Strict(), Field(ge=1, le=1e6)] = 3.0
    """a floor is lost if it takes longer than this multiple of the predicted time and the margin"""
    deadline_margin_s: Annotated[float, Strict(), Field(ge=0, le=1e6)] = 10.0
    """added to every deadline"""

    @field_validator("measure")
    @classmethod
    def _default_of_measure_counts_as_absent(cls, measure: bool | None) -> bool | None:
        return measure or None


class Policy(Section):
    """Who decides each round."""

    name: Annotated[str, Field(min_length=1)] = "ddsra"
    """name of a policy, or `package.module:Class`"""
    settings: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """settings of the policy, as in {v = 1000.0}"""

    _settings_can_be_written = field_validator("settings", mode="before")(_plain_settings)


class Traces(Section):
    """Recorded CSV files in place of random draws; paths are relative to the scenario."""

    uplink_gain: str | None = None
    """columns round, floor, channel, gain"""
    downlink_gain: str | None = None
    """columns round, floor, channel, gain"""
    uplink_interference: str | None = None
    """columns round, floor, channel, interference_w"""
    downlink_interference: str | None = None
    """columns round, floor, channel, interference_w"""
    gateway_energy: str | None = None
    """columns round, floor, energy_j"""
    device_energy: str | None = None
    """columns round, device, energy_j"""


class ScenarioFile(Section):
    """A scenario: plant, network, training and policy."""

    name: Label
    """label in reports and folder names"""
    seed: Int0 = 0
    """seed of every random draw, or of all but the plant's if `plant_seed` is given"""
    plant_seed: Int0 | None = None
    """seed of what the plant is: the numbers drawn here, and which device holds which samples; `seed` if not given"""
    rounds: Annotated[int, Strict(), Field(ge=1, le=10**7)] = 100
    """T, number of rounds"""
    limits: Flag = True
    """check energy and memory; without, no floor ever fails"""
    model: Model
    costs: Costs = Costs()
    training: Training = Training()
    data: Data = Data()
    precision: Precision = Precision()
    aggregation: Aggregation = Aggregation()
    radio: RadioFile
    hardware: dict[str, Hardware] = Field(default_factory=dict)
    floors: Annotated[tuple[FloorGroup, ...], Field(min_length=1)]
    battery: BatteryFile | None = None
    baseline: Baseline
    participation: Participation = Participation()
    deploy: Deploy = Deploy()
    policy: Policy = Policy()
    traces: Traces = Traces()

    @property
    def seed_of_plant(self) -> int:
        """Seed of the numbers that are drawn for the plant."""
        return self.seed if self.plant_seed is None else self.plant_seed

    @model_validator(mode="after")
    def _model_fits_the_data(self) -> Self:
        dataset = DATASETS.get(self.data.name)
        if dataset is not None and self.model.input != dataset.input:
            got = shown(list(self.model.input))
            problem = f"must be {list(dataset.input)} for the data set '{self.data.name}', got {got}"
            raise finding(problem, below="model.input")
        if dataset is not None and self.model.classes != dataset.classes:
            problem = f"must be {dataset.classes} for the data set '{self.data.name}', got {self.model.classes}"
            raise finding(problem, below="model.classes")
        return self

    @model_validator(mode="after")
    def _regression_has_no_classes(self) -> Self:
        if self.training.task == "classification":
            return self
        if self.data.kind == "built-in":
            problem = f"the data set '{self.data.name}' has classes, not numbers to predict, got 'regression'"
            raise finding(f"{problem}. Leave it out, or bring your own data", below="training.task")
        if self.model.classes != 1:
            problem = (
                f"must be 1 with training.task = 'regression', the number that is predicted, got {self.model.classes}"
            )
            raise finding(problem, below="model.classes")
        for key in ("partition", "labels"):
            if getattr(self.data, key) != type(self.data).model_fields[key].default:
                problem = "has no effect with training.task = 'regression', which has no classes. Leave it out"
                raise finding(problem, below=f"data.{key}")
        if self.deploy.allow_class_counts:
            problem = "has no effect with training.task = 'regression', which has no classes. Leave it out"
            raise finding(problem, below="deploy.allow_class_counts")
        return self

    @model_validator(mode="after")
    def _classes_have_an_effect(self) -> Self:
        for index, floor in enumerate(self.floors):
            if floor.classes is None:
                continue
            divided = not self.data.says_holders and self.training.task == "classification"
            if self.data.partition != "classes" or not divided:
                problem = "has no effect: only the partition 'classes' of a data set uses it. Leave it out"
                raise finding(problem, below=f"floors[{index}].classes")
            if max(floor.classes) >= self.model.classes:
                limit = f"must be labels below model.classes = {self.model.classes}"
                raise finding(f"{limit}, got {max(floor.classes)}", below=f"floors[{index}].classes")
        return self

    @model_validator(mode="after")
    def _width_has_an_effect(self) -> Self:
        if "width" not in MODEL_SETTINGS.get(self.model.name, ()) and self.costs.width is not None:
            raise finding(f"has no effect on the model {shown(self.model.name)}. Leave it out", below="costs.width")
        return self

    @model_validator(mode="after")
    def _divergence_has_equal_iterations(self) -> Self:
        if self.training.extra_iterations > 0 and self.participation.observe_every > 0:
            problem = "must be 0 with training.extra_iterations, because floors then train for different times"
            raise finding(f"{problem}, got {self.participation.observe_every}", below="participation.observe_every")
        return self

    @model_validator(mode="after")
    def _size_is_bounded(self) -> Self:
        floors = sum(group.count or 1 for group in self.floors)
        devices = sum((group.count or 1) * sum(entry.count or 1 for entry in group.devices) for group in self.floors)
        for what, size, limit in (
            ("devices", devices, 10**6),
            ("floors x channels", floors * self.radio.channels, 2 * 10**7),
        ):
            if size > limit:
                problem = f"{what}: must be at most {limit:,}, got {size:,}. Lower the counts"
                raise finding(problem, below="floors")
        return self

    @model_validator(mode="before")
    @classmethod
    def _devices_have_a_floor(cls, data: object) -> object:
        if isinstance(data, dict) and ("devices" in data or isinstance(data.get("floors"), dict)):
            where = "devices" if "devices" in data else "floors"
            advice = "Start each floor with [[floors]] and list its devices below it as [[floors.devices]]"
            raise finding(f"device without a floor. {advice}", below=where)
        return data
