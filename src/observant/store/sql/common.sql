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

-- name: set_title
UPDATE sources SET title = :title, searched = :searched WHERE id = :source AND title = '';

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
    s.rate, s.rate_low, s.rate_high, s.cost
FROM sources AS s

-- name: names_containing
SELECT name FROM sources WHERE state <> 'removed' AND {contains} ORDER BY name LIMIT 2;

-- name: posteriors
SELECT source, data FROM posteriors WHERE source IN :sources;

-- name: sampled_posteriors
SELECT p.data FROM posteriors AS p JOIN sources AS s ON s.id = p.source
WHERE s.state = 'active' AND s.shard + 0 IN :shards AND s.id % :one_in = 0 ORDER BY s.id;

-- name: set_due
UPDATE sources SET due_at = :due_at WHERE name = :name AND state <> 'removed';

-- name: set_rate
UPDATE sources SET rate = :rate, rate_low = :rate_low, rate_high = :rate_high
WHERE name = :name AND state <> 'removed';

-- name: addresses
SELECT name, CASE WHEN url = '' THEN name ELSE url END, importance FROM sources
WHERE state = 'active' ORDER BY id;

-- name: set_importance
UPDATE sources SET importance = :importance, updated_at = :now
WHERE name = :name AND state <> 'removed';

-- name: begin_anew
UPDATE visits SET changed = NULL
WHERE source = :source AND started_at < :started_at AND changed IS NOT NULL;

-- name: count_anew
UPDATE sources SET changes = 0 WHERE id = :source AND :started_at > 0;

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
    s.id, s.name, m.digest_raw, m.digest_text, coalesce(m.record, '{}'), coalesce(m.memory, '{}'),
    m.validators, s.last_modified, coalesce(m.selection_version, ''), s.good_at, p.data
FROM sources AS s
LEFT JOIN memories AS m ON m.source = s.id
LEFT JOIN posteriors AS p ON p.source = s.id
WHERE s.name IN :names AND s.state <> 'removed';

-- name: latest_contents
SELECT v.source, n.content, n.size, n.digest FROM versions AS v JOIN snapshots AS n ON n.id = v.snapshot
WHERE v.source IN :sources AND v.kind = :kind AND v.seen_at = (
    SELECT max(w.seen_at) FROM versions AS w WHERE w.source = v.source AND w.kind = v.kind
);

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
    error, spot_check
) VALUES (
    :source, :started_at, :took, :outcome, :changed, :status, :last_modified, :digest, :magnitude,
    :bytes, :error, :spot_check
);

-- name: visited
UPDATE sources SET
    visited_at = CASE
        WHEN visited_at > :started_at AND visited_at <= :ahead THEN visited_at ELSE :started_at
    END,
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
    cost = coalesce(:cost, cost),
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
    e.delivered_at, e.id, e.source
FROM events AS e LEFT JOIN sources AS s ON s.id = e.source

-- name: take_events
UPDATE events SET taken_until = :until WHERE id IN :ids;

-- name: deliver
UPDATE events SET delivered_at = :now, error = NULL WHERE event IN :ids AND delivered_at IS NULL;

-- name: postpone
UPDATE events SET due_at = :until, taken_until = 0, attempts = attempts + 1, error = :error
WHERE event = :event AND delivered_at IS NULL;

-- name: prune_events
-- What somebody still waits for stays, and so do dead letters until they are retried.
DELETE FROM events WHERE delivered_at < :before AND NOT EXISTS (
    SELECT 1 FROM deliveries AS d WHERE d.event = events.id AND d.state <> 'sent'
);

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
UPDATE leases
SET observer = :observer, fence = fence + 1, expires_at = :until, holder = :holder
WHERE shard = :shard AND fence = :fence;

-- name: renew_shard
UPDATE leases SET expires_at = :until, holder = :holder
WHERE shard = :shard AND observer = :observer AND fence = :fence AND expires_at > :now;

-- name: release_shard
UPDATE leases SET observer = '', expires_at = 0
WHERE shard = :shard AND observer = :observer AND fence = :fence;

-- name: shards_of
SELECT shard, fence FROM leases WHERE observer = :observer ORDER BY shard;

-- name: holders
SELECT observer, max(expires_at), max(holder) FROM leases
WHERE observer <> '' AND expires_at > :now GROUP BY observer ORDER BY observer;

-- name: void_leases
UPDATE leases SET observer = '', expires_at = 0 WHERE observer IN :void;

-- name: leases
SELECT shard, observer, fence, expires_at FROM leases WHERE observer <> '' ORDER BY shard;

-- name: seen_observer
INSERT INTO observers (name, started_at, seen_at, detail) VALUES (:observer, :now, :now, :detail)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, detail = excluded.detail;

-- name: observers
SELECT name, started_at, seen_at, detail FROM observers WHERE seen_at >= :since ORDER BY name;

-- name: living_observers
SELECT name, started_at, seen_at, detail FROM observers AS o
WHERE seen_at >= :since AND seen_at <= :until AND coalesce((
    SELECT action FROM audit AS a WHERE a.observer = o.name ORDER BY a.id DESC LIMIT 1
), '') <> 'stop'
ORDER BY name;

-- name: note
INSERT INTO audit (noted_at, observer, action, detail) VALUES (:now, :observer, :action, :detail);

-- name: audit
SELECT id, noted_at, observer, action, detail FROM audit

-- == reading visits ==

-- name: select_visits
SELECT v.id, s.name, v.started_at, v.started_at + v.took, v.outcome, v.changed, v.status,
    v.last_modified, d.digest, v.magnitude, v.bytes, v.error, NULL
FROM visits AS v JOIN sources AS s ON s.id = v.source LEFT JOIN digests AS d ON d.id = v.digest

-- name: select_visits_in_detail
SELECT v.id, s.name, v.started_at, v.started_at + v.took, v.outcome, v.changed, v.status,
    v.last_modified, d.digest, v.magnitude, v.bytes, v.error, c.detail
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
    FROM visits WHERE took > 0  -- those that others made, and we imported, took no time
) AS pairs WHERE before - after > :limit;

-- name: unordered_visits
SELECT s.name FROM sources AS s WHERE s.visits > 0 AND s.visited_at <> (
    SELECT max(v.started_at) FROM visits AS v WHERE v.source = s.id AND v.started_at <= :limit
);

-- name: stuck_events
SELECT event FROM events WHERE delivered_at IS NULL AND created_at < :limit AND attempts > 0;

-- name: ended_leases
SELECT observer, count(*) FROM leases WHERE observer <> '' AND expires_at <= :now
GROUP BY observer ORDER BY observer;

-- name: set_last_visits
UPDATE sources SET visited_at = coalesce((
    SELECT max(v.started_at) FROM visits AS v
    WHERE v.source = sources.id AND v.started_at <= :limit
), visited_at)
WHERE visits > 0;

-- == summaries ==

-- name: count_active
SELECT count(*) FROM sources WHERE state = 'active';

-- name: count_in
SELECT count(*) FROM sources WHERE state = 'active' AND shard IN :shards;

-- name: count_unseen
SELECT count(*) FROM sources WHERE state = 'active' AND visited_at IS NULL;

-- name: summary_sources
SELECT s.id, s.name, s.host, s.importance, s.tags, s.config, s.good_at, s.due_at, s.changed_at,
    s.rate, s.rate_low, s.rate_high, s.cost, s.visits, s.changes, p.data
FROM sources AS s LEFT JOIN posteriors AS p ON p.source = s.id
WHERE s.state = 'active' AND (s.id / :step) * :step = s.id ORDER BY s.id;

-- name: failing_hosts
SELECT host, count(*), sum(CASE WHEN failed_in_row > 0 THEN 1 ELSE 0 END), max(failed_in_row),
    max(CASE WHEN failed_in_row > 0 THEN error END),
    max(CASE WHEN failed_in_row > 0 AND error = 'http' THEN status END), max(good_at)
FROM sources WHERE state = 'active' AND host <> ''
GROUP BY host HAVING max(failed_in_row) > 0 ORDER BY 3 DESC, 4 DESC LIMIT :most;

-- name: visits_of_sources
SELECT s.name, v.started_at, v.changed, v.last_modified, NULL, v.magnitude, v.status, NULL, v.outcome
FROM visits AS v JOIN sources AS s ON s.id = v.source
WHERE v.source IN :sources;

-- == accounts, sessions, tokens, replies ==

-- name: add_account
INSERT INTO accounts (name, role, password, created_at, updated_at)
VALUES (:name, :role, :password, :now, :now);

-- name: update_account
UPDATE accounts SET role = :role, password = :password, updated_at = :now WHERE id = :account;

-- name: remove_account
DELETE FROM accounts WHERE id = :account;

-- name: account
SELECT id, name, role, password, created_at, updated_at, signed_in_at FROM accounts
WHERE name = :name;

-- name: accounts
SELECT id, name, role, password, created_at, updated_at, signed_in_at FROM accounts ORDER BY name;

-- name: count_owners
SELECT count(*) FROM accounts WHERE role = 'owner';

-- name: signed_in
UPDATE accounts SET signed_in_at = :now WHERE id = :account;

-- name: begin_session
INSERT INTO sessions (digest, account, created_at, seen_at, expires_at)
VALUES (:digest, :account, :now, :now, :expires_at);

-- name: session
SELECT n.created_at, n.seen_at, n.expires_at,
    a.id, a.name, a.role, a.password, a.created_at, a.updated_at, a.signed_in_at
FROM sessions AS n JOIN accounts AS a ON a.id = n.account
WHERE n.digest = :digest AND n.expires_at > :now;

-- name: extend_session
UPDATE sessions SET seen_at = :now, expires_at = :expires_at WHERE digest = :digest;

-- name: end_session
DELETE FROM sessions WHERE digest = :digest;

-- name: end_sessions_of
DELETE FROM sessions WHERE account = :account;

-- name: sweep_sessions
DELETE FROM sessions WHERE expires_at <= :now;

-- name: add_token
INSERT INTO tokens (digest, name, scope, account, created_at, expires_at)
VALUES (:digest, :name, :scope, :account, :now, :expires_at);

-- name: token
SELECT t.id, t.name, t.scope, a.name, a.role, t.created_at, t.expires_at, t.used_at
FROM tokens AS t LEFT JOIN accounts AS a ON a.id = t.account
WHERE t.digest = :digest AND (t.expires_at IS NULL OR t.expires_at > :now);

-- name: tokens
SELECT t.id, t.name, t.scope, a.name, a.role, t.created_at, t.expires_at, t.used_at
FROM tokens AS t LEFT JOIN accounts AS a ON a.id = t.account ORDER BY t.id;

-- name: used_token
UPDATE tokens SET used_at = :now WHERE id = :token;

-- name: revoke_token
DELETE FROM tokens WHERE id = :token;

-- name: revoke_tokens_of
DELETE FROM tokens WHERE account = :account;

-- name: reply
SELECT request, reply FROM replies WHERE key = :key;

-- name: keep_reply
INSERT INTO replies (key, request, made_at, reply) VALUES (:key, :request, :now, :reply)
ON CONFLICT (key) DO NOTHING;

-- name: sweep_replies
DELETE FROM replies WHERE made_at < :before;

-- == the collection in numbers ==

-- name: add_hour
INSERT INTO hours (hour, visits, changes, failures, bytes)
VALUES (:hour, :visits, :changes, :failures, :bytes)
ON CONFLICT (hour) DO UPDATE SET
    visits = hours.visits + excluded.visits,
    changes = hours.changes + excluded.changes,
    failures = hours.failures + excluded.failures,
    bytes = hours.bytes + excluded.bytes;

-- name: hours
SELECT hour, visits, changes, failures, bytes FROM hours
WHERE hour >= :first AND hour <= :last ORDER BY hour;

-- name: spot_checks
SELECT v.source, v.started_at, v.changed, v.outcome, v.spot_check,
    (SELECT max(b.started_at) FROM visits AS b
     WHERE b.source = v.source AND b.started_at < v.started_at
         AND b.outcome IN ('first', 'same', 'changed', 'back')),
    s.rate, s.importance, s.tags, s.config
FROM visits AS v JOIN sources AS s ON s.id = v.source
WHERE v.spot_check IS NOT NULL AND v.started_at >= :since AND s.state = 'active'
ORDER BY v.started_at DESC LIMIT :most;

-- name: timelines
SELECT source, started_at, changed FROM visits
WHERE source IN :sources AND started_at >= :since
    AND outcome IN ('first', 'same', 'changed', 'back')
ORDER BY source, started_at LIMIT :most;

-- == subscriptions and deliveries ==

-- name: add_subscription
INSERT INTO subscriptions (name, definition, enabled, created_at, updated_at)
VALUES (:name, :definition, :enabled, :now, :now)
ON CONFLICT (name) DO NOTHING;

-- name: update_subscription
UPDATE subscriptions SET
    name = :name, definition = :definition, enabled = :enabled, updated_at = :now,
    rests_until = 0, failures = 0, error = NULL
WHERE id = :subscription;

-- name: remove_subscription
DELETE FROM subscriptions WHERE name = :name;

-- name: subscription_id
SELECT id FROM subscriptions WHERE name = :name;

-- name: select_subscriptions
SELECT id, name, definition, created_at, updated_at, rests_until, failures, error
FROM subscriptions

-- name: queue_delivery
INSERT INTO deliveries (subscription, event, state, queued_at, due_at)
SELECT u.id, e.id, 'waiting', :now, :due_at FROM subscriptions AS u, events AS e
WHERE u.id = :subscription AND e.event = :event
ON CONFLICT (subscription, event) DO NOTHING;

-- name: hold_subscription
UPDATE subscriptions SET taken_until = :until WHERE id = :subscription;

-- name: release_subscription
-- It goes to the end of the queue.
UPDATE subscriptions SET
    taken_until = :now, rests_until = :rests_until, failures = :failures, error = :error
WHERE id = :subscription;

-- name: wake_subscriptions
UPDATE subscriptions SET rests_until = 0;

-- name: due_deliveries
SELECT id, message FROM deliveries
WHERE subscription = :subscription AND state = 'waiting' AND due_at <= :now
ORDER BY due_at, id LIMIT :most;

-- name: of_messages
SELECT id FROM deliveries
WHERE subscription = :subscription AND state = 'waiting' AND message IN :messages;

-- name: compose
UPDATE deliveries SET message = :message WHERE id = :id;

-- name: mark_sent
UPDATE deliveries SET state = 'sent', done_at = :now, attempts = attempts + 1, error = NULL
WHERE id = :id AND state <> 'sent';

-- name: mark_failed
UPDATE deliveries SET
    state = :state, attempts = attempts + 1, error = :error, done_at = :done_at,
    due_at = coalesce(:due_at, due_at)
WHERE id = :id AND state = 'waiting';

-- name: bury
UPDATE deliveries SET state = 'dead', done_at = :now, error = coalesce(error, :error)
WHERE subscription = :subscription AND state = 'waiting' AND queued_at < :before
    AND (due_at <= :now OR attempts > 0); -- what waits for its time has not waited for a receiver

-- name: requeue
UPDATE deliveries SET
    state = 'waiting', queued_at = :now, due_at = :now, attempts = 0, done_at = NULL

-- name: select_deliveries
SELECT d.id, u.name, d.state, d.queued_at, d.due_at, d.attempts, d.error, d.message, d.done_at,
    e.event, e.topic, e.payload, s.name, e.created_at, e.id, e.source
FROM deliveries AS d
JOIN subscriptions AS u ON u.id = d.subscription
JOIN events AS e ON e.id = d.event
LEFT JOIN sources AS s ON s.id = e.source

-- name: count_deliveries
SELECT u.name, d.state, count(d.id)
FROM subscriptions AS u LEFT JOIN deliveries AS d ON d.subscription = u.id
GROUP BY u.name, d.state ORDER BY u.name, d.state;

-- == members of standing queries ==

-- name: add_member
INSERT INTO members (source, url, title, rank, dated_at, first_at, seen_at)
VALUES (:source, :url, :title, :rank, :dated_at, :started_at, :started_at)
ON CONFLICT (source, url) DO UPDATE SET
    title = excluded.title, rank = excluded.rank, dated_at = excluded.dated_at,
    seen_at = excluded.seen_at, left_at = NULL;

-- name: drop_members
UPDATE members SET left_at = :started_at
WHERE source = :source AND left_at IS NULL AND seen_at < :started_at;

-- name: forget_members
-- A list whose results are others on every visit must not fill the store.
DELETE FROM members WHERE source = :source AND left_at < (
    SELECT m.left_at FROM members AS m WHERE m.source = :source AND m.left_at IS NOT NULL
    ORDER BY m.left_at DESC LIMIT 1 OFFSET :most
);

-- name: select_members
SELECT q.name, m.url, m.title, m.rank, m.dated_at, m.first_at, m.seen_at, m.left_at
FROM members AS m JOIN sources AS q ON q.id = m.source

-- name: any_member
SELECT 1 FROM members LIMIT 1;

-- == visits that are asked for ==

-- name: ask
INSERT INTO requests (source, asked_at) SELECT id, :now FROM sources
WHERE name = :name AND state <> 'removed'
ON CONFLICT (source) DO UPDATE SET asked_at = excluded.asked_at;

-- name: asked
SELECT s.name, s.shard, r.asked_at FROM requests AS r JOIN sources AS s ON s.id = r.source
ORDER BY r.asked_at;

-- name: answered
DELETE FROM requests WHERE asked_at <= :asked_at
    AND source = (SELECT id FROM sources WHERE name = :name);

-- == signals ==

-- name: add_signal
INSERT INTO signals (source, kind, received_at, changed_at, listing)
SELECT s.id, :kind, :received_at, :changed_at, :listing FROM sources AS s
WHERE s.name = :name AND s.state <> 'removed' AND NOT EXISTS (
    SELECT 1 FROM signals AS g WHERE g.source = s.id AND g.kind = :kind
        AND coalesce(g.listing, '') = coalesce(:listing, '')
        AND g.received_at BETWEEN :received_at - 60000000 AND :received_at
);

-- name: watched_names
SELECT name FROM sources WHERE name IN :names AND state <> 'removed';

-- name: signals_after
SELECT s.name, g.kind, g.received_at, g.changed_at, g.listing, g.id
FROM signals AS g JOIN sources AS s ON s.id = g.source
WHERE g.id > :after AND s.state <> 'removed' ORDER BY g.id LIMIT :most;

-- name: signals_of
SELECT s.name, g.kind, g.received_at, g.changed_at, g.listing, g.id
FROM signals AS g JOIN sources AS s ON s.id = g.source
WHERE s.name = :name AND s.state <> 'removed' ORDER BY g.id DESC LIMIT :most;

-- name: count_changes
SELECT count(*) FROM visits WHERE changed = 1 AND started_at >= :since;

-- name: count_announced
SELECT count(*) FROM visits WHERE changed = 1 AND started_at >= :since AND id IN (
    SELECT (
        SELECT v.id FROM visits AS v
        WHERE v.source = g.source AND v.started_at >= g.received_at AND v.changed IS NOT NULL
        ORDER BY v.started_at LIMIT 1
    )
    FROM signals AS g WHERE g.received_at >= :since
);

-- name: drop_signals
DELETE FROM signals WHERE received_at < :before;

-- == subscriptions to hubs ==

-- name: select_websub
SELECT w.id, s.name, w.hub, w.topic, w.path, w.secret, w.state, w.leaving, w.asked_at, w.due_at,
    w.expires_at, w.attempts, w.reason, w.seen, s.id, s.state
FROM websub AS w LEFT JOIN sources AS s ON s.id = w.source

-- name: websub_due
WHERE (w.due_at <= :now AND s.state = 'active' AND s.shard + 0 IN :shards)
    OR ((s.id IS NULL OR s.state = 'removed') AND (w.leaving = 0 OR w.due_at <= :now))
ORDER BY w.due_at LIMIT :most

-- name: add_websub
INSERT INTO websub (source, hub, topic, path, secret, state, due_at)
SELECT id, :hub, :topic, :path, :secret, 'offered', :due_at FROM sources WHERE name = :name
ON CONFLICT DO NOTHING;

-- name: leave_websub
UPDATE websub SET source = NULL WHERE id = :id;

-- name: ask_websub
UPDATE websub SET attempts = attempts + 1, asked_at = :now, due_at = :again, leaving = :leaving
WHERE id = :id AND due_at = :due_at AND attempts = :attempts;

-- name: set_websub
UPDATE websub SET state = :state, asked_at = :asked_at, due_at = :due_at, expires_at = :expires_at,
    attempts = :attempts, reason = :reason
WHERE id = :id;

-- name: note_websub
UPDATE websub SET reason = :reason WHERE id = :id;

-- name: see_websub
UPDATE websub SET seen = :seen WHERE id = :id;

-- name: end_websub
DELETE FROM websub WHERE id = :id;
