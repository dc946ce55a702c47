-- Who may use the service, replies to requests that may come twice, and visits by the hour.

CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'editor', 'viewer')),
    password TEXT NOT NULL, -- scrypt
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    signed_in_at INTEGER
) STRICT;

-- Secrets are never kept, only their SHA-256: they are random, so that is enough.
CREATE TABLE sessions (
    digest BLOB PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_account ON sessions (account);

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    account INTEGER REFERENCES accounts (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER
) STRICT;
CREATE INDEX tokens_account ON tokens (account);

CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    request BLOB NOT NULL, -- SHA-256
    made_at INTEGER NOT NULL,
    reply TEXT NOT NULL -- JSON
) STRICT;
CREATE INDEX replies_made ON replies (made_at);

CREATE TABLE hours (
    hour INTEGER PRIMARY KEY, -- whole hours since 1970
    visits INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO hours (hour, visits, changes, failures, bytes)
SELECT
    started_at / 3600000000,
    count(*),
    sum(CASE WHEN changed = 1 THEN 1 ELSE 0 END),
    sum(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END),
    sum(coalesce(bytes, 0))
FROM visits GROUP BY 1;
