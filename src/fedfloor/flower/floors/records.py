"""Messages of the deployment as records of Flower messages: frames as configuration, tensors as arrays."""

__all__ = ["COMPARE", "HELLO", "SECONDS", "SUMS", "SURVEY", "TENSORS", "TRAIN", "Sent", "heard_in", "only", "records"]

from collections.abc import Sequence
from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedfloor.deploy import messages
from fedfloor.deploy.coding import Envelope, Packed, pack, unpack
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.messages import (
    Expected,
    Turn,
)
from fedfloor.errors import shown

TENSORS = ".tensors"  #: ends the name of the record with the arrays of a message
SECONDS = "seconds"  #: name of the record that says how long the floor took
HELLO, SUMS, TRAIN, SURVEY, COMPARE = "query.hello", "query.sums", "train.order", "query.survey", "query.compare"
_Message = TypeVar("_Message", bound=messages.Message)
Sent = tuple[messages.Message, Turn]


def records(sent: Sequence[Sent]) -> RecordDict:
    """Messages of the deployment as the content of a Flower message, under their names."""
    content = RecordDict()
    for message, turn in sent:
        name, packed = type(message).__name__.lower(), pack(message, turn)
        place = name if name not in content else f"{name}{len(content)}"
        content[place] = ConfigRecord({"frame": packed.frame})
        content[place + TENSORS] = ArrayRecord({str(k): Array(tensor) for k, tensor in enumerate(packed.tensors)})
    return content


def heard_in(content: RecordDict, expected: Sequence[Expected | type[messages.Message]]) -> list[Envelope]:
    """The messages in a Flower message; a LinkError says what is wrong with them."""
    choices = [entry if isinstance(entry, Expected) else Expected(entry) for entry in expected]
    heard = []
    for name, record in content.config_records.items():
        frame, arrays = record.get("frame"), content.array_records.get(name + TENSORS)
        if not isinstance(frame, bytes) or arrays is None:
            raise LinkError(f"The record {shown(name)} is no message of fedfloor.")
        try:
            tensors = tuple(array.numpy() for array in arrays.values())
        except (ValueError, TypeError) as error:
            raise LinkError(f"The arrays of {shown(name)} cannot be read: {error!s:.200}") from None
        heard.append(unpack(Packed(frame, tensors), choices))
    return heard


def only(heard: Sequence[Envelope], kind: type[_Message]) -> _Message:
    """The one message of a kind."""
    found = [entry.message for entry in heard if isinstance(entry.message, kind)]
    if len(found) != 1:
        raise LinkError(f"{len(found)} messages {kind.__name__} came instead of one.")
    return found[0]
