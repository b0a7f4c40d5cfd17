"""A hardware profile whose times are known, for tests."""

from collections.abc import Callable, Sequence

from fedfloor.costs.hardware import (
    FORMAT,
    VERSION,
    HardwareProfile,
    LayerTiming,
    Machine,
    MeasuredLayer,
    Rate,
    Software,
    StepTiming,
    fingerprint,
)
from fedfloor.costs.layers import exact_costs
from fedfloor.scenario.layers import LayerSpec

LAYERS = (
    LayerSpec(name="linear1", kind="linear", input=(784,), output=(16,), attached=("activation",)),
    LayerSpec(name="linear2", kind="linear", input=(16,), output=(10,)),
)


def profile_of(
    layers: Sequence[LayerSpec] = LAYERS,
    batches: Sequence[int] = (10, 50),
    *,
    seconds: Callable[[int, int], float] = lambda index, batch: 1e-4 * (index + 1) + 1e-5 * batch,
    step: float = 2e-4,
    memory: Callable[[int, int], tuple[float, float]] = lambda index, batch: (
        1e5 * (index + 1) + 10 * batch,
        1e6 / (index + 1) + 20 * batch,
    ),
    frequency: float = 2e9,
    rates: Sequence[str] = ("linear",),
) -> HardwareProfile:
    """A profile with `seconds` of a layer with a batch, a quarter of them forward, and the bytes of both halves."""

    def timing(index: int, batch: int) -> LayerTiming:
        whole, (device, gateway) = seconds(index, batch), memory(index, batch)
        forward, backward = 0.25 * whole, 0.75 * whole
        return LayerTiming(
            batch=batch,
            forward_s=forward,
            forward_quartiles_s=(forward, forward),
            backward_s=backward,
            backward_quartiles_s=(backward, backward),
            device_bytes=device,
            gateway_bytes=gateway,
        )

    return HardwareProfile(
        format=FORMAT,
        version=VERSION,
        machine=Machine(cpu="abacus", cores=1, system="none"),
        software=Software(python="3", torch="2", fedfloor="0"),
        clock="thread_time",
        frequency_hz=frequency,
        frequency_source="given",
        model="mlp",
        fingerprint=fingerprint(layers),
        repeats=1,
        steps=tuple(StepTiming(batch=batch, seconds=step, quartiles_s=(step, step)) for batch in batches),
        layers=tuple(
            MeasuredLayer(layer=layer, flop_per_sample=flop, timings=tuple(timing(index, batch) for batch in batches))
            for index, (layer, flop) in enumerate(zip(layers, exact_costs(layers).flop.tolist(), strict=True))
        ),
        rates={kind: Rate(flop_per_s=1e9, error=0.1, layers=1) for kind in rates},
    )
