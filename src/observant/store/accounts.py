"""Who may use the service: accounts, sessions and tokens. Passwords and secrets come in hashed;
`observant.service.access` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from observant.errors import InputError
from observant.store.door import as_json, checked_name, from_json
from observant.store.engine import micros, seconds
from observant.store.part import Part
from observant.store.types import Value

if TYPE_CHECKING:
    from observant.store.engine import Row, Session

__all__ = ["ROLES", "SCOPES", "Account", "Accounts", "KeptReply", "SessionRow", "TokenRow"]

Role = Literal["owner", "editor", "viewer"]
Scope = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "editor", "owner")
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
LONGEST_ACCOUNT = 100


class Account(Value, frozen=True, kw_only=True):
    """Somebody who may sign in."""

    id: int
    name: str
    role: Role
    password: str
    """Its scrypt hash."""
    created_at: float
    updated_at: float
    signed_in_at: float | None = None

    def __repr__(self) -> str:  # no hash in a log
        return f"<account {self.name!r}, {self.role}>"


class SessionRow(Value, frozen=True, kw_only=True):
    """A session that has not ended, and whose it is."""

    account: Account
    created_at: float
    seen_at: float
    expires_at: float


class TokenRow(Value, frozen=True, kw_only=True):
    """A token, without its secret."""

    id: int
    name: str
    scope: Scope
    account: str | None
    """Who made it; None: the command line."""
    role: Role | None
    created_at: float
    expires_at: float | None
    used_at: float | None


class KeptReply(Value, frozen=True, kw_only=True):
    """What was answered to a request that may come again."""

    request: bytes
    reply: Any


class Accounts(Part):
    """The part of the store that keeps accounts, sessions, tokens and replies."""

    def add_account(
        self, name: str, role: str, password: str, *, now: float | None = None
    ) -> Account:
        checked_name(name, "account", LONGEST_ACCOUNT)
        _check_role(role)
        instant = micros(self._now(now))

        def work(session: Session) -> Account:
            if session.one("account", name=name) is not None:
                raise InputError(f"there is an account {name!r} already")
            session.run("add_account", name=name, role=role, password=password, now=instant)
            return _account(session.one("account", name=name))

        return self._engine.write(work)

    def update_account(
        self,
        name: str,
        *,
        role: str | None = None,
        password: str | None = None,
        now: float | None = None,
    ) -> Account:
        """Change role or password; either ends all sessions of the account."""
        if role is not None:
            _check_role(role)
        instant = micros(self._now(now))

        def work(session: Session) -> Account:
            before = _known(session, name)
            if role is not None and role != "owner":
                _keep_an_owner(session, before)
            session.run(
                "update_account",
                account=before.id,
                role=role or before.role,
                password=password or before.password,
                now=instant,
            )
            session.run("end_sessions_of", account=before.id)
            return _known(session, name)

        return self._engine.write(work)

    def remove_account(self, name: str) -> None:
        """Remove an account with its sessions and tokens; the last owner stays."""

        def work(session: Session) -> None:
            account = _known(session, name)
            _keep_an_owner(session, account)
            session.run("end_sessions_of", account=account.id)
            session.run("revoke_tokens_of", account=account.id)
            session.run("remove_account", account=account.id)

        self._engine.write(work)

    def account(self, name: str) -> Account | None:
        row = self._engine.read(lambda session: session.one("account", name=name))
        return None if row is None else _account(row)

    def accounts(self) -> list[Account]:
        return [_account(row) for row in self._engine.read(lambda s: s.all("accounts"))]

    # -- sessions -----------------------------------------------------------------------------

    def begin_session(
        self, account: str, digest: bytes, *, expires_at: float, now: float | None = None
    ) -> None:
        """Begin a session; those that have ended are swept."""
        instant = micros(self._now(now))

        def work(session: Session) -> None:
            owner = _known(session, account)
            session.run("sweep_sessions", now=instant)
            session.run(
                "begin_session",
                digest=digest,
                account=owner.id,
                now=instant,
                expires_at=micros(expires_at),
            )
            session.run("signed_in", account=owner.id, now=instant)

        self._engine.write(work)

    def session(self, digest: bytes, *, now: float | None = None) -> SessionRow | None:
        instant = micros(self._now(now))
        row = self._engine.read(lambda s: s.one("session", digest=digest, now=instant))
        if row is None:
            return None
        return SessionRow(
            account=_account(row[3:]),
            created_at=row[0] / 1e6,
            seen_at=row[1] / 1e6,
            expires_at=row[2] / 1e6,
        )

    def extend_session(self, digest: bytes, *, expires_at: float, now: float | None = None) -> None:
        instant, until = micros(self._now(now)), micros(expires_at)
        self._engine.write(
            lambda s: s.run("extend_session", digest=digest, now=instant, expires_at=until)
        )

    def end_session(self, digest: bytes) -> bool:
        return self._engine.write(lambda s: s.run("end_session", digest=digest)) > 0

    # -- tokens -------------------------------------------------------------------------------

    def add_token(
        self,
        name: str,
        scope: str,
        digest: bytes,
        *,
        account: str | None = None,
        expires_at: float | None = None,
        now: float | None = None,
    ) -> TokenRow:
        checked_name(name, "token", LONGEST_ACCOUNT)
        if scope not in SCOPES:
            raise InputError(f"no scope {scope!r}; one of {', '.join(SCOPES)}")
        instant = micros(self._now(now))

        def work(session: Session) -> TokenRow:
            session.run(
                "add_token",
                digest=digest,
                name=name,
                scope=scope,
                account=None if account is None else _known(session, account).id,
                now=instant,
                expires_at=micros(expires_at),
            )
            return _token(session.all("token", digest=digest, now=instant)[0])

        return self._engine.write(work)

    def token(self, digest: bytes, *, now: float | None = None) -> TokenRow | None:
        """The token with this hash, unless it has expired."""
        instant = micros(self._now(now))
        row = self._engine.read(lambda s: s.one("token", digest=digest, now=instant))
        return None if row is None else _token(row)

    def tokens(self) -> list[TokenRow]:
        return [_token(row) for row in self._engine.read(lambda s: s.all("tokens"))]

    def used_token(self, number: int, *, now: float | None = None) -> None:
        instant = micros(self._now(now))
        self._engine.write(lambda s: s.run("used_token", token=number, now=instant))

    def revoke_token(self, number: int) -> bool:
        return self._engine.write(lambda s: s.run("revoke_token", token=number)) > 0

    # -- replies ------------------------------------------------------------------------------

    def kept_reply(self, key: str) -> KeptReply | None:
        row = self._engine.read(lambda s: s.one("reply", key=key))
        return None if row is None else KeptReply(request=row[0], reply=from_json(row[1]))

    def keep_reply(
        self,
        key: str,
        request: bytes,
        reply: Any,
        *,
        keep: float = 86_400.0,
        now: float | None = None,
    ) -> None:
        """Keep what was answered for so many seconds; older ones are swept."""
        instant = self._now(now)
        text = as_json(reply)

        def work(session: Session) -> None:
            session.run("sweep_replies", before=micros(instant - keep))
            session.run("keep_reply", key=key, request=request, now=micros(instant), reply=text)

        self._engine.write(work)


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InputError(f"no role {role!r}; one of {', '.join(ROLES)}")


def _known(session: Session, name: str) -> Account:
    row = session.one("account", name=name)
    if row is None:
        raise InputError(f"there is no account {name!r}")
    return _account(row)


def _keep_an_owner(session: Session, account: Account) -> None:
    if account.role == "owner" and session.value("count_owners") == 1:
        raise InputError(f"{account.name!r} is the last owner: make another account owner first")


def _account(row: Row | None) -> Account:
    if row is None:
        raise InputError("there is no such account")
    return Account(
        id=row[0],
        name=row[1],
        role=row[2],
        password=row[3],
        created_at=row[4] / 1e6,
        updated_at=row[5] / 1e6,
        signed_in_at=seconds(row[6]),
    )


def _token(row: Row) -> TokenRow:
    return TokenRow(
        id=row[0],
        name=row[1],
        scope=row[2],
        account=row[3],
        role=row[4],
        created_at=row[5] / 1e6,
        expires_at=seconds(row[6]),
        used_at=seconds(row[7]),
    )
