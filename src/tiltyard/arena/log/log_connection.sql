-- name: panel_sessions
-- The sessions of an arena's raters, and whether their panel is open.
SELECT r.session, p.closed_at IS NULL
FROM expert_panels p JOIN panel_raters r USING (panel) WHERE p.arena = %(arena)s;

-- name: panel_list_tasks
-- What the raters of open panels are asked about, each rater's items in order.
SELECT r.session, i.prompt, i.one, i.other, t.exchanged
FROM expert_panels p
JOIN panel_tasks t USING (panel)
JOIN panel_raters r USING (panel, rater)
JOIN panel_items i USING (panel, item)
WHERE p.arena = %(arena)s AND p.closed_at IS NULL
ORDER BY r.session, t.place;

-- name: panel_answers
-- Votes and skips of the raters of open panels.
SELECT m.session, m.serial, m.a, m.b, m.prompt, e.kind
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = 0
    AND m.session IN (
        SELECT r.session FROM expert_panels p JOIN panel_raters r USING (panel)
        WHERE p.arena = %(arena)s AND p.closed_at IS NULL
    )
    AND e.kind IN (1, 2) AND e.undone IS NULL;
