-- What was said of sources: that they may have changed.

CREATE TABLE signals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    changed_at INTEGER -- when the change was, as the signal says
) STRICT;
CREATE INDEX signals_source ON signals (source, received_at);
CREATE INDEX signals_received ON signals (received_at);
