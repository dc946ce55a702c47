-- What was said of sources: that they may have changed.

CREATE TABLE signals (
    id BIGSERIAL PRIMARY KEY,
    source BIGINT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    changed_at BIGINT -- when the change was, as the signal says
);
CREATE INDEX signals_source ON signals (source, received_at);
CREATE INDEX signals_received ON signals (received_at);
