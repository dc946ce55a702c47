-- Subscriptions to hubs (WebSub), one for each source that names a hub.

CREATE TABLE websub (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER UNIQUE REFERENCES sources (id) ON DELETE SET NULL, -- null: to be left
    hub TEXT NOT NULL,
    topic TEXT NOT NULL,
    path TEXT NOT NULL UNIQUE, -- of the callback, which nobody can guess
    secret TEXT NOT NULL,
    state TEXT NOT NULL, -- offered, active or denied
    leaving INTEGER NOT NULL DEFAULT 0,
    asked_at INTEGER, -- when the hub was asked, while its verification is awaited
    due_at INTEGER NOT NULL, -- when it is to be asked next
    expires_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    seen TEXT NOT NULL DEFAULT '' -- digests of the last deliveries
) STRICT;
CREATE INDEX websub_due ON websub (due_at);
