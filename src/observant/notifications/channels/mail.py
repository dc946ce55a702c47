"""E-mail by SMTP, with TLS. The server is named in the configuration or was entered while it ran,
the receivers in the channel: ``mailto:me@example.org,you@example.org``.
"""

from __future__ import annotations

import asyncio
import re
import smtplib
import socket
import ssl
from contextlib import suppress
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formatdate
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Meta

from observant.errors import InputError
from observant.notifications.channels import SendResult
from observant.observer.browser.seal import Seal, key_file

if TYPE_CHECKING:
    from observant.notifications.messages import Message
    from observant.observer.clock import Clock
    from observant.observer.config import Config, Notify
    from observant.observer.transport import Guard
    from observant.store import Store

KEPT = "notify.mail"
NO_SERVER = (
    "no mail server is set; enter it on the page Settings, or as notify.mail in the "
    "configuration, such as smtp://user:password@host"
)
_SECURITY = {"starttls": "smtp", "tls": "smtps", "none": "smtp+plain"}
Word = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]

_SECONDS = 30.0
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MOST = 50


class MailServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that e-mail is handed to, as somebody enters it."""

    host: Annotated[str, Meta(max_length=253, pattern=r"^[A-Za-z0-9.:_-]*$")] = ""
    """Empty: the one of the configuration file, if any."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: the usual one."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: Word = ""
    password: Word = ""
    """Never shown again. Empty: the one that was entered before, for the same server and user."""
    sender: Word = ""
    """The address that e-mail comes from."""

    @property
    def place(self) -> tuple[object, ...]:
        """Who gets to see the password."""
        return self.host.lower(), self.port, self.security, self.user

    def url(self, password: str) -> str:
        """As the configuration has it."""
        login = f"{quote(self.user, safe='')}:{quote(password, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_SECURITY[self.security]}://{login}{host}" + (f":{self.port}" * bool(self.port))


def kept_server(store: Store) -> MailServer:
    """The server that was entered while it ran, without its password; none if its host is empty."""
    kept = store.settings.get(KEPT) or {}
    return msgspec.convert({k: v for k, v in kept.items() if k != "password"}, MailServer)


def keep_server(store: Store, config: Config, given: MailServer) -> None:
    """Keep a server for e-mail, its password encrypted under a key outside the store."""
    if not given.host:
        store.settings.set(KEPT, None)
        return
    _check_address(given.sender, "sender")
    _server(given.url(given.password))
    before, sealed = kept_server(store), None
    if given.password:
        sealed = Seal(key_file(config.store, config.browser.key)).close(given.password)
        if sealed is None:
            raise InputError(
                "a password is kept encrypted, and there is no file for the key: name one as `key` "
                "in [browser], or set `mail` in [notify] of the configuration file"
            )
    elif given.user:
        sealed = (store.settings.get(KEPT) or {}).get("password")
        if sealed is None or before.place != given.place:
            raise InputError("enter the password too: it goes to another server or user now")
    kept: dict[str, Any] = msgspec.to_builtins(given)
    store.settings.set(KEPT, kept | {"password": sealed})


def with_server(store: Store, config: Config) -> Config:
    """The configuration with the server that was entered while it ran."""
    kept, server = store.settings.get(KEPT) or {}, kept_server(store)
    if not server.host:
        return config
    sealed = kept.get("password")
    opened = Seal(key_file(config.store, config.browser.key)).open(sealed) if sealed else ""
    if not isinstance(opened, str):
        raise InputError("the password of the mail server cannot be decrypted: enter it again")
    notify = msgspec.structs.replace(config.notify, mail=server.url(opened), sender=server.sender)
    return msgspec.structs.replace(config, notify=notify)


def recipients_of(channel: str) -> list[str]:
    """The addresses of a mailto: channel.

    >>> recipients_of("mailto:me@example.org, you@example.org")
    ['me@example.org', 'you@example.org']
    >>> recipients_of("mailto:me@example.org%0d%0aBcc: all@example.org")
    Traceback (most recent call last):
    observant.errors.InputError: this is no e-mail address: 'me@example.org\\r\\nBcc: ...
    """
    text = channel.partition(":")[2]
    if "?" in text:
        raise InputError("mailto: takes addresses only; subject and text come from templates")
    found = [unquote(part).strip() for part in text.split(",") if part.strip()]
    for address in found:
        _check_address(address)
    if not 1 <= len(found) <= _MOST:
        raise InputError(f"mailto: needs 1 to {_MOST} addresses")
    return found


def letter_of(message: Message, sender: str, recipients: list[str], now: float) -> EmailMessage:
    """The letter: plain text, and the same as HTML with every letter escaped."""
    letter = EmailMessage(policy=SMTP_POLICY)
    letter["From"] = Address(display_name="observant", addr_spec=sender)
    letter["To"] = [Address(addr_spec=address) for address in recipients]
    letter["Subject"] = message.subject
    letter["Date"] = formatdate(now)
    letter["Message-ID"] = f"<{_token(message.id)}@{sender.rpartition('@')[2]}>"
    letter["Observant-Event"] = _token(message.id)
    letter["Auto-Submitted"] = "auto-generated"
    listed = "\n".join(message.event_ids[:1000])
    letter.set_content(f"{message.text}\n\n-- \nevents:\n{listed}\n")
    letter.add_alternative(message.html, subtype="html")
    return letter


class Mail:
    """SMTP. ``smtp://`` uses STARTTLS and refuses to go on without it; ``smtps://`` is TLS from the
    start; ``smtp+plain://`` does without, for a server on this machine.
    """

    def __init__(self, guard: Guard, clock: Clock, notify: Notify) -> None:
        self._guard, self._clock, self._notify = guard, clock, notify

    check = staticmethod(recipients_of)

    @classmethod
    def made(cls, guard: Guard, clock: Clock, config: Config) -> Mail:
        """The channel as the deliverer uses it."""
        return cls(guard, clock, config.notify)

    async def send(self, channel: str, secret: str, message: Message) -> SendResult:
        try:
            server = _server(self._notify.mail)
            sender = self._notify.sender
            _check_address(sender, "notify.sender")
            letter = letter_of(message, sender, recipients_of(channel), self._clock.time())
        except InputError as error:
            return SendResult(error=str(error), down=True)
        return await asyncio.to_thread(self._send, server, letter)

    async def close(self) -> None:
        """Nothing is kept open between letters."""

    def _send(self, server: _MailServer, letter: EmailMessage) -> SendResult:
        connection: smtplib.SMTP | None = None
        try:
            connection = _connected(server, self._guard)
            refused = connection.send_message(letter)
        except smtplib.SMTPRecipientsRefused as error:
            return SendResult(error=_told(error), final=_all_final(error))
        except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as error:
            return SendResult(error=_told(error), down=error.smtp_code < 500)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return SendResult(error=_told(error), down=True)
        finally:
            if connection is not None:
                with suppress(smtplib.SMTPException, OSError):
                    connection.quit()
        if refused:
            # The others have it: another attempt would bring it to them again.
            names = ", ".join(sorted(refused))
            return SendResult(ok=True, error=f"refused for {names}")
        return SendResult(ok=True)


class _MailServer:
    """Where letters are handed in."""

    def __init__(self, scheme: str, host: str, port: int, user: str, password: str) -> None:
        self.scheme, self.host, self.port = scheme, host, port
        self.user, self.password = user, password


_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


def _server(url: str) -> _MailServer:
    if not url:
        raise InputError(NO_SERVER)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit("//"), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError("notify.mail must be smtp://host, smtps://host or smtp+plain://host")
    return _MailServer(
        parts.scheme,
        parts.hostname,
        port or _PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def _connected(server: _MailServer, guard: Guard) -> smtplib.SMTP:
    context = ssl.create_default_context()
    connection: smtplib.SMTP
    if server.scheme == "smtps":
        connection = _GuardedTLS(guard, server.host, context)
    else:
        connection = _Guarded(guard, server.host)
    try:
        connection.connect(server.host, server.port)
        if server.scheme == "smtp":
            connection.starttls(context=context)
        if server.user:
            connection.login(server.user, server.password)
    except BaseException:
        connection.close()
        raise
    return connection


class _Guarded(smtplib.SMTP):
    """Connects only where the guard lets it: the address it was asked about is the one used."""

    def __init__(self, guard: Guard, host: str) -> None:
        self._guard = guard
        super().__init__(timeout=_SECONDS)
        self._host = host  # the name that the certificate must have

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        problem: OSError | None = None
        for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = str(place[0])
            refusal = self._guard.refusal(address)
            if refusal is not None:
                problem = OSError(f"refused: {refusal}")
                continue
            try:
                return socket.create_connection((address, port), timeout)
            except OSError as error:
                problem = error
        raise problem or OSError(f"{host} has no address")


class _GuardedTLS(smtplib.SMTP_SSL, _Guarded):
    """The same, with TLS around it from the start."""

    def __init__(self, guard: Guard, host: str, context: ssl.SSLContext) -> None:
        self._guard = guard
        smtplib.SMTP_SSL.__init__(self, timeout=_SECONDS, context=context)
        self._host = host


def _check_address(address: str, what: str = "") -> None:
    if not _ADDRESS.fullmatch(address):
        where = f"{what}: " if what else ""
        raise InputError(f"{where}this is no e-mail address: {address[:200]!r}")


def _token(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:200]


def _all_final(error: smtplib.SMTPRecipientsRefused) -> bool:
    codes = [reply[0] for reply in error.recipients.values()]
    return bool(codes) and min(codes) >= 500


def _told(error: Exception) -> str:
    """What went wrong. Servers may repeat what they were sent: only their code is passed on."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"the mail server does not accept user and password ({error.smtp_code})"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the mail server says {error.smtp_code}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"the mail server refuses {', '.join(sorted(error.recipients))}"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return "the mail server offers no encryption here (STARTTLS), or no sign-in"
    for kind, words in _TROUBLES.items():
        if isinstance(error, kind):
            return words
    return f"{type(error).__name__}: {error}"[:300]


_TROUBLES: dict[type[Exception], str] = {
    ssl.SSLCertVerificationError: "the certificate of the mail server is not accepted",
    ssl.SSLError: "the mail server does not speak TLS here: try another port or kind of security",
    socket.gaierror: "there is no such mail server",
    TimeoutError: "the mail server does not answer in time",
    ConnectionRefusedError: "nothing answers at this port of the mail server",
    smtplib.SMTPServerDisconnected: "the mail server hung up",
}
"""What people read instead of the name of an error; the first that fits."""
