"""One line in ``ADDONS`` switches both middlewares on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from observant.errors import ObservantError
from observant.scrapy.due import DueRequests
from observant.scrapy.recorder import VisitRecorder
from observant.scrapy.settings import AddonSettings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

log = logging.getLogger("observant.scrapy")

_NEXT_TO_ENGINE = 10


class Observant:
    """The add-on: ``ADDONS = {"observant.scrapy.Observant": 500}``."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Put the middlewares next to the engine, where they see what the spider sees."""
        try:
            AddonSettings.read(settings)
        except ObservantError as error:
            raise NotConfigured(f"observant: {error}") from error
        if settings.getbool("HTTPCACHE_ENABLED"):
            log.warning(
                "the HTTP cache is on: what it answers without asking the server is no visit, and "
                "a page that it always answers is never seen to change"
            )
        for kind, component in (
            ("DOWNLOADER_MIDDLEWARES", VisitRecorder),
            ("SPIDER_MIDDLEWARES", DueRequests),
        ):
            settings.setdefault_in_component_priority_dict(kind, component, _NEXT_TO_ENGINE)
