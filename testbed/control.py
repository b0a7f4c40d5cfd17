"""How the base station's program has the network shaped: a socket of the testbed, and the radio that talks to it."""

__all__ = ["CONTROL", "Control", "TestbedRadio"]

import json
import os
import socketserver
import threading
from collections.abc import Sequence
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Self

from fedfloor.deploy.radio import RadioSetting
from testbed.network import Network
from testbed.shaping import Rates

CONTROL = "FEDFLOOR_TESTBED"  #: environment variable with the path of the socket
_DONE = "done"
_PATIENCE = 30.0  #: [s] that shaping may take


class TestbedRadio:
    """What `fedfloor server --radio` is given: asks the testbed to shape the backhaul as was decided, and waits."""

    __test__ = False  # for pytest

    def problem(self) -> str | None:
        """See `fedfloor.deploy.radio.Radio`."""
        return None if CONTROL in os.environ else "works only inside the testbed. Start `python -m testbed`"

    def begin(self, settings: Sequence[RadioSetting]) -> None:
        """See `fedfloor.deploy.radio.Radio`."""
        rates = {entry.floor: [entry.download_rate, entry.upload_rate] for entry in settings}
        with socket(AF_UNIX) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(os.environ[CONTROL])
            connection.sendall(json.dumps(rates).encode() + b"\n")
            answer = connection.makefile(encoding="utf-8").readline().strip()
        if answer != _DONE:
            raise RuntimeError(answer or "the testbed is gone")

    def end(self) -> None:
        """Rates stay until the next round."""


class Control:
    """Listens for the radio in a thread, and shapes the network; `with` opens and closes the socket."""

    def __init__(self, path: Path, network: Network) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    for floor, (down, up) in json.loads(self.rfile.readline()).items():
                        network.set_backhaul(floor, Rates(down, up))
                    answer = _DONE
                except Exception as error:  # whatever it is, the radio is told
                    answer = f"the testbed could not shape the network: {error}"
                self.wfile.write(f"{answer}\n".encode())

        self.path = path
        self._server = socketserver.UnixStreamServer(str(path), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="testbed-control", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.path.unlink(missing_ok=True)
