"""Our certificates in real handshakes: Python's own TLS is the judge."""

import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedfloor.deploy.authority import revoke
from fedfloor.deploy.certificates import Role, peer_of
from fedfloor.deploy.identity import Credentials, peer_problem

TIMEOUT = 20.0  # [s] against hanging


@dataclass
class Meeting:
    """What both sides of a connection saw."""

    client: str = ""  #: error of the client; empty if it was welcomed
    server: str = ""  #: error of the server
    peer: bytes = b""  #: the client's certificate in PEM, as the server got it


def context_of(folder: Path | None, ca: Path, *, serves: bool, lists: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13 sets it
    context.load_verify_locations(cafile=ca / "ca.pem")
    if serves:
        context.verify_mode = ssl.CERT_REQUIRED
    if lists:
        context.load_verify_locations(cafile=ca / "revoked.pem")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if folder is not None:
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def meet(server: Path, client: Path | None, *, ca: Path | None = None, host: str = "localhost",
         lists: bool = False) -> Meeting:  # fmt: skip
    """Connect over the loopback address; `ca` is the folder whose CA the client believes."""
    meeting = Meeting()
    serving = context_of(server, server, serves=True, lists=lists)
    dialling = context_of(client, ca or client or server, serves=False)

    def serve(listener: socket.socket) -> None:
        try:
            raw, _ = listener.accept()
            raw.settimeout(TIMEOUT)
            with raw, serving.wrap_socket(raw, server_side=True) as secured:
                meeting.peer = ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"").encode()
                secured.sendall(b"welcome")
        except OSError as error:
            meeting.server = str(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=TIMEOUT) as raw,
                dialling.wrap_socket(raw, server_hostname=host) as secured,
            ):
                meeting.client = "" if secured.recv(100) == b"welcome" else "closed"
        except OSError as error:
            meeting.client = str(error) or type(error).__name__
        thread.join(TIMEOUT)
    return meeting


@pytest.mark.parametrize(
    ("server", "client", "role"),
    [
        ("server/base-station", "gateway/press", Role.GATEWAY),
        ("gateway/press", "device/press.robot-1", Role.DEVICE),
    ],
)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_parties_of_a_plant_meet(server: str, client: str, role: Role, host: str, plant_once: Path) -> None:
    meeting = meet(plant_once / server, plant_once / client, host=host)
    assert (meeting.client, meeting.server) == ("", "")
    trust = Credentials(plant_once / server, Role((plant_once / server).parent.name)).identity.trust
    assert peer_problem(peer_of(meeting.peer), trust, role=role, name=client.split("/")[1]) == ""


def test_a_client_of_a_foreign_ca_is_refused(plant_once: Path, foreign: Path) -> None:
    meeting = meet(plant_once / "gateway" / "press", foreign / "device" / "press.robot-1", ca=plant_once / "ca")
    assert meeting.client
    assert "certificate verify failed" in meeting.server
    assert not meeting.peer


def test_a_server_of_a_foreign_ca_is_not_believed(plant_once: Path, foreign: Path) -> None:
    meeting = meet(foreign / "gateway" / "press", plant_once / "device" / "press.robot-1")
    assert "certificate verify failed" in meeting.client


def test_an_expired_client_is_refused(plant_once: Path) -> None:
    meeting = meet(plant_once / "gateway" / "press", plant_once / "device" / "expired")
    assert meeting.client
    assert "certificate has expired" in meeting.server


def test_a_client_without_a_certificate_is_refused(plant_once: Path) -> None:
    meeting = meet(plant_once / "gateway" / "press", None)
    assert meeting.client
    assert "peer did not return a certificate" in meeting.server


def test_a_server_is_believed_only_at_its_hosts(plant_once: Path) -> None:
    meeting = meet(plant_once / "gateway" / "press", plant_once / "device" / "press.robot-1", host="paint")
    assert "Hostname mismatch" in meeting.client


def test_a_device_cannot_serve_and_a_base_station_cannot_dial(plant_once: Path) -> None:
    serving = meet(plant_once / "device" / "press.robot-1", plant_once / "gateway" / "press")
    assert "certificate verify failed" in serving.client
    dialling = meet(plant_once / "gateway" / "press", plant_once / "server" / "base-station")
    assert "certificate verify failed" in dialling.server


def test_openssl_obeys_our_revocation_list(plant: Path) -> None:
    gateway = plant / "gateway" / "press"
    assert meet(gateway, plant / "device" / "press.robot-1", lists=True).client == ""
    revoke(plant, "press.robot-1")
    refused = meet(gateway, plant / "device" / "press.robot-1", lists=True)
    assert "certificate revoked" in refused.server
    assert meet(gateway, plant / "device" / "press", lists=True).client == ""


def test_whom_tls_lets_in_our_own_check_still_refuses(plant: Path) -> None:
    revoke(plant, "press.robot-1")
    meeting = meet(plant / "gateway" / "press", plant / "device" / "press.robot-1")  # TLS without the list, as in gRPC
    assert meeting.client == ""
    trust = Credentials(plant / "gateway" / "press", Role.GATEWAY).identity.trust
    assert "was revoked on" in peer_problem(peer_of(meeting.peer), trust, role=Role.DEVICE)
