-- Who is told of what, what was told, and the results of standing queries.

CREATE TABLE subscriptions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL, -- JSON
    enabled INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    taken_until INTEGER NOT NULL DEFAULT 0, -- somebody is delivering to it
    rests_until INTEGER NOT NULL DEFAULT 0, -- its receiver is down, or asked for rest
    failures INTEGER NOT NULL DEFAULT 0, -- in a row
    error TEXT
) STRICT;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    subscription INTEGER NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
    event INTEGER NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'dead')),
    queued_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    message TEXT, -- id of the message it is part of, once that was put together
    done_at INTEGER,
    UNIQUE (subscription, event)
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (subscription, due_at) WHERE state = 'waiting';
CREATE INDEX deliveries_dead ON deliveries (id) WHERE state = 'dead';
CREATE INDEX deliveries_event ON deliveries (event);

CREATE TABLE members (
    source INTEGER NOT NULL REFERENCES sources (id), -- the standing query
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    rank INTEGER NOT NULL,
    dated_at INTEGER, -- what the list says of its last change
    first_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    left_at INTEGER, -- it is no result any more
    PRIMARY KEY (source, url)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_url ON members (url) WHERE left_at IS NULL;
