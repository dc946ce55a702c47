"""Signing in and being recognised: passwords, sessions and tokens against the store."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from observant.errors import (
    DeniedError,
    InputError,
    MissingError,
    SignInError,
    TooManyError,
)
from observant.service.access.rights import NEEDS
from observant.service.access.secrets import (
    check_password,
    csrf_token,
    digest,
    hash_password,
    new_secret,
    same,
)
from observant.service.access.throttle import Throttle
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store import Store
    from observant.store.accounts import Account, TokenRow

SCOPE_OF = {"viewer": "read", "editor": "write", "owner": "admin"}
TOKEN_PREFIX = "obs_"  # noqa: S105 (so that people and scanners know a token when they see one)
SESSION_SECONDS = 14 * DAY
_TOUCH_SECONDS = 300.0
"""Being used is noted no more often than this: reading must stay reading."""


class Identity(NamedTuple):
    """Who is asking."""

    name: str
    role: str
    scope: str
    """The most it may do: nothing, read, write or admin."""
    csrf: str | None = None
    """What a change made with this session must carry; None for a token."""

    @property
    def anonymous(self) -> bool:
        return self.scope == "nothing"

    def may(self, need: str) -> bool:
        """Whether this is enough.

        >>> Identity("ada", "editor", "write").may("read"), ANONYMOUS.may("read")
        (True, False)
        """
        return NEEDS.index(need) <= NEEDS.index(self.scope)

    def must(self, need: str, why: str) -> None:
        """Go on only if this is enough."""
        if not self.may(need):
            raise DeniedError(why)


ANONYMOUS = Identity("", "", "nothing")
OPERATOR = Identity("", "owner", "admin")
"""Whoever has the store itself: the command line."""


class Access:
    """Accounts, sessions and tokens of a store.

    `log_n` is the cost of a password's hash; only tests lower it.
    """

    def __init__(
        self,
        store: Store,
        *,
        log_n: int | None = None,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self._clock = store, clock
        self._cost = {} if log_n is None else {"log_n": log_n}
        self._throttle = throttle or Throttle(store=store)

    @cached_property
    def _nobody(self) -> str:
        """Checked in place of the hash of an account that does not exist: it takes as long."""
        return hash_password(new_secret(), **self._cost)

    # -- accounts -----------------------------------------------------------------------------

    def first_run(self) -> tuple[str, str] | None:
        """Make an owner with a random password if there is no account yet: (name, password)."""
        self._nobody  # noqa: B018 (made now: the first stranger must not wait longer than others)
        if self.store.accounts.list():
            return None
        password = new_secret()[:24]
        self.add_account("owner", "owner", password)
        return "owner", password

    def add_account(self, name: str, role: str, password: str) -> Account:
        return self.store.accounts.add(
            name, role, hash_password(password, **self._cost), now=self._clock()
        )

    def change_account(
        self, name: str, *, role: str | None = None, password: str | None = None
    ) -> Account:
        hashed = None if password is None else hash_password(password, **self._cost)
        return self.store.accounts.update(name, role=role, password=hashed, now=self._clock())

    def account(self, number: int) -> Account:
        """The account of this number."""
        for account in self.store.accounts.list():
            if account.id == number:
                return account
        raise MissingError(f"there is no account {number}")

    def change_password(self, who: Identity, old: str, new: str, address: str) -> None:
        """Set a new password of one's own, which takes the old one; all sessions end."""
        if who.csrf is None:
            raise DeniedError("only somebody who has signed in has a password")
        hashed = hash_password(new, **self._cost)
        self.sign_out(self.sign_in(who.name, old, address))
        self.store.accounts.update(who.name, password=hashed, now=self._clock())

    # -- sessions -----------------------------------------------------------------------------

    def sign_in(self, name: str, password: str, address: str, *, old: str | None = None) -> str:
        """Begin a session: returns its secret, for the cookie.

        `old` is the session that the browser came with: it ends, so that nobody who planted it
        has ours (session fixation). Raises `SignInError` or `TooManyError`.
        """
        keys = [f"{name[:100]}@{address}", f"address:{address}", f"account:{name[:100]}"]
        wait = self._throttle.wait(keys)
        if wait > 0:
            raise TooManyError(wait)
        account = self.store.accounts.get(name)
        right = check_password(password, self._nobody if account is None else account.password)
        if account is None or not right:
            self._throttle.failed(keys)
            raise SignInError("name or password is wrong")
        self._throttle.succeeded(keys[:1])
        if old:
            self.store.sessions.end(digest(old))
        secret, now = new_secret(), self._clock()
        self.store.sessions.begin(
            account.name, digest(secret), expires_at=now + SESSION_SECONDS, now=now
        )
        return secret

    def sign_out(self, secret: str) -> None:
        self.store.sessions.end(digest(secret))

    def of_session(self, secret: str) -> Identity:
        """Who has this cookie."""
        now = self._clock()
        found = self.store.sessions.get(digest(secret), now=now)
        if found is None:
            return ANONYMOUS
        if now - found.seen_at > _TOUCH_SECONDS:
            self.store.sessions.extend(digest(secret), expires_at=now + SESSION_SECONDS, now=now)
        role = found.account.role
        return Identity(found.account.name, role, SCOPE_OF[role], csrf_token(secret))

    # -- tokens -------------------------------------------------------------------------------

    def new_token(
        self,
        name: str,
        scope: str,
        *,
        account: str | None = None,
        days: float | None = None,
    ) -> tuple[TokenRow, str]:
        """Make a token: the row, and its secret, which nobody can read again."""
        secret, now = new_secret(TOKEN_PREFIX), self._clock()
        expires = None if days is None else now + days * DAY
        if expires is not None and not now < expires <= now + 36_500 * DAY:
            raise InputError("a token is valid for more than 0 and at most 36500 days")
        row = self.store.tokens.add(
            name, scope, digest(secret), account=account, expires_at=expires, now=now
        )
        return row, secret

    def tokens(self, who: Identity) -> list[TokenRow]:
        """One's own tokens; all of them for those who administer."""
        rows = self.store.tokens.list()
        return [row for row in rows if who.may("admin") or row.account == who.name]

    def create_token(
        self, who: Identity, name: str, scope: str, days: float | None = None
    ) -> tuple[TokenRow, str]:
        """Make a token that may no more than its maker."""
        if scope not in NEEDS[1:]:
            raise InputError(f"a token may {', '.join(NEEDS[1:-1])} or {NEEDS[-1]}, not {scope!r}")
        who.must(scope, f"you may not {scope} yourself")
        self._refuse_tokens(who, "makes")
        owner = who.name if self.store.accounts.get(who.name) is not None else None
        return self.new_token(name, scope, account=owner, days=days)

    def revoke_token(self, who: Identity, number: int) -> None:
        """Take a token back: one's own, or any for those who administer."""
        self._refuse_tokens(who, "revokes")
        if number not in {row.id for row in self.tokens(who)}:
            raise MissingError(f"there is no token {number}")
        self.store.tokens.revoke(number)

    @staticmethod
    def _refuse_tokens(who: Identity, verb: str) -> None:
        """Whoever finds a token must not be able to make others of it, or to lock people out."""
        if who.csrf is None:
            who.must("admin", f"a token {verb} no tokens, unless it may administer")

    def of_token(self, secret: str) -> Identity:
        """Who has this token."""
        now = self._clock()
        found = self.store.tokens.get(digest(secret), now=now)
        if found is None:
            return ANONYMOUS
        if found.used_at is None or now - found.used_at > _TOUCH_SECONDS:
            self.store.tokens.used(found.id, now=now)
        scope: str = found.scope
        if found.role is not None:  # never more than its maker may, even if that has shrunk
            scope = min(scope, SCOPE_OF[found.role], key=NEEDS.index)
        return Identity(found.account or f"token {found.name}", found.role or "", scope)

    def is_csrf(self, identity: Identity, sent: str | None) -> bool:
        """Whether a change made with a session carries the token of that session."""
        return identity.csrf is not None and sent is not None and same(identity.csrf, sent)
