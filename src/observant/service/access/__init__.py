"""Who may do what. Closed by default: a route names its operation, `rules` says what that needs,
and a request that cannot show it is refused before the handler is called.

There are four needs, each including those before it: ``nothing``, ``read``, ``write``, ``admin``. A
viewer may read, an editor may write, an owner may administer; a token has a scope of its own, and
never more than whoever made it.
"""

from observant.service.access.identity import Access, Identity

__all__ = ["Access", "Identity"]
