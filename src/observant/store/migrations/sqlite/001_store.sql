-- Instants are microseconds since 1970 UTC. Texts named in the comments hold JSON.

CREATE TABLE digests (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE
) STRICT;

CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    shard INTEGER NOT NULL,
    title TEXT NOT NULL,
    importance REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'gone', 'removed')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at INTEGER,
    visited_at INTEGER,
    good_at INTEGER,
    changed_at INTEGER,
    visits INTEGER NOT NULL DEFAULT 0,
    changes INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    failed_in_row INTEGER NOT NULL DEFAULT 0,
    outcome TEXT,
    status INTEGER,
    error TEXT,
    last_modified INTEGER,
    digest INTEGER REFERENCES digests (id),
    rate REAL,
    rate_low REAL,
    rate_high REAL,
    tags TEXT NOT NULL, -- JSON
    config TEXT NOT NULL, -- JSON
    searched TEXT NOT NULL -- name and title, case folded
) STRICT;

CREATE INDEX sources_due ON sources (due_at, id);
CREATE INDEX sources_changed ON sources (changed_at, id);
CREATE INDEX sources_host ON sources (host, id);
-- Most sources are active: an index that began with the state would only lead astray.
CREATE INDEX sources_shard ON sources (shard, state, id);

CREATE TABLE tags (
    tag TEXT NOT NULL,
    source INTEGER NOT NULL REFERENCES sources (id),
    PRIMARY KEY (tag, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_source ON tags (source);

-- Append-only. Columns of the visit log, with whole numbers for source and digest.
CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES sources (id),
    started_at INTEGER NOT NULL,
    took INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    changed INTEGER,
    status INTEGER,
    last_modified INTEGER,
    digest INTEGER REFERENCES digests (id),
    magnitude REAL,
    bytes INTEGER,
    error TEXT
) STRICT;
CREATE UNIQUE INDEX visits_source ON visits (source, started_at);
CREATE INDEX visits_changed ON visits (id) WHERE changed = 1;

-- What a comparison had to tell, for visits where it had.
CREATE TABLE comparisons (
    source INTEGER NOT NULL REFERENCES sources (id),
    started_at INTEGER NOT NULL,
    detail TEXT NOT NULL, -- JSON
    PRIMARY KEY (source, started_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE posteriors (
    source INTEGER PRIMARY KEY REFERENCES sources (id),
    data BLOB NOT NULL
) STRICT;

CREATE TABLE memories (
    source INTEGER PRIMARY KEY REFERENCES sources (id),
    digest_raw BLOB,
    digest_text BLOB,
    selection_version TEXT,
    validators TEXT, -- JSON
    memory TEXT, -- JSON
    record TEXT -- JSON
) STRICT;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE, -- SHA-256 of the content
    size INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    content BLOB NOT NULL -- zstd
) STRICT;
CREATE INDEX snapshots_stored ON snapshots (stored);

CREATE TABLE versions (
    source INTEGER NOT NULL REFERENCES sources (id),
    kind TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    snapshot INTEGER NOT NULL REFERENCES snapshots (id),
    PRIMARY KEY (source, kind, seen_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX versions_snapshot ON versions (snapshot);
CREATE INDEX versions_seen ON versions (seen_at);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    source INTEGER REFERENCES sources (id),
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    delivered_at INTEGER,
    payload TEXT NOT NULL -- JSON
) STRICT;
CREATE INDEX events_pending ON events (due_at, id) WHERE delivered_at IS NULL;
CREATE INDEX events_source ON events (source);
CREATE INDEX events_delivered ON events (delivered_at) WHERE delivered_at IS NOT NULL;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL -- JSON
) STRICT;

CREATE TABLE leases (
    shard INTEGER PRIMARY KEY,
    observer TEXT NOT NULL DEFAULT '',
    fence INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 63)
INSERT INTO leases (shard) SELECT n FROM numbers;

-- The visit log as people know it, for anybody with a SQL prompt.
CREATE VIEW visit_log AS
SELECT
    s.name AS source,
    strftime('%Y-%m-%dT%H:%M:%SZ', v.started_at / 1000000, 'unixepoch') AS time,
    v.changed,
    strftime('%Y-%m-%dT%H:%M:%SZ', v.last_modified / 1000000, 'unixepoch') AS last_modified,
    d.digest,
    v.magnitude,
    v.status,
    v.bytes,
    v.outcome
FROM visits AS v
JOIN sources AS s ON s.id = v.source
LEFT JOIN digests AS d ON d.id = v.digest;
