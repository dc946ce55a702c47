"""`observant notify`: subscriptions and their deliveries."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from observant.cli.console import print_json, print_table, text_of, wide_enough
from observant.cli.options import Group, allow_option, limit_option, several, together
from observant.cli.store_options import Common, ago, picked, store_options
from observant.cli.values import DURATION, ZONE, Choice, Number
from observant.names import DELIVERY_STATES, TOPICS
from observant.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.store import Delivery, StoredSubscription

_owner_option = click.option("--owner", metavar="NAME", help="The account it belongs to.")
_what = together(
    click.option(
        "--topic",
        "topics",
        multiple=True,
        type=Choice(TOPICS),
        metavar="TOPIC",
        help=f"Only these events; may be given again: {', '.join(TOPICS)}.",
    ),
    several("--tag", "tags", metavar="TAG", text="Only sources with this tag"),
    several(
        "--host",
        "hosts",
        metavar="HOST",
        text="Only sources of this host (.example.org: and all below it)",
    ),
    click.option(
        "--source",
        "sources",
        multiple=True,
        metavar="NAME",
        help="Only this source or address; may be given again. New addresses are watched.",
    ),
    click.option(
        "--every",
        type=DURATION.kept(),
        help="Have these sources visited at least this often: 3d. One visit serves everybody.",
    ),
    _owner_option,
    several("--term", "terms", metavar="TERM", text="Only if the changed text contains this"),
    click.option(
        "--magnitude", type=Number(0, 1), help="Only if at least this much changed, 0 to 1."
    ),
    click.option("--subject", metavar="TEXT", help="Template of the subject."),
    click.option(
        "--template", metavar="TEXT", help="Template of the text; @FILE reads it from a file."
    ),
    click.option(
        "--digest",
        type=DURATION.kept(),
        help="Collect events this long, and send them together: 1h, 1d.",
    ),
    several("--quiet", metavar="HOURS", text="Send nothing then: '22:00-07:00'"),
    click.option("--timezone", type=ZONE, help="Time zone of these hours.  [default: UTC]"),
    click.option(
        "--secret",
        metavar="TEXT",
        help="Key that signs what a webhook gets.  [default: a random one]",
    ),
)
"""Add the options that say who is notified of what, when, and how."""


@click.group(
    "notify",
    cls=Group,
    invoke_without_command=True,
    short_help="Who is notified of what, and what could not be delivered?",
)
@_owner_option
@store_options
@click.pass_context
def notify(ctx: click.Context, owner: str | None, common: Common) -> None:
    """List who is notified of changes, by webhook, e-mail or Apprise, and what was delivered.

    \b
    Examples:
      observant notify
      observant notify add ops https://example.org/hook --topic failing
      observant notify test ops
      observant notify log --state dead
    """
    if ctx.invoked_subcommand is not None:
        return
    from observant.notifications import shown

    with common.opened() as (found, _):
        every = found.subscriptions.list()
        rows = [shown(one) for one in every if owner is None or one.owner == owner]
        counts = found.deliveries.count()
    if common.as_json:
        print_json([_subscription_json(row) | {"deliveries": counts[row.name]} for row in rows])
        return
    if not rows:
        click.echo("Nobody is notified; `observant notify add` changes that.")
        return
    table = [
        (
            row.name,
            row.channel,
            _filter_words(row),
            *(f"{counts[row.name].get(state, 0):,}" for state in ("waiting", "sent", "dead")),
            _standing(row),
        )
        for row in rows
    ]
    _print_rows(("name", "channel", "events", "waiting", "sent", "dead", "state"), table)


@notify.command("add", short_help="Be notified of changes.")
@click.argument("name")
@click.argument("channel")
@_what
@store_options
def subscribe(
    name: str,
    channel: str,
    common: Common,
    **asked: Any,
) -> None:
    """Send events to a CHANNEL, under a NAME of your choice.

    A channel is a webhook (https://…), e-mail (mailto:me@example.org; the server is notify.mail in
    the configuration), or any address of Apprise; - reads it from standard input, since it often
    holds a secret. Events are delivered while observant run or observant serve is at work, at
    least once each. The secret of a webhook is printed once.

    \b
    Examples:
      observant notify add ops https://example.org/hook --topic failing --topic recovered
      observant notify add me mailto:me@example.org --tag news --digest 1d --quiet 22:00-07:00
      observant notify add ada mailto:ada@example.org --source https://example.org/a --every 3d
      observant notify add law https://example.org/hook --term 'data protection' --magnitude 0.1
    """
    from observant.notifications import checked
    from observant.notifications.channels.mail import NO_SERVER, kept_server
    from observant.store import Filter, Subscription

    wanted, given = _asked(asked)
    if channel == "-":
        channel = sys.stdin.readline().strip()
    entry = checked(Subscription(name=name, channel=channel, filter=Filter(**wanted), **given))
    with common.collected(create=True) as collection:
        kept = collection.store.subscriptions.add(collection.subscriptions.watching(entry))
        server = collection.given.notify.mail or kept_server(collection.store).host
    _tell(kept, "" if kept.secret == given.get("secret", "") else kept.secret, common.as_json)
    if kept.channel.startswith("mailto:") and not server:
        click.echo(f"Not yet: {NO_SERVER}", err=True)


@notify.command("change")
@click.argument("name")
@click.option(
    "--channel", metavar="CHANNEL", help="A new address; on another host it gets a new secret."
)
@click.option("--pause/--resume", "paused", default=None, help="Send nothing for a while.")
@_what
@store_options
def change(
    name: str,
    channel: str | None,
    paused: bool | None,
    common: Common,
    **asked: Any,
) -> None:
    """Change a subscription; what you give replaces what was there.

    \b
    Examples:
      observant notify change ops --digest 1h --topic failing --topic gone
      observant notify change ops --pause
    """
    import msgspec

    from observant.notifications import updated

    wanted, given = _asked(asked)
    if channel is not None:
        given["channel"] = channel
    if paused is not None:
        given["enabled"] = not paused
    with common.collected() as collection:
        before = collection.store.subscriptions.get(name)
        if wanted:
            after = msgspec.structs.replace(before.filter, **wanted)
            listed = msgspec.structs.replace(before, filter=after)
            given["filter"] = collection.subscriptions.watching(listed).filter
        kept = collection.store.subscriptions.update(name, **updated(before, **given))
    known = {before.secret, given.get("secret", "")}
    _tell(kept, "" if kept.secret in known else kept.secret, common.as_json)


@notify.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_options
def remove(names: tuple[str, ...], common: Common) -> None:
    """Remove these subscriptions. What waits for delivery is dropped.

    \b
    Examples:
      observant notify remove ops
    """
    from observant.errors import InputError

    with common.opened() as (found, _):
        for name in names:
            if not found.subscriptions.remove(name):
                raise InputError(f"there is no subscription {name!r}")
    common.tell({"removed": names}, f"removed: {', '.join(names)}")


@notify.command("test")
@click.argument("name")
@allow_option
@store_options
def try_out(name: str, allow: tuple[str, ...], common: Common) -> None:
    """Send one test message now, and say whether it was delivered.

    Exits with 1 if it was not delivered.

    \b
    Examples:
      observant notify test ops
    """
    with common.collected(allow=allow or None) as collection:
        tried = collection.subscriptions.test(collection.store.subscriptions.get(name).id)
    done = f"delivered: {tried.error}" if tried.error else "delivered"
    common.tell(
        {"ok": tried.ok, "error": tried.error or None},
        f"{name}: {done if tried.ok else f'not {done}'}",
    )
    if not tried.ok:
        sys.exit(1)


@notify.command("log", short_help="What was sent; retry what could not be delivered.")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
@click.option("--subscription", metavar="NAME", help="Only those of this subscription.")
@click.option("--state", type=Choice(DELIVERY_STATES), help="Only those in this state.")
@click.option(
    "--retry",
    is_flag=True,
    help="Retry dead letters: those with an ID, of one --subscription, or --all.",
)
@click.option("--all", "all_", is_flag=True, help="All dead letters.")
@limit_option
@store_options
def log(
    ids: tuple[int, ...],
    subscription: str | None,
    state: str | None,
    retry: bool,
    all_: bool,
    limit: int,
    common: Common,
) -> None:
    """Show the delivery log, newest first, or retry what could not be delivered.

    \b
    Examples:
      observant notify log --subscription ops --state waiting
      observant notify log --retry 17 18
      observant notify log --retry --subscription ops
    """
    from observant.units import counted

    if retry and sum((bool(ids), bool(subscription), all_)) != 1:
        raise click.UsageError("say which to retry: ids, --subscription NAME, or --all")
    if not retry and (ids or all_):
        raise click.UsageError("ids and --all go with --retry")
    with common.opened() as (found, _):
        if subscription:
            found.subscriptions.get(subscription)  # complains if there is none
        if not retry:
            rows = found.deliveries.list(subscription=subscription, state=state, limit=limit)
            _show(rows, common.as_json)
            return
        number = found.deliveries.retry(ids or None, subscription=subscription)
    common.tell({"queued": number}, f"{counted(number, 'delivery', 'deliveries')} queued again.")


def _asked(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given: for the filter, and for the subscription itself."""
    given = {key: value for key, value in options.items() if value not in (None, ())}
    if "template" in given:
        text = given["template"]
        is_file = text.startswith("@")
        given["template"] = text_of(text[1:]) if is_file else text.replace("\\n", "\n")
    filters = ("topics", "tags", "hosts", "sources", "terms", "magnitude")
    wanted = {key: given.pop(key) for key in filters if key in given}
    return wanted, given


def _tell(kept: StoredSubscription, secret: str, as_json: bool) -> None:
    """Show a subscription, and a secret that was made up just now."""
    from observant.notifications import shown

    if as_json:
        print_json(_subscription_json(shown(kept)) | ({"secret": secret} if secret else {}))
        return
    paused = "" if kept.enabled else " (paused)"
    click.echo(f"{kept.name}: notifications go to {shown(kept).channel}{paused}")
    if secret:
        click.echo(f"Its secret, shown this once: {secret}")
    click.echo(f"Try it: observant notify test {kept.name}")


def _show(rows: Sequence[Delivery], as_json: bool) -> None:
    if as_json:
        print_json([_delivery_json(row) for row in rows])
        return
    now = time.time()
    table = [
        (
            str(row.id),
            row.subscription,
            row.event.topic,
            row.event.source or "",
            row.state,
            str(row.attempts),
            ago(row.done_at if row.done_at is not None else row.due_at, now),
            row.error or "",
        )
        for row in rows
    ]
    headings = ("id", "subscription", "topic", "source", "state", "attempts", "when", "error")
    _print_rows(headings, table)


def _delivery_json(row: Delivery) -> dict[str, Any]:
    return {
        **picked(row, "id subscription state"),
        "event": row.event.id,
        **picked(row.event, "topic source"),
        **picked(row, "message queued_at due_at done_at attempts error"),
    }


def _subscription_json(row: StoredSubscription) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(row)
    for name in ("created_at", "updated_at"):
        told[name] = iso(told[name])
    told["rests_until"] = iso(row.rests_until) if row.rests_until else None
    return told


def _filter_words(row: StoredSubscription) -> str:
    wanted = row.filter
    parts = [*wanted.topics, *(f"#{tag}" for tag in wanted.tags), *wanted.hosts, *wanted.sources]
    parts += [f"“{term}”" for term in wanted.terms]
    if wanted.magnitude:
        from observant.units import format_share

        parts.append(f"≥ {format_share(wanted.magnitude, 0)}")
    if row.every:
        parts.append(f"every {row.every}")
    return " ".join(parts) or "everything"


def _standing(row: StoredSubscription) -> str:
    if not row.enabled:
        return "paused"
    return f"{row.error} ×{row.failures}" if row.failures else "well"


def _print_rows(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    cells = [tuple(wide_enough(cell, 60) for cell in row) for row in rows]
    numbers = {"waiting", "sent", "dead", "attempts"}
    print_table(headings, cells, words=set(headings) - numbers, pipe_width=200)
