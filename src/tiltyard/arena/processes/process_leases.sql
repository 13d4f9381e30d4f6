-- name: processes_renew
-- Renew the lease of a process, and list the other processes of its role whose leases are valid.
WITH renewed AS (
    INSERT INTO processes (process, role, expires_at)
    VALUES (%(process)s, %(role)s, clock_timestamp() + make_interval(secs => %(lease_seconds)s))
    ON CONFLICT (process) DO UPDATE SET expires_at = excluded.expires_at
)
SELECT process FROM processes
WHERE role = %(role)s AND process <> %(process)s AND expires_at > clock_timestamp();

-- name: processes_running
-- Whether a process of a role has a valid lease.
SELECT EXISTS (SELECT FROM processes WHERE role = %(role)s AND expires_at > clock_timestamp());

-- name: processes_remove
-- End the lease of a process, and delete those that expired long ago.
DELETE FROM processes WHERE process = %(process)s OR expires_at < clock_timestamp() - interval '1 hour';
