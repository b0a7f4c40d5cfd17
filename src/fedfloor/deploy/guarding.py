"""What a machine shows of itself, and who may join it: the certificate must be for the role and the name given."""

__all__ = ["guard_for", "papers_of"]

from collections.abc import Callable, Collection

from fedfloor.deploy.certificates import Role, peer_of
from fedfloor.deploy.identity import Credentials, peer_problem
from fedfloor.deploy.link import Papers, UnfitError
from fedfloor.deploy.messages import Hello
from fedfloor.errors import DeploymentError, shown


def papers_of(credentials: Credentials | None) -> Callable[[], Papers] | None:
    """What a connection is made with; looked up again for every connection, so that renewal needs no stop."""
    if credentials is None:
        return None

    def papers() -> Papers:
        credentials.refresh()
        if problem := credentials.own_problem():  # others would refuse it without a word
            raise UnfitError(f"This machine's own certificate cannot be used: {problem}.")
        own = credentials.identity
        return Papers(own.certificate, own.key, own.ca)

    return papers


def guard_for(
    credentials: Credentials | None, role: str, names: Collection[str] | None = None
) -> Callable[[bytes, Hello], str]:
    """A function that says why a machine may not join; empty if it may.

    Without credentials, as on connections inside one machine, only role and name are looked at.
    """

    def guard(certificate: bytes, hello: Hello) -> str:
        if hello.role != role:
            return f"a {role} was expected, got a {shown(hello.role)}. Dial the address that is meant for it"
        if names is not None and hello.name not in names:
            return f"this plant has no {role} {shown(hello.name)}. Correct the name, or the scenario"
        if credentials is None:
            return ""
        credentials.refresh()
        try:
            peer = peer_of(certificate)
        except DeploymentError as error:
            return str(error)
        return peer_problem(peer, credentials.identity.trust, role=Role(role), name=hello.name)

    return guard
