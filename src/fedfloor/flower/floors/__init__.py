"""A floor as a SuperNode: rounds of the two-tier plant, with Flower's grid between base station and floors.

`server_app` and `client_app` are the two halves of a Flower app. The messages are those of the deployment: what grpc
sends in frames lies in the records of a Flower message, the tensors as arrays. A SuperNode keeps nothing between two
messages but what rounding took from its updates, so every message says all that a floor must know.
"""

__all__ = ["client_app", "server_app"]

from fedfloor.errors import MissingExtraError

try:
    from fedfloor.flower.floors.client import client_app
    from fedfloor.flower.floors.server import server_app
except ModuleNotFoundError as error:
    raise MissingExtraError(__name__, "flower" if error.name == "flwr" else "deploy") from error
