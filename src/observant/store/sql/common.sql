-- Statements that both engines understand.

-- == migrating ==

-- name: create_migrations
CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);

-- name: version
SELECT max(number) FROM migrations;

-- name: migrated
INSERT INTO migrations (number, name, applied_at) VALUES (:number, :name, :now);

-- == sources ==

-- name: sources_by_name
SELECT name, id, state FROM sources WHERE name IN :names;

-- name: add_source
INSERT INTO sources (
    name, kind, url, host, shard, title, importance, state, created_at, updated_at, due_at,
    tags, config, searched
) VALUES (
    :name, :kind, :url, :host, :shard, :title, :importance, :state, :now, :now, :due_at,
    :tags, :config, :searched
) ON CONFLICT (name) DO NOTHING;

-- name: describe_source
UPDATE sources SET
    kind = :kind, url = :url, host = :host, shard = :shard, title = :title,
    importance = :importance, state = :state, updated_at = :now, due_at = :due_at,
    tags = :tags, config = :config, searched = :searched
WHERE name = :name;

-- name: untag
DELETE FROM tags WHERE source IN :sources;

-- name: tag
INSERT INTO tags (tag, source) SELECT :tag, id FROM sources WHERE name = :name
ON CONFLICT (tag, source) DO NOTHING;

-- name: all_tags
SELECT tag, count(*) FROM tags GROUP BY tag ORDER BY tag;

-- name: remove_source
UPDATE sources SET state = 'removed', updated_at = :now, due_at = NULL
WHERE name = :name AND state <> 'removed';

-- name: source_id
SELECT id FROM sources WHERE name = :name;

-- name: forget_source
DELETE FROM sources WHERE id = :source;

-- name: select_sources
SELECT
    s.name, s.kind, s.url, s.host, s.title, s.tags, s.importance, s.state, s.due_at, s.config,
    s.id, s.shard, s.created_at, s.updated_at, s.visited_at, s.good_at, s.changed_at,
    s.visits, s.changes, s.failures, s.failed_in_row, s.outcome, s.status, s.error,
    s.last_modified, (SELECT d.digest FROM digests AS d WHERE d.id = s.digest),
    s.rate, s.rate_low, s.rate_high
FROM sources AS s

-- name: names_containing
SELECT name FROM sources WHERE state <> 'removed' AND {contains} ORDER BY name LIMIT 2;

-- name: posteriors
SELECT source, data FROM posteriors WHERE source IN :sources;

-- name: set_due
UPDATE sources SET due_at = :due_at, updated_at = :now WHERE name = :name AND state <> 'removed';

-- name: counts
SELECT state, count(*), coalesce(sum(visits), 0), coalesce(sum(changes), 0),
    coalesce(sum(failures), 0)
FROM sources GROUP BY state;

-- name: count_pending
SELECT count(*) FROM events WHERE delivered_at IS NULL;

-- name: count_snapshots
SELECT count(*), coalesce(sum(stored), 0) FROM snapshots;

-- == what the next visit needs ==

-- name: remembered
SELECT
    s.name, s.id, m.digest_raw, m.digest_text, m.record, m.memory, m.validators,
    s.last_modified, m.selection_version, s.good_at, p.data
FROM sources AS s
LEFT JOIN memories AS m ON m.source = s.id
LEFT JOIN posteriors AS p ON p.source = s.id
WHERE s.name IN :names AND s.state <> 'removed';

-- name: latest_contents
SELECT v.source, n.content, n.size, n.digest FROM versions AS v JOIN snapshots AS n ON n.id = v.snapshot
WHERE v.source IN :sources AND v.kind = :kind AND v.seen_at = (
    SELECT max(w.seen_at) FROM versions AS w WHERE w.source = v.source AND w.kind = v.kind
);

-- name: set_memory
INSERT INTO memories (source, memory, validators) VALUES (:source, :memory, :validators)
ON CONFLICT (source) DO UPDATE SET
    memory = excluded.memory,
    validators = CASE WHEN :set_validators = 1 THEN excluded.validators ELSE memories.validators END;

-- == recording a visit ==

-- name: known_visit
SELECT id FROM visits WHERE source = :source AND started_at = :started_at;

-- name: add_digest
INSERT INTO digests (digest) VALUES (:digest) ON CONFLICT (digest) DO NOTHING;

-- name: digest_ids
SELECT digest, id FROM digests WHERE digest IN :digests;

-- name: add_visit
INSERT INTO visits (
    source, started_at, took, outcome, changed, status, last_modified, digest, magnitude, bytes,
    error
) VALUES (
    :source, :started_at, :took, :outcome, :changed, :status, :last_modified, :digest, :magnitude,
    :bytes, :error
);

-- name: visited
UPDATE sources SET
    visited_at = CASE WHEN visited_at > :started_at THEN visited_at ELSE :started_at END,
    good_at = CASE WHEN :good = 1 THEN :started_at ELSE good_at END,
    changed_at = CASE WHEN :changed = 1 THEN :started_at ELSE changed_at END,
    visits = visits + 1,
    changes = changes + :changed,
    failures = failures + :failed,
    failed_in_row = CASE WHEN :failed = 1 THEN failed_in_row + 1 ELSE 0 END,
    outcome = :outcome,
    status = :status,
    error = :error,
    last_modified = CASE WHEN :dated = 1 THEN :last_modified ELSE last_modified END,
    digest = coalesce(:digest, digest),
    due_at = CASE WHEN :set_due = 1 THEN :due_at ELSE due_at END,
    rate = CASE WHEN :set_rate = 1 THEN :rate ELSE rate END,
    rate_low = CASE WHEN :set_rate = 1 THEN :rate_low ELSE rate_low END,
    rate_high = CASE WHEN :set_rate = 1 THEN :rate_high ELSE rate_high END,
    state = coalesce(:state, state)
WHERE id = :source;

-- name: add_comparison
INSERT INTO comparisons (source, started_at, detail) VALUES (:source, :started_at, :detail);

-- name: set_posterior
INSERT INTO posteriors (source, data) VALUES (:source, :data)
ON CONFLICT (source) DO UPDATE SET data = excluded.data;

-- name: clear_posterior
DELETE FROM posteriors WHERE source = :source;

-- name: remember
INSERT INTO memories (
    source, digest_raw, digest_text, selection_version, validators, memory, record
) VALUES (
    :source, :digest_raw, :digest_text, :selection_version, :validators, :memory, :record
) ON CONFLICT (source) DO UPDATE SET
    digest_raw = coalesce(excluded.digest_raw, memories.digest_raw),
    digest_text = coalesce(excluded.digest_text, memories.digest_text),
    selection_version = coalesce(excluded.selection_version, memories.selection_version),
    validators = CASE WHEN :set_validators = 1 THEN excluded.validators ELSE memories.validators END,
    memory = coalesce(excluded.memory, memories.memory),
    record = coalesce(excluded.record, memories.record);

-- == snapshots ==

-- name: add_snapshot
INSERT INTO snapshots (digest, size, stored, created_at, content)
VALUES (:digest, :size, :stored, :now, :content)
ON CONFLICT (digest) DO NOTHING;

-- name: known_snapshots
SELECT digest, id FROM snapshots WHERE digest IN :digests;

-- name: add_version
INSERT INTO versions (source, kind, seen_at, snapshot) VALUES (:source, :kind, :seen_at, :snapshot)
ON CONFLICT (source, kind, seen_at) DO NOTHING;

-- name: versions
SELECT v.seen_at, v.kind, n.digest, n.size, n.stored
FROM versions AS v JOIN snapshots AS n ON n.id = v.snapshot
WHERE v.source = :source AND v.kind = :kind ORDER BY v.seen_at DESC LIMIT :most;

-- name: snapshot
SELECT content, size FROM snapshots WHERE digest = :digest;

-- name: version_at
SELECT n.content, n.size, n.digest FROM versions AS v JOIN snapshots AS n ON n.id = v.snapshot
WHERE v.source = :source AND v.kind = :kind AND v.seen_at <= :at
ORDER BY v.seen_at DESC LIMIT 1;

-- name: expire_by_age
-- Never the latest of a source. So it is with all three: the next visit is compared with it.
DELETE FROM versions WHERE (source, kind, seen_at) IN (
    SELECT v.source, v.kind, v.seen_at FROM versions AS v
    WHERE v.seen_at < :before AND EXISTS (
        SELECT 1 FROM versions AS w
        WHERE w.source = v.source AND w.kind = v.kind AND w.seen_at > v.seen_at
    )
    ORDER BY v.seen_at, v.source LIMIT :most
) RETURNING snapshot;

-- name: expire_by_count
DELETE FROM versions WHERE source IN :sources AND (
    SELECT count(*) FROM versions AS w
    WHERE w.source = versions.source AND w.kind = versions.kind AND w.seen_at > versions.seen_at
) >= :most RETURNING snapshot;

-- name: sources_with_many
SELECT source FROM versions GROUP BY source, kind HAVING count(*) > :most LIMIT 500;

-- name: orphans_of
SELECT count(*), coalesce(sum(stored), 0) FROM snapshots
WHERE id IN :ids AND NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.snapshot = snapshots.id);

-- name: sweep_of
DELETE FROM snapshots
WHERE id IN :ids AND NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.snapshot = snapshots.id);

-- name: orphan_bytes
SELECT count(*), coalesce(sum(stored), 0) FROM snapshots
WHERE NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.snapshot = snapshots.id);

-- name: sweep
DELETE FROM snapshots
WHERE NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.snapshot = snapshots.id);

-- == outbox ==

-- name: add_event
INSERT INTO events (event, topic, source, created_at, due_at, payload)
VALUES (:event, :topic, :source, :now, :due_at, :payload)
ON CONFLICT (event) DO NOTHING;

-- name: select_events
SELECT e.event, e.topic, e.payload, e.due_at, s.name, e.created_at, e.attempts, e.error,
    e.delivered_at
FROM events AS e LEFT JOIN sources AS s ON s.id = e.source

-- name: take_events
UPDATE events SET taken_until = :until WHERE id IN :ids;

-- name: deliver
UPDATE events SET delivered_at = :now, error = NULL WHERE event IN :ids AND delivered_at IS NULL;

-- name: postpone
UPDATE events SET due_at = :until, taken_until = 0, attempts = attempts + 1, error = :error
WHERE event = :event AND delivered_at IS NULL;

-- name: prune_events
DELETE FROM events WHERE delivered_at < :before;

-- == settings ==

-- name: setting
SELECT value FROM settings WHERE key = :key;

-- name: settings
SELECT key, value FROM settings ORDER BY key;

-- name: set_setting
INSERT INTO settings (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: delete_setting
DELETE FROM settings WHERE key = :key;

-- == observers ==

-- name: held_shards
SELECT shard, fence FROM leases WHERE observer = :observer AND expires_at > :now ORDER BY shard;

-- name: take_shard
UPDATE leases SET observer = :observer, fence = fence + 1, expires_at = :until
WHERE shard = :shard AND expires_at <= :now;

-- name: renew_shard
UPDATE leases SET expires_at = :until
WHERE shard = :shard AND observer = :observer AND fence = :fence AND expires_at > :now;

-- name: release_shard
UPDATE leases SET observer = '', expires_at = 0
WHERE shard = :shard AND observer = :observer AND fence = :fence;

-- name: shards_of
SELECT shard, fence FROM leases WHERE observer = :observer ORDER BY shard;

-- name: leases
SELECT shard, observer, fence, expires_at FROM leases WHERE observer <> '' ORDER BY shard;

-- name: seen_observer
INSERT INTO observers (name, started_at, seen_at, detail) VALUES (:observer, :now, :now, :detail)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at;

-- name: observers
SELECT name, started_at, seen_at, detail FROM observers WHERE seen_at >= :since ORDER BY name;

-- name: note
INSERT INTO audit (noted_at, observer, action, detail) VALUES (:now, :observer, :action, :detail);

-- name: audit
SELECT id, noted_at, observer, action, detail FROM audit

-- == reading visits ==

-- name: select_visits
SELECT v.id, s.name, v.started_at, v.took, v.outcome, v.changed, v.status, v.last_modified,
    d.digest, v.magnitude, v.bytes, v.error
FROM visits AS v JOIN sources AS s ON s.id = v.source LEFT JOIN digests AS d ON d.id = v.digest

-- name: select_visits_in_detail
SELECT v.id, s.name, v.started_at, v.took, v.outcome, v.changed, v.status, v.last_modified,
    d.digest, v.magnitude, v.bytes, v.error, c.detail
FROM visits AS v JOIN sources AS s ON s.id = v.source LEFT JOIN digests AS d ON d.id = v.digest
LEFT JOIN comparisons AS c ON c.source = v.source AND c.started_at = v.started_at

-- name: all_names
SELECT id, name FROM sources

-- name: export_visits
SELECT v.source, v.started_at, v.changed, v.last_modified,
    (SELECT d.digest FROM digests AS d WHERE d.id = v.digest),
    v.magnitude, v.status, v.bytes, v.outcome
FROM visits AS v

-- == doctor ==

-- name: wrong_counts
SELECT s.id, s.name, coalesce(v.visits, 0), coalesce(v.changes, 0), coalesce(v.failures, 0)
FROM sources AS s LEFT JOIN (
    SELECT source, count(*) AS visits,
        sum(CASE WHEN changed = 1 THEN 1 ELSE 0 END) AS changes,
        sum(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failures
    FROM visits GROUP BY source
) AS v ON v.source = s.id
WHERE s.visits <> coalesce(v.visits, 0) OR s.changes <> coalesce(v.changes, 0)
    OR s.failures <> coalesce(v.failures, 0);

-- name: set_counts
UPDATE sources SET visits = :visits, changes = :changes, failures = :failures WHERE id = :source;

-- name: never_due
SELECT name FROM sources WHERE state = 'active' AND due_at IS NULL;

-- name: due_too_late
SELECT name FROM sources WHERE state = 'active' AND due_at > :limit;

-- name: make_due
UPDATE sources SET due_at = :now WHERE state = 'active' AND (due_at IS NULL OR due_at > :limit);

-- name: missing_snapshots
SELECT s.name FROM versions AS v JOIN sources AS s ON s.id = v.source
WHERE NOT EXISTS (SELECT 1 FROM snapshots AS n WHERE n.id = v.snapshot);

-- name: some_snapshots
SELECT id, digest, size, content FROM snapshots WHERE id > :last ORDER BY id LIMIT :most;

-- name: visits_ahead
SELECT s.name FROM visits AS v JOIN sources AS s ON s.id = v.source WHERE v.started_at > :limit;

-- name: clock_jumps
SELECT before, after FROM (
    SELECT lag(started_at + took) OVER (ORDER BY id) AS before, started_at + took AS after
    FROM visits
) AS pairs WHERE before - after > :limit;

-- name: unordered_visits
SELECT s.name FROM sources AS s WHERE s.visits > 0 AND s.visited_at <> (
    SELECT max(v.started_at) FROM visits AS v WHERE v.source = s.id
);

-- name: stuck_events
SELECT event FROM events WHERE delivered_at IS NULL AND created_at < :limit AND attempts > 0;

-- name: ended_leases
SELECT observer, count(*) FROM leases WHERE observer <> '' AND expires_at <= :now
GROUP BY observer ORDER BY observer;

-- name: set_last_visits
UPDATE sources SET visited_at = (SELECT max(v.started_at) FROM visits AS v WHERE v.source = sources.id)
WHERE visits > 0;
