-- name: voter_data_account
-- What is held of a person outside the arenas: how they passed the gate or by which invitation they came, under which name,
-- and who they are if they signed in.
SELECT s.created_at, s.gate, s.invitation, v.name, p.name, p.groups, p.created_at, p.signed_in_at,
       (SELECT count(*) FROM person_sign_ins i WHERE i.person = p.person)
FROM (SELECT %(session)s::bigint AS session) asked
LEFT JOIN sessions s ON s.session = asked.session AND s.source = 0
LEFT JOIN invitations v ON v.invitation = s.invitation
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

-- name: erasure_remarks
-- Delete the remarks of a voter, or of all.
WITH hit AS (
    DELETE FROM remarks WHERE arena = %(arena)s AND (%(sessions)s::bigint[] IS NULL OR session = ANY(%(sessions)s)) RETURNING 1
)
SELECT count(*) FROM hit;

-- name: erasure_complaints
-- Delete the words of a voter's complaints, or of all. Their reason is one of a list.
WITH hit AS (
    UPDATE complaints SET note = NULL
    WHERE arena = %(arena)s AND (%(sessions)s::bigint[] IS NULL OR session = ANY(%(sessions)s)) AND note IS NOT NULL
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: erasure_live_turns
-- Delete the prompts and the answers of a voter's live battles, or of all. What they cost stays.
WITH hit AS (
    UPDATE live_turns t
    SET prompt = NULL, answer_a = NULL, answer_b = NULL, thinking_a = NULL, thinking_b = NULL, flags = '{}'
    FROM live_battles b
    WHERE t.arena = %(arena)s AND b.arena = t.arena AND b.matchup = t.matchup AND t.prompt IS NOT NULL
        AND (%(sessions)s::bigint[] IS NULL OR b.session = ANY(%(sessions)s))
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: erasure_live_payers
-- Delete what connects a voter's live battles with an invitation or a network, or those of all; and what these accounts
-- spent on earlier days. What they spent today still limits them.
WITH accounts AS (
    SELECT DISTINCT unnest(payers) AS account FROM live_battles
    WHERE arena = %(arena)s AND (%(sessions)s::bigint[] IS NULL OR session = ANY(%(sessions)s)) AND payers <> '{}'
), spent AS (
    DELETE FROM live_spending s USING accounts
    WHERE s.arena = %(arena)s AND s.session = accounts.account AND s.day < (clock_timestamp() AT TIME ZONE 'UTC')::date
)
UPDATE live_battles SET payers = '{}'
WHERE arena = %(arena)s AND (%(sessions)s::bigint[] IS NULL OR session = ANY(%(sessions)s)) AND payers <> '{}';

-- name: erasure_details
-- Delete the details of the votes, skips and served matchups of all. No rating depends on them.
WITH hit AS (
    UPDATE events SET detail = NULL
    WHERE arena = %(arena)s AND kind IN (0, 1, 2, 14) AND detail IS NOT NULL
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: erasure_arenas
-- The arenas of a bucket in which people were served something or gave consent, deleted ones as well.
SELECT a.arena, s.session FROM arenas a, unnest(%(sessions)s::bigint[]) AS s (session)
WHERE a.bucket = %(bucket)s AND (
    EXISTS (SELECT FROM matchups m WHERE m.arena = a.arena AND m.session = s.session AND m.source = 0)
    OR EXISTS (SELECT FROM consents c WHERE c.arena = a.arena AND c.session = s.session)
)
ORDER BY a.arena;

-- name: erasure_presence
-- Whether an arena has anything of a person.
SELECT EXISTS (SELECT FROM matchups m WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = 0)
    OR EXISTS (SELECT FROM consents c WHERE c.arena = %(arena)s AND c.session = %(session)s)
    OR EXISTS (SELECT FROM remarks r WHERE r.arena = %(arena)s AND r.session = %(session)s)
    OR EXISTS (SELECT FROM complaints c WHERE c.arena = %(arena)s AND c.session = %(session)s)
    OR EXISTS (SELECT FROM live_battles b WHERE b.arena = %(arena)s AND b.session = %(session)s)
    OR EXISTS (
        SELECT FROM panel_raters r JOIN expert_panels p USING (panel)
        WHERE p.arena = %(arena)s AND r.session = %(session)s
    )
    OR EXISTS (
        SELECT FROM sessions s JOIN invitations i USING (invitation)
        WHERE i.arena = %(arena)s AND s.session = %(session)s AND i.name IS NOT NULL
    );

-- name: erasure_events
-- People's events in a range of the log.
SELECT position FROM events
WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s AND session = ANY(%(sessions)s::bigint[])
    AND source = 0
ORDER BY position;

-- name: erasure_named
-- Events in a range of the log that list sessions, with those of people among them.
SELECT position FROM events
WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s AND kind IN (20, 26) AND EXISTS (
    SELECT FROM jsonb_array_elements(detail -> 'sessions') AS s WHERE s::bigint = ANY(%(sessions)s::bigint[])
);

-- name: erasure_open
-- People's matchups that are open, and the numbers that take the place of theirs.
SELECT m.serial, m.ballot, m.unseen, n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
JOIN matchups m ON m.arena = %(arena)s AND m.session = n.session AND m.source = 0
LEFT JOIN endings d ON d.arena = m.arena AND d.source = m.source AND d.serial = m.serial
WHERE d.serial IS NULL OR d.undone IS NOT NULL
ORDER BY m.serial;

-- name: erasure_fresh
-- People's votes after a position that could still be undone.
SELECT m.serial FROM matchups m JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = ANY(%(sessions)s::bigint[]) AND m.source = 0 AND d.kind = 1 AND d.undone IS NULL
    AND d.revealed_at IS NULL AND d.position > %(horizon)s
ORDER BY m.serial;

-- name: erasure_begin
-- From this position on the log is folded again, because of the event at another one.
INSERT INTO exclusions (arena, reason, excluded, made_at, final, erased_from)
VALUES (%(arena)s, %(reason)s, %(position)s, %(at)s, true, %(first)s) RETURNING exclusion;

-- name: erasure_rename_events
-- Give people's events other numbers, and delete their details. No rating depends on these.
WITH hit AS (
    UPDATE events e
    SET session = n.number, detail = CASE WHEN e.kind IN (0, 1, 2, 14) THEN NULL ELSE e.detail END
    FROM events old JOIN unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number) USING (session)
    WHERE e.arena = %(arena)s AND e.position = ANY(%(positions)s::bigint[])
        AND old.arena = e.arena AND old.position = e.position
    RETURNING old.detail IS NOT NULL AND old.kind IN (0, 1, 2, 14) AS erased
)
SELECT count(*) FILTER (WHERE erased) FROM hit;

-- name: erasure_rename_named
-- The same in events that list sessions.
UPDATE events SET detail = jsonb_set(detail, '{sessions}', (
    SELECT jsonb_agg(coalesce(to_jsonb(n.number), s) ORDER BY place)
    FROM jsonb_array_elements(detail -> 'sessions') WITH ORDINALITY AS l (s, place)
    LEFT JOIN unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number) ON n.session = s::bigint
))
WHERE arena = %(arena)s AND position = ANY(%(positions)s::bigint[]);

-- name: erasure_rename_changes
-- The same in changes of the crowd.
UPDATE crowd_changes SET detail = jsonb_set(detail, '{sessions}', (
    SELECT jsonb_agg(coalesce(to_jsonb(n.number), s) ORDER BY place)
    FROM jsonb_array_elements(detail -> 'sessions') WITH ORDINALITY AS l (s, place)
    LEFT JOIN unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number) ON n.session = s::bigint
))
WHERE arena = %(arena)s AND EXISTS (
    SELECT FROM jsonb_array_elements(detail -> 'sessions') AS s WHERE s::bigint = ANY(%(sessions)s::bigint[])
);

-- name: erasure_rename_matchups
-- The same in people's matchups.
UPDATE matchups t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session AND t.source = 0;

-- name: erasure_rename_complaints
-- The same in complaints, which are about content.
UPDATE complaints t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session AND t.source = 0;

-- name: erasure_rename_battles
-- The same in live battles.
UPDATE live_battles t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session;

-- name: erasure_rename_calls
-- The same in calls to live models.
UPDATE live_calls t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session;

-- name: erasure_rename_slots
-- The same in turns that run or wait.
UPDATE live_slots t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session;

-- name: erasure_rename_spending
-- The same in what was spent.
UPDATE live_spending t SET session = n.number
FROM unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
WHERE t.arena = %(arena)s AND t.session = n.session;

-- name: erasure_rename_rater
-- The same in an expert panel, whose links are revoked.
WITH rater AS (
    UPDATE panel_raters r SET session = n.number, name = 'deleted ' || r.rater + 1
    FROM expert_panels p, unnest(%(sessions)s::bigint[], %(numbers)s::bigint[]) AS n (session, number)
    WHERE p.panel = r.panel AND p.arena = %(arena)s AND r.session = n.session
    RETURNING r.invitation
)
UPDATE invitations i SET revoked_at = coalesce(i.revoked_at, now()), name = NULL FROM rater WHERE i.invitation = rater.invitation;

-- name: erasure_told
-- Forget which names people know, what they agreed to, and the names under which they were invited.
WITH told AS (
    DELETE FROM told_responses WHERE arena = %(arena)s AND session = ANY(%(sessions)s::bigint[])
), invited AS (
    UPDATE invitations i SET name = NULL FROM sessions s
    WHERE i.arena = %(arena)s AND i.invitation = s.invitation AND s.session = ANY(%(sessions)s::bigint[])
)
DELETE FROM consents WHERE arena = %(arena)s AND session = ANY(%(sessions)s::bigint[]);

-- name: erasure_report_sums
-- Delete the sums of the last report and the watch of the crowd, which have voters' numbers; both are made again from the
-- log.
WITH watch AS (DELETE FROM crowd_watches WHERE arena = %(arena)s)
DELETE FROM report_sums WHERE arena = %(arena)s;

-- name: erasure_keeping
-- Arenas that keep voters for so many days, and up to where those who stayed away were forgotten.
SELECT arena, (settings ->> 'session_retention_days')::integer, forgotten_upto FROM arenas
WHERE settings ->> 'session_retention_days' IS NOT NULL AND settings ->> 'stage' IS DISTINCT FROM 'deleted'
ORDER BY arena;

-- name: erasure_absent
-- People of whose own events the last lies between a position and a moment, the longest absent first, where it is, and
-- how many they have. Raters of expert panels are the operator's.
SELECT session, max(position), count(*) FROM events e
WHERE arena = %(arena)s AND position > %(after)s AND source = 0 AND session IS NOT NULL
    AND kind IN (0, 1, 2, 8, 9, 14, 15)
    AND NOT EXISTS (SELECT FROM panel_raters r WHERE r.session = e.session)
GROUP BY session HAVING max(at) < %(absent_since)s::timestamptz
ORDER BY 2 LIMIT %(limit)s;

-- name: erasure_returned
-- Whether one of these people did something after a position.
SELECT EXISTS (
    SELECT FROM events WHERE arena = %(arena)s AND position > %(after)s AND source = 0
        AND kind IN (0, 1, 2, 8, 9, 14, 15) AND session = ANY(%(sessions)s::bigint[])
);

-- name: erasure_revoked
-- Which of these sessions are revoked.
SELECT session FROM sessions WHERE session = ANY(%(sessions)s::bigint[]) AND source = 0 AND revoked_at IS NOT NULL;

-- name: erasure_forgotten
-- Note up to where people were forgotten.
UPDATE arenas SET forgotten_upto = greatest(forgotten_upto, %(upto)s) WHERE arena = %(arena)s;

-- name: erasure_audit
-- Delete people's numbers from the audit log.
UPDATE audit SET detail = jsonb_set(detail, '{session}', '"deleted"')
WHERE action IN ('revoke session', 'erase session') AND detail ->> 'session' = ANY(%(sessions)s::bigint[]::text[]);

-- name: erasure_person
-- Delete who people are, and where they are signed in.
WITH gone AS (
    DELETE FROM person_sign_ins i USING people p WHERE p.person = i.person AND p.session = ANY(%(sessions)s::bigint[])
)
DELETE FROM people WHERE session = ANY(%(sessions)s::bigint[]);

-- name: erasure_sessions
-- Delete the rows of people's sessions, and the names under which they were invited.
WITH invited AS (
    UPDATE invitations i SET name = NULL FROM sessions s
    WHERE i.invitation = s.invitation AND s.session = ANY(%(sessions)s::bigint[])
)
DELETE FROM sessions WHERE session = ANY(%(sessions)s::bigint[]) AND source = 0;

-- name: retention_delete
-- Delete texts that are older than their arena keeps them; a turn that still runs is left alone.
UPDATE live_turns t SET prompt = NULL, answer_a = NULL, answer_b = NULL, thinking_a = NULL, thinking_b = NULL
FROM arenas a
WHERE a.arena = t.arena AND t.prompt IS NOT NULL AND t.ended_at IS NOT NULL
    AND a.settings ->> 'live_retention_days' IS NOT NULL
    AND t.began_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'live_retention_days')::integer)
RETURNING t.arena;

-- name: retention_forget
-- Delete the hashes of prompts that no turn has the text of any more; those of battles without a turn are kept.
UPDATE live_prompts p SET sha256 = NULL
WHERE p.arena = %(arena)s AND p.sha256 IS NOT NULL AND EXISTS (
    SELECT FROM live_battles b JOIN live_turns t USING (arena, matchup)
    WHERE b.arena = p.arena AND b.free_prompt = p.number AND t.turn = 1
) AND NOT EXISTS (
    SELECT FROM live_battles b LEFT JOIN live_turns t ON t.arena = b.arena AND t.matchup = b.matchup AND t.turn = 1
    WHERE b.arena = p.arena AND b.free_prompt = p.number AND (t.matchup IS NULL OR t.prompt IS NOT NULL)
);

-- name: retention_remarks
-- Delete remarks that are older than their arena keeps them.
DELETE FROM remarks r USING arenas a
WHERE a.arena = r.arena AND a.settings ->> 'remark_retention_days' IS NOT NULL
    AND r.made_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'remark_retention_days')::integer);

-- name: retention_notes
-- Delete the words of reports that are older than that.
UPDATE complaints c SET note = NULL FROM arenas a
WHERE a.arena = c.arena AND c.note IS NOT NULL AND a.settings ->> 'remark_retention_days' IS NOT NULL
    AND c.made_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'remark_retention_days')::integer);

-- name: retention_payers
-- Delete the accounts of battles of earlier days.
UPDATE live_battles SET payers = '{}' WHERE payers <> '{}' AND began_at < %(before)s::date;

-- name: retention_networks
-- Delete where sessions came from.
UPDATE sessions SET network = NULL WHERE network IS NOT NULL AND created_at < %(until)s::timestamptz;

-- name: retention_spending
-- Delete what sessions and accounts spent on earlier days; the sums of all stay.
DELETE FROM live_spending WHERE session <> 0 AND day < %(before)s::date;
