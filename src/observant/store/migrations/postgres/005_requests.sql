-- Who holds a lease, so that others can see whether it lives; and visits that somebody asks for.

ALTER TABLE leases ADD COLUMN holder TEXT NOT NULL DEFAULT '{}'; -- JSON

CREATE TABLE requests (
    source BIGINT PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
    asked_at BIGINT NOT NULL
);
