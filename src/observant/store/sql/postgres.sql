-- What PostgreSQL says differently: locks on rows, because several observers write at a time.

-- name: has_migrations
SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations';

-- name: contains
strpos(searched, :{word}) > 0

-- name: lock_sources
-- In order of id, so that two writers never wait for each other.
WITH locked AS (
    SELECT id, name, shard, visited_at, digest FROM sources
    WHERE name IN :names AND state <> 'removed' ORDER BY id FOR NO KEY UPDATE
)
SELECT s.id, s.name, s.shard, s.visited_at, d.id, d.digest
FROM locked AS s LEFT JOIN digests AS d ON d.id = s.digest;

-- name: lock_leases
-- Whoever wants to take one of these over waits until the commit is through.
SELECT shard, fence, expires_at FROM leases WHERE shard IN :shards ORDER BY shard FOR SHARE;

-- name: free_shards
SELECT shard, observer, fence FROM leases WHERE expires_at <= :now OR observer IN :void
ORDER BY shard LIMIT :most FOR UPDATE SKIP LOCKED;

-- name: free_shard
SELECT fence FROM leases WHERE shard = :shard AND (expires_at <= :now OR observer IN :void)
FOR UPDATE SKIP LOCKED;

-- name: take_pending
SELECT id FROM events
WHERE delivered_at IS NULL AND due_at <= :now AND taken_until <= :now
ORDER BY due_at, id LIMIT :most FOR UPDATE SKIP LOCKED;

-- name: invalid_indices
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready);

-- name: take_subscription
SELECT u.id FROM subscriptions AS u
WHERE u.enabled = 1 AND u.taken_until <= :now AND u.rests_until <= :now AND EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.subscription = u.id AND d.state = 'waiting' AND d.due_at <= :now
) ORDER BY u.taken_until, u.id LIMIT 1 FOR UPDATE OF u SKIP LOCKED;
