-- What SQLite says differently.

-- name: has_migrations
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations';

-- name: contains
instr(searched, :{word}) > 0

-- name: lock_sources
SELECT s.id, s.name, s.shard, s.visited_at, d.id, d.digest
FROM sources AS s LEFT JOIN digests AS d ON d.id = s.digest
WHERE s.name IN :names AND s.state <> 'removed';

-- name: lock_leases
SELECT shard, fence, expires_at FROM leases WHERE shard IN :shards ORDER BY shard;

-- name: free_shards
SELECT shard, observer, fence FROM leases WHERE expires_at <= :now OR observer IN :void
ORDER BY shard LIMIT :most;

-- name: free_shard
SELECT fence FROM leases WHERE shard = :shard AND (expires_at <= :now OR observer IN :void);

-- name: take_pending
SELECT id FROM events
WHERE delivered_at IS NULL AND due_at <= :now AND taken_until <= :now
ORDER BY due_at, id LIMIT :most;

-- name: take_subscription
SELECT u.id FROM subscriptions AS u
WHERE u.enabled = 1 AND u.taken_until <= :now AND u.rests_until <= :now AND EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.subscription = u.id AND d.state = 'waiting' AND d.due_at <= :now
) ORDER BY u.taken_until, u.id LIMIT 1;
