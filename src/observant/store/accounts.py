"""Who may use the service: accounts, sessions and tokens. Passwords and secrets come in hashed;
`observant.service.access` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.names import ROLES, SCOPES, Role, Scope
from observant.store.engine import Columns, StorePiece
from observant.store.types import Value
from observant.store.validation import as_json, checked_name, from_json
from observant.times import DAY, micros

if TYPE_CHECKING:
    from observant.store.engine import Session

__all__ = [
    "ROLES",
    "SCOPES",
    "Account",
    "Accounts",
    "KeptReply",
    "Replies",
    "SessionRow",
    "Sessions",
    "TokenRow",
    "Tokens",
]

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


class Accounts(StorePiece):
    """Who may sign in."""

    def add(self, name: str, role: str, password: str, *, now: float | None = None) -> Account:
        """Add somebody who may sign in (owner, editor, viewer); `password` is a hash."""
        checked_name(name, "account", LONGEST_ACCOUNT)
        _check_role(role)
        instant = micros(self._engine.now(now))

        def work(session: Session) -> Account:
            if session.one("account", name=name) is not None:
                raise InputError(f"there is an account {name!r} already")
            session.run("add_account", name=name, role=role, password=password, now=instant)
            return _known(session, name)

        return self._engine.write(work)

    def update(
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
        instant = micros(self._engine.now(now))

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

    def remove(self, name: str) -> None:
        """Remove an account with its sessions and tokens; the last owner stays."""

        def work(session: Session) -> None:
            account = _known(session, name)
            _keep_an_owner(session, account)
            session.run("end_sessions_of", account=account.id)
            session.run("revoke_tokens_of", account=account.id)
            session.run("remove_account", account=account.id)

        self._engine.write(work)

    def get(self, name: str) -> Account | None:
        """The account of this name."""
        row = self._engine.read(lambda session: session.one("account", name=name))
        return None if row is None else _ACCOUNT(row)

    def list(self) -> list[Account]:
        """All accounts by name."""
        return _ACCOUNT.all(self._engine.read(lambda session: session.all("accounts")))


class Sessions(StorePiece):
    """Who is signed in, by the hash of the secret of each session."""

    def begin(
        self, account: str, digest: bytes, *, expires_at: float, now: float | None = None
    ) -> None:
        """Somebody signed in; sessions that have ended are swept."""
        instant = micros(self._engine.now(now))

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

    def get(self, digest: bytes, *, now: float | None = None) -> SessionRow | None:
        """The session with this hash, unless it has ended."""
        instant = micros(self._engine.now(now))
        row = self._engine.read(lambda s: s.one("session", digest=digest, now=instant))
        if row is None:
            return None
        return _SESSION(row[:3], account=_ACCOUNT(row[3:]))

    def extend(self, digest: bytes, *, expires_at: float, now: float | None = None) -> None:
        """The session was used: it lasts until then."""
        instant, until = micros(self._engine.now(now)), micros(expires_at)
        self._engine.write(
            lambda s: s.run("extend_session", digest=digest, now=instant, expires_at=until)
        )

    def end(self, digest: bytes) -> bool:
        """Sign out; False if there was no such session."""
        return self._engine.write(lambda s: s.run("end_session", digest=digest)) > 0


class Tokens(StorePiece):
    """What programs show instead of a password, by the hash of its secret."""

    def add(
        self,
        name: str,
        scope: str,
        digest: bytes,
        *,
        account: str | None = None,
        expires_at: float | None = None,
        now: float | None = None,
    ) -> TokenRow:
        """Add a token for programs (read, write, admin); `digest` is the hash of its secret."""
        checked_name(name, "token", LONGEST_ACCOUNT)
        if scope not in SCOPES:
            raise InputError(f"no scope {scope!r}; one of {', '.join(SCOPES)}")
        instant = micros(self._engine.now(now))

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
            return _TOKEN(session.all("token", digest=digest, now=instant)[0])

        return self._engine.write(work)

    def get(self, digest: bytes, *, now: float | None = None) -> TokenRow | None:
        """The token with this hash, unless it has expired."""
        instant = micros(self._engine.now(now))
        row = self._engine.read(lambda s: s.one("token", digest=digest, now=instant))
        return None if row is None else _TOKEN(row)

    def used(self, number: int, *, now: float | None = None) -> None:
        """The token was used now."""
        instant = micros(self._engine.now(now))
        self._engine.write(lambda s: s.run("used_token", token=number, now=instant))

    def revoke(self, number: int) -> bool:
        """Take a token back; False if there is none."""
        return self._engine.write(lambda s: s.run("revoke_token", token=number)) > 0

    def list(self) -> list[TokenRow]:
        """All tokens, without their secrets."""
        return _TOKEN.all(self._engine.read(lambda session: session.all("tokens")))


class Replies(StorePiece):
    """What was answered to requests that may come again, by their idempotency keys."""

    def get(self, key: str) -> KeptReply | None:
        """What was answered to the request with this key."""
        row = self._engine.read(lambda s: s.one("reply", key=key))
        return None if row is None else KeptReply(request=row[0], reply=from_json(row[1]))

    def keep(
        self,
        key: str,
        request: bytes,
        reply: Any,
        *,
        keep: float = DAY,
        now: float | None = None,
    ) -> None:
        """Keep an answer for so many seconds; `request` is the hash of what was asked."""
        instant = self._engine.now(now)
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
    return _ACCOUNT(row)


def _keep_an_owner(session: Session, account: Account) -> None:
    if account.role == "owner" and session.value("count_owners") == 1:
        raise InputError(f"{account.name!r} is the last owner: make another account owner first")


_ACCOUNT = Columns(Account, "id name role password created_at updated_at signed_in_at")
_SESSION = Columns(SessionRow, "created_at seen_at expires_at")
_TOKEN = Columns(TokenRow, "id name scope account role created_at expires_at used_at")
