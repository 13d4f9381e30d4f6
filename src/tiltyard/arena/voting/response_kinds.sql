-- name: stage_kinds
-- The kinds of the responses in some blocks: text, image, audio or app.
SELECT r.response, r.kind
FROM unnest(%(first)s::bigint[]) AS block (first)
JOIN responses r ON r.response >= block.first AND r.response < block.first + %(size)s;

-- name: stage_complain
-- Store a voter's complaint about a matchup; once for each reason.
INSERT INTO complaints (arena, source, serial, session, reason, note)
SELECT %(arena)s, %(source)s, %(serial)s, %(session)s, %(reason)s, %(note)s
WHERE NOT EXISTS (
    SELECT FROM complaints c WHERE c.arena = %(arena)s AND c.source = %(source)s AND c.serial = %(serial)s
        AND c.session = %(session)s AND c.reason = %(reason)s
);
