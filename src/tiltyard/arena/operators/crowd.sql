-- name: crowd_later_sessions
-- Sessions with votes after a position that go in the direction of a model's shift and count or wait to count; those with
-- most of them first.
SELECT e.session
FROM events e
JOIN endings d ON d.arena = e.arena AND d.source = e.source AND d.serial = e.serial AND d.position = e.position
WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.kind = 1 AND e.source = 0 AND d.undone IS NULL
    AND e.blind IS NOT FALSE AND coalesce(e.mark, 3) = 3 AND %(model)s IN (e.a, e.b) AND e.outcome IN (0, 1, 4, 5)
    AND ((e.a = %(model)s) = (e.outcome IN (0, 4))) = %(rises)s
GROUP BY e.session ORDER BY count(*) DESC, e.session LIMIT %(limit)s;
