-- Who observes, what they did, and events that somebody is delivering now.

CREATE TABLE observers (
    name TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    detail TEXT NOT NULL -- JSON
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    noted_at INTEGER NOT NULL,
    observer TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL -- JSON
) STRICT;
CREATE INDEX audit_observer ON audit (observer, id);

ALTER TABLE events ADD COLUMN taken_until INTEGER NOT NULL DEFAULT 0;
