"""The parts of a scenario file that describe the network and how its costs are counted."""

__all__ = ["MODEL_SETTINGS", "Costs", "Model"]

import math
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, field_validator, model_validator

from fedfloor.errors import advice_for, shown
from fedfloor.scenario.catalogue import NETWORKS
from fedfloor.scenario.layers import LayerSpec, Shape, unchained
from fedfloor.scenario.section import Flag, Section, finding

#: settings that have an effect on each built-in model; a model of your own has none
MODEL_SETTINGS = {"vgg11": ("width", "head", "batch_norm"), "cnn": ("width", "batch_norm"), "mlp": ("width",)}

_INFERRED = "Remove model.layers, so that it is inferred (extra 'train'), or make the two equal"

Width = Annotated[float, Strict(), Field(ge=0.001, le=64)]


class Model(Section):
    """The network that is trained."""

    name: Annotated[str, Field(min_length=1)]
    """`vgg11`, `cnn`, `mlp`, or `package.module:callable` that returns a torch.nn.Sequential"""
    input: Shape
    """shape of one sample, [channels, height, width], or [channels, length] of a signal"""
    classes: Annotated[int, Strict(), Field(ge=1, le=100_000)] = 10
    """number of labels"""
    width: Width = 1.0
    """factor on the number of channels and hidden units that are trained"""
    head: Literal["linear", "4096-4096"] = "linear"
    """classifier of vgg11: one linear layer, or two of 4096 units before it"""
    batch_norm: Flag = False
    """normalise after every convolution"""
    layers: Annotated[tuple[LayerSpec, ...], Field(min_length=1)] | None = None
    """layer list that costs are computed from; without it the list is inferred from the model, which needs torch"""

    @field_validator("name")
    @classmethod
    def _name_is_known(cls, name: str) -> str:
        if name not in NETWORKS and ":" not in name:
            advice = f"{advice_for(name, NETWORKS)} Name a model of your own as package.module:callable"
            raise finding(f"unknown model, got {shown(name)}. {advice}")
        return name

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> Self:
        for key, default in (("width", 1.0), ("head", "linear"), ("batch_norm", False)):
            if key not in MODEL_SETTINGS.get(self.name, ()) and getattr(self, key) != default:
                problem = f"has no effect on the model {shown(self.name)}, got {getattr(self, key)}. Leave it out"
                raise finding(problem, below=key)
        return self

    @model_validator(mode="after")
    def _layers_chain(self) -> Self:
        if self.layers is None:
            return self
        if self.layers[0].input_size != math.prod(self.input):
            taken, given = shown(list(self.layers[0].input)), shown(list(self.input))
            problem = f"takes {taken} but model.input is {given}"
            raise finding(f"{problem}. {_INFERRED}", below="layers[0].input")
        if self.layers[-1].output != (self.classes,):
            problem = f"gives {shown(list(self.layers[-1].output))} but model.classes is {self.classes}"
            raise finding(f"{problem}. {_INFERRED}", below=f"layers[{len(self.layers) - 1}].output")
        names = [layer.name for layer in self.layers]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise finding(f"duplicate layer name, got {shown(duplicate)} twice. Rename one of them", below="layers")
        break_in_chain = unchained(self.layers)
        if break_in_chain is not None:
            index, reason = break_in_chain
            raise finding(f"shapes do not chain: {reason}. Make the two equal", below=f"layers[{index}].input")
        return self


class Costs(Section):
    """How operations and bytes are counted."""

    model: Literal["exact", "paper"] = "exact"
    """`exact` agrees with what torch does, `paper` is the paper's Table II"""
    width: Width | None = None
    """width the costs describe, if not the one that is trained"""
