-- name: voter_data_account
-- What is held of a person outside the arenas: how they passed the gate, and who they are if they signed in.
SELECT s.created_at, s.gate, p.name, p.groups, p.created_at, p.signed_in_at,
       (SELECT count(*) FROM person_sign_ins i WHERE i.person = p.person)
FROM (SELECT %(session)s::bigint AS session) asked
LEFT JOIN sessions s ON s.session = asked.session AND s.source = 0
LEFT JOIN people p ON p.session = asked.session;

-- name: voter_data_counts
-- How much an arena holds of a person: votes, other matchups, remarks, reports, live prompts, consents.
SELECT count(*) FILTER (WHERE d.kind = 1 AND d.undone IS NULL), count(*) FILTER (WHERE d.kind IS DISTINCT FROM 1),
       (SELECT count(*) FROM remarks r WHERE r.arena = %(arena)s AND r.session = %(session)s),
       (SELECT count(*) FROM complaints c WHERE c.arena = %(arena)s AND c.session = %(session)s),
       (SELECT count(*) FROM live_battles b JOIN live_turns t USING (arena, matchup)
        WHERE b.arena = %(arena)s AND b.session = %(session)s AND t.prompt IS NOT NULL),
       (SELECT count(*) FROM consents c WHERE c.arena = %(arena)s AND c.session = %(session)s),
       min(m.served_at), max(greatest(m.served_at, d.at))
FROM matchups m LEFT JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = 0;

-- name: voter_data_matchups
-- A person's matchups with how they ended. Models are named once their names were shown to the person.
SELECT m.matchup, m.served_at, p.name, CASE WHEN d.revealed_at IS NOT NULL THEN a.name END,
       CASE WHEN d.revealed_at IS NOT NULL THEN b.name END, CASE WHEN d.undone IS NULL THEN d.kind END,
       CASE WHEN d.undone IS NULL THEN d.outcome END, d.at, d.revealed_at, s.detail, v.detail
FROM matchups m
JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt
JOIN models a ON a.arena = m.arena AND a.model = m.a
JOIN models b ON b.arena = m.arena AND b.model = m.b
LEFT JOIN endings d ON d.arena = m.arena AND d.source = m.source AND d.serial = m.serial
LEFT JOIN events s ON s.arena = m.arena AND s.position = m.position
LEFT JOIN events v ON v.arena = m.arena AND v.position = d.position
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = 0
ORDER BY m.serial;

-- name: voter_data_remarks
-- A person's remarks on votes.
SELECT m.matchup, r.made_at, r.tags, r.comment FROM remarks r JOIN matchups m USING (arena, source, serial)
WHERE r.arena = %(arena)s AND r.session = %(session)s ORDER BY r.made_at;

-- name: voter_data_reports
-- A person's reports of problems.
SELECT m.matchup, c.made_at, c.reason, c.note FROM complaints c JOIN matchups m USING (arena, source, serial)
WHERE c.arena = %(arena)s AND c.session = %(session)s ORDER BY c.complaint;

-- name: voter_data_turns
-- A person's prompts in live battles, with the answers as they were shown.
SELECT t.matchup, t.turn, t.began_at, t.prompt, t.answer_a, t.answer_b, t.outcome, b.language, b.payers
FROM live_battles b JOIN live_turns t USING (arena, matchup)
WHERE b.arena = %(arena)s AND b.session = %(session)s ORDER BY t.began_at, t.matchup, t.turn;

-- name: voter_data_consents
-- Texts that a person agreed to.
SELECT sha256, given_at FROM consents WHERE arena = %(arena)s AND session = %(session)s ORDER BY given_at;
