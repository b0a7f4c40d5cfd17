"""Keys and certificates of a plant of real machines. All of it needs the extra 'deploy'."""

__all__ = [
    "issue_certificate",
    "issue_certificates",
    "list_certificates",
    "make_certificates",
    "needing_deploy",
    "renew_certificate",
    "revoke_certificate",
]

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedfloor.arguments import checked
from fedfloor.errors import MissingExtraError
from fedfloor.runs.planned import ScenarioSource, load

if TYPE_CHECKING:
    from fedfloor.deploy.authority import Issued, Register


@contextmanager
def needing_deploy() -> Iterator[None]:
    """Import what real machines need in this block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError("certificates", "deploy") from error


@checked
def make_certificates(
    folder: str | Path,
    scenario: ScenarioSource | None,
    *,
    hosts: Sequence[str] = (),
    days: int = 365,
    ca_days: int = 3650,
    overrides: Sequence[str] = (),
    own: bool = False,
) -> "tuple[Issued, ...]":
    """Make the CA of a plant in a folder, with certificates for everybody in the scenario unless that is None.

    The base station is called `base-station`. `hosts` are texts NAME=HOST, for the base station and gateways. Needs
    the extra 'deploy', as all functions of certificates do.
    """
    with needing_deploy():
        from fedfloor.deploy import authority
    parties = [] if scenario is None else authority.parties_of(load(scenario, overrides, own=own))
    by_name = authority.hosts_by_name(hosts)
    return authority.make_authority(Path(folder), parties, hosts=by_name, days=days, ca_days=ca_days)


@checked
def issue_certificate(
    folder: str | Path, role: str, name: str, *, hosts: Sequence[str] = (), days: int = 365
) -> "Issued":
    """Issue the first certificate of a `server`, `gateway` or `device`; `hosts` are what others dial."""
    with needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    return authority.issue(Path(folder), role_of(role), name, hosts=hosts, days=days)


@checked
def issue_certificates(
    folder: str | Path,
    scenario: ScenarioSource,
    *,
    hosts: Sequence[str] = (),
    days: int = 365,
    overrides: Sequence[str] = (),
    own: bool = False,
) -> "tuple[Issued, ...]":
    """Issue certificates for everybody in a scenario who has none; see `make_certificates`."""
    with needing_deploy():
        from fedfloor.deploy import authority
    parties = authority.parties_of(load(scenario, overrides, own=own))
    return authority.issue_missing(Path(folder), parties, hosts=authority.hosts_by_name(hosts), days=days)


@checked
def renew_certificate(
    folder: str | Path,
    name: str,
    *,
    role: str | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
    same_key: bool = False,
) -> "Issued":
    """Issue another certificate for a party; those before it stay valid until they expire or are revoked.

    `role` is needed only if a gateway and a device have the same name. Without `hosts`, they stay as they were.
    """
    with needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    chosen = None if role is None else role_of(role)
    return authority.renew(Path(folder), name, role=chosen, hosts=hosts, days=days, same_key=same_key)


@checked
def revoke_certificate(
    folder: str | Path, name: str, *, role: str | None = None, serial: str | None = None
) -> "tuple[Issued, ...]":
    """Revoke all certificates of a party, or the only one whose serial number begins with `serial`."""
    with needing_deploy():
        from fedfloor.deploy import authority
        from fedfloor.deploy.certificates import role_of
    chosen = None if role is None else role_of(role)
    return authority.revoke(Path(folder), name, role=chosen, serial=serial or "")


@checked
def list_certificates(folder: str | Path) -> "Register":
    """The CA of a folder and all certificates that it has issued."""
    with needing_deploy():
        from fedfloor.deploy import authority
    return authority.listed(Path(folder))
