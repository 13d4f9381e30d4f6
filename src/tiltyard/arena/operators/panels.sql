-- name: panels_prompts
-- Prompts that were not withdrawn, with their categories.
SELECT prompt, name, category FROM prompts WHERE arena = %(arena)s AND withdrawn_at IS NULL ORDER BY prompt;

-- name: panels_cells
-- Models and prompts with a live response.
SELECT model, prompt FROM responses WHERE arena = %(arena)s AND withdrawn_at IS NULL;

-- name: panels_add
-- A new panel; returns its number. While another is open, names were told as before that one.
INSERT INTO expert_panels (arena, name, overlap, pairs_per_prompt, seed, opened_at, opened, reveal_before)
VALUES (
    %(arena)s, %(name)s, %(overlap)s, %(pairs)s, %(seed)s, %(at)s, %(position)s,
    coalesce(
        (SELECT min(reveal_before) FROM expert_panels WHERE arena = %(arena)s AND closed_at IS NULL), %(reveal)s
    )
) RETURNING panel;

-- name: panels_add_raters
-- The raters of a new panel.
INSERT INTO panel_raters (panel, rater, name, session, invitation)
SELECT %(panel)s, * FROM unnest(%(rater)s::integer[], %(name)s::text[], %(session)s::bigint[], %(invitation)s::bigint[]);

-- name: panels_add_items
-- The items of a new panel, numbered from 0.
INSERT INTO panel_items (panel, item, prompt, one, other)
SELECT %(panel)s, place - 1, prompt, one, other
FROM unnest(%(prompt)s::integer[], %(one)s::integer[], %(other)s::integer[])
    WITH ORDINALITY AS n (prompt, one, other, place);

-- name: panels_add_tasks
-- Who is asked about which item.
INSERT INTO panel_tasks (panel, item, rater, place, exchanged)
SELECT %(panel)s, * FROM unnest(%(item)s::integer[], %(rater)s::integer[], %(place)s::integer[], %(exchanged)s::boolean[]);

-- name: panels_list
-- The panels of an arena, all or one by name, with their sizes.
SELECT p.panel, p.arena, p.name, p.overlap, p.pairs_per_prompt, p.seed, p.opened_at, p.opened, p.closed_at, p.closed,
       (SELECT count(*) FROM panel_items i WHERE i.panel = p.panel),
       (SELECT count(*) FROM panel_tasks t WHERE t.panel = p.panel)
FROM expert_panels p
WHERE p.arena = %(arena)s AND (%(name)s::text IS NULL OR p.name = %(name)s) ORDER BY p.panel;

-- name: panels_close
-- A panel is closed.
UPDATE expert_panels SET closed_at = %(at)s, closed = %(position)s WHERE panel = %(panel)s;

-- name: panels_reveal_after
-- How names are told again after a panel; no row while another one is open.
SELECT reveal_before FROM expert_panels p
WHERE panel = %(panel)s
    AND NOT EXISTS (SELECT FROM expert_panels o WHERE o.arena = p.arena AND o.closed_at IS NULL);

-- name: panels_raters
-- The raters of a panel.
SELECT rater, name, session, invitation FROM panel_raters WHERE panel = %(panel)s ORDER BY rater;

-- name: panels_rater_by_invitation
-- The rater whose link this is.
SELECT rater, name, session, invitation FROM panel_raters WHERE invitation = %(invitation)s;

-- name: panels_rater_by_session
-- The rater that votes in this session, with the name of the panel.
SELECT p.name, r.rater, r.name, r.session, r.invitation
FROM panel_raters r JOIN expert_panels p USING (panel)
WHERE r.session = %(session)s AND p.arena = %(arena)s;

-- name: panels_items
-- The items of a panel with their names, categories, and the newest adjudication of each.
SELECT i.item, i.prompt, p.name, p.category, a.name, b.name, j.verdict, j.note, j.actor, j.made_at
FROM panel_items i
JOIN expert_panels x USING (panel)
JOIN prompts p ON p.arena = x.arena AND p.prompt = i.prompt
JOIN models a ON a.arena = x.arena AND a.model = i.one
JOIN models b ON b.arena = x.arena AND b.model = i.other
LEFT JOIN LATERAL (
    SELECT verdict, note, actor, made_at FROM panel_adjudications d
    WHERE d.panel = i.panel AND d.item = i.item ORDER BY d.adjudication DESC LIMIT 1
) j ON true
WHERE i.panel = %(panel)s ORDER BY i.item;

-- name: panels_tasks
-- Who is asked about which item, in the order of items and raters.
SELECT item, rater, place, exchanged FROM panel_tasks WHERE panel = %(panel)s ORDER BY item, rater;

-- name: panels_votes
-- The votes and skips of a panel's raters on its items, in the order of the log, with their remarks.
SELECT i.item, r.rater, e.kind, m.a = i.one, e.outcome, e.at, e.blind IS NOT FALSE AND coalesce(e.mark, 0) NOT IN (1, 2), coalesce(k.tags, '{}'), k.comment
FROM panel_raters r
JOIN matchups m ON m.arena = %(arena)s AND m.source = 0 AND m.session = r.session
JOIN endings e ON e.arena = m.arena AND e.source = m.source AND e.serial = m.serial
JOIN panel_items i ON i.panel = r.panel AND i.prompt = m.prompt
    AND i.one = least(m.a, m.b) AND i.other = greatest(m.a, m.b)
LEFT JOIN remarks k ON k.arena = m.arena AND k.source = m.source AND k.serial = m.serial
WHERE r.panel = %(panel)s AND e.kind IN (1, 2) AND e.undone IS NULL
ORDER BY e.position;

-- name: panels_adjudicate
-- What a senior rater says of an item.
INSERT INTO panel_adjudications (panel, item, verdict, note, actor)
VALUES (%(panel)s, %(item)s, %(verdict)s, %(note)s, %(actor)s) RETURNING adjudication;
