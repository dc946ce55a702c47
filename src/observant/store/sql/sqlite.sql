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
SELECT shard, observer, fence FROM leases WHERE expires_at <= :now ORDER BY shard LIMIT :most;

-- name: take_pending
SELECT id FROM events
WHERE delivered_at IS NULL AND due_at <= :now AND taken_until <= :now
ORDER BY due_at, id LIMIT :most;
