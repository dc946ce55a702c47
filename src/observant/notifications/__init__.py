"""People and programs are told: events of the store's outbox, by webhook, e-mail or Apprise.

Subscriptions say who wants what (`subscriptions`), templates say it (`messages`), channels carry
it (`channels`), and the deliverer sees to it that every event arrives (`delivery`): at least once,
with the same id on every attempt, whatever dies in between.
"""

from observant.notifications.delivery import Deliverer, notifying
from observant.notifications.messages import TOKENS, Message, render
from observant.notifications.signature import sign, verify
from observant.notifications.subscriptions import checked, masked, shown, updated

__all__ = [
    "TOKENS",
    "Deliverer",
    "Message",
    "checked",
    "masked",
    "notifying",
    "render",
    "shown",
    "sign",
    "updated",
    "verify",
]
