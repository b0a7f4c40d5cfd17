"""`fedfloor certs init`, `issue`, `renew`, `revoke` and `show`.

What prints certificates is imported after the call, which says so if the extra is missing.
"""

__all__ = ["certs_app", "certs_init", "certs_issue", "certs_renew", "certs_revoke", "certs_show"]

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_preset
from fedfloor.cli.options import Format, FormatOption, OwnOption, SetOption, app
from fedfloor.errors import DeploymentError

certs_app = typer.Typer(
    help="Make and manage the certificates of real machines.\n\n"
    "A plant has a CA and one key pair per machine; certificates can be renewed and revoked.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(certs_app, name="certs")

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the CA.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the base station, gateway or device.")]
ScenarioOption = Annotated[
    str | None,
    typer.Option(
        "--scenario",
        metavar="SCENARIO",
        help="Issue certificates for everybody in it who has none.",
        autocompletion=complete_preset,
    ),
]
NamedHostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME=HOST",
        help="Host name or IP address that others dial to reach the base station (`base-station`) or a gateway; "
        "repeatable. Default: its own name and this machine.",
    ),
]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Host name or IP address that others dial to reach it; repeatable. Default: its own name and this "
        "machine; when renewing, as before. With --scenario: NAME=HOST.",
    ),
]
DaysOption = Annotated[int, typer.Option("--days", help="Days until a certificate expires.")]
RoleOption = Annotated[
    str | None,
    typer.Option("--role", metavar="ROLE", help="server, gateway or device, if two of them have this name."),
]


@certs_app.command("init")
def certs_init(
    folder: FolderArgument,
    scenario: ScenarioOption = None,
    hosts: NamedHostOption = None,
    days: DaysOption = 365,
    ca_days: Annotated[int, typer.Option("--ca-days", help="Days until the CA expires.")] = 3650,
    overrides: SetOption = None,
    own: OwnOption = False,
) -> None:
    """Make the CA of a plant.

    With --scenario, it also issues a certificate for every machine of the scenario.

    Example:  fedfloor certs init plant-certs --scenario quick --host base-station=10.0.0.1
    """
    from fedfloor import api

    entries = api.make_certificates(
        folder, scenario, hosts=hosts or (), days=days, ca_days=ca_days, overrides=overrides or (), own=own
    )
    from fedfloor.cli.show.certificates import print_handed_out

    print(f"made a CA; its key is {folder / 'ca' / 'key.pem'} and must stay on this machine")
    print_handed_out(folder, entries)


@certs_app.command("issue")
def certs_issue(
    folder: FolderArgument,
    role: Annotated[str | None, typer.Argument(metavar="ROLE", help="server, gateway or device.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name in the scenario.")] = None,
    scenario: ScenarioOption = None,
    hosts: HostOption = None,
    days: DaysOption = 365,
    overrides: SetOption = None,
    own: OwnOption = False,
) -> None:
    """Issue the first certificate of a machine.

    With --scenario, it issues one for every machine of the scenario that has none.

    Example:  fedfloor certs issue plant-certs gateway assembly --host 10.0.0.7
    """
    from fedfloor import api

    if scenario is not None and role is None:
        chosen = overrides or ()
        entries = api.issue_certificates(folder, scenario, hosts=hosts or (), days=days, overrides=chosen, own=own)
        if not entries:
            print("everybody in the scenario has a certificate already")
    elif scenario is None and role is not None and name is not None:
        entries = (api.issue_certificate(folder, role, name, hosts=hosts or (), days=days),)
    else:
        raise DeploymentError("issue: must be given either ROLE and NAME or --scenario. Give one of them")
    from fedfloor.cli.show.certificates import print_handed_out

    print_handed_out(folder, entries)


@certs_app.command("renew")
def certs_renew(
    folder: FolderArgument,
    name: NameArgument,
    role: RoleOption = None,
    hosts: HostOption = None,
    days: DaysOption = 365,
    same_key: Annotated[bool, typer.Option("--same-key", help="Keep the key; only the certificate is new.")] = False,
) -> None:
    """Issue another certificate for a machine.

    The old one stays valid until it expires or is revoked.

    Example:  fedfloor certs renew plant-certs assembly
    """
    from fedfloor import api

    entry = api.renew_certificate(folder, name, role=role, hosts=hosts or (), days=days, same_key=same_key)
    from fedfloor.cli.show.certificates import print_handed_out

    print_handed_out(folder, [entry])


@certs_app.command("revoke")
def certs_revoke(
    folder: FolderArgument,
    name: NameArgument,
    role: RoleOption = None,
    serial: Annotated[
        str | None, typer.Option("--serial", metavar="DIGITS", help="Only the one whose serial number begins so.")
    ] = None,
) -> None:
    """Revoke all certificates of a machine.

    Example:  fedfloor certs revoke plant-certs assembly
    """
    from fedfloor import api

    entries = api.revoke_certificate(folder, name, role=role, serial=serial)
    for entry in entries:
        print(f"revoked {entry.role} {entry.name}, serial number {entry.serial}")
    print(f"copy {folder / 'ca' / 'revoked.pem'} to the base station and all gateways, which then refuse it")


@certs_app.command("show")
def certs_show(folder: FolderArgument, form: FormatOption = Format.TABLE) -> None:
    """List all certificates that the CA has issued.

    Example:  fedfloor certs show plant-certs
    """
    from fedfloor import api

    register = api.list_certificates(folder)
    from fedfloor.cli.show.bare import print_result
    from fedfloor.cli.show.certificates import print_register, register_as_json

    print_result(register, form, partial(print_register, folder), register_as_json)
