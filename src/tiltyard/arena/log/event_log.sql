-- name: log_begin
-- Statements of one batch see what was committed before the lock was obtained.
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: log_lock
-- The lock of writers of an arena's log, held until the transaction ends; but not for long, should
-- its process be stopped in the middle. The server's idle timeout runs only while it has answered
-- everything; servers from 17 on also bound the transaction as a whole. What is acknowledged is on disk,
-- whatever the role's default; a stricter one stays. Plans of these short statements are kept.
SELECT set_config('lock_timeout', '5s', true),
       set_config('plan_cache_mode', 'auto', true),
       CASE WHEN current_setting('synchronous_commit') = 'off'
           THEN set_config('synchronous_commit', 'on', true) END,
       set_config('idle_in_transaction_session_timeout', '10s', true),
       CASE WHEN current_setting('server_version_num')::integer >= 170000
           THEN set_config('transaction_timeout', '15s', true) END,
       pg_advisory_xact_lock(7205, %(arena)s);

-- name: log_listen
-- New events are announced here.
LISTEN tiltyard_log;

-- name: log_announce
-- Announce that these arenas have new events.
SELECT pg_notify('tiltyard_log', %(arenas)s);

-- name: log_position
-- The last position of one arena's log.
SELECT coalesce(max(position), 0) FROM events WHERE arena = %(arena)s;

-- name: log_head
-- The last position of a log, its time, the time now, and up to where votes are final.
SELECT coalesce(max(position), 0), max(at), clock_timestamp(),
       coalesce((SELECT horizon FROM raters WHERE arena = %(arena)s), 0)
FROM (SELECT position, at FROM events WHERE arena = %(arena)s ORDER BY position DESC LIMIT 1) AS last;

-- name: log_tail
-- Events after a position, with the matchups that they serve, show or reveal; absent numbers are -1.
SELECT e.position, e.at, e.kind, coalesce(e.source, -1), coalesce(e.serial, -1), coalesce(e.session, -1),
       coalesce(e.a, m.a, -1), coalesce(e.b, m.b, -1), coalesce(e.prompt, m.prompt, -1),
       coalesce(vote_kind(e.outcome, e.both_bad), -1),
       coalesce(e.nominal, -1), coalesce(e.lane, -1), e.detail, m.matchup, coalesce(m.response_a, -1),
       coalesce(m.response_b, -1), m.expires_at, coalesce(e.blind, true), coalesce(e.free_prompt, m.free_prompt, 0),
       coalesce(e.mark, 0)
FROM events e
LEFT JOIN matchups m ON e.kind IN (0, 9, 14, 15) AND m.arena = e.arena AND m.source = e.source AND m.serial = e.serial
WHERE e.arena = %(arena)s AND e.position > %(after)s
ORDER BY e.position LIMIT %(limit)s;

-- name: log_add_events
-- One row for each event of a batch.
INSERT INTO events
    (arena, at, position, kind, source, serial, session, a, b, prompt, outcome, both_bad, nominal, lane, detail,
     blind, free_prompt, mark)
SELECT %(arena)s, %(at)s, e.position, e.kind, e.source, e.serial, e.session, e.a, e.b, e.prompt,
       vote_outcome(e.vote), e.vote >= 7, e.nominal, e.lane, e.detail, e.blind, e.free_prompt, e.mark
FROM unnest(%(position)s::bigint[], %(kind)s::smallint[], %(source)s::smallint[], %(serial)s::bigint[],
            %(session)s::bigint[], %(a)s::integer[], %(b)s::integer[], %(prompt)s::integer[],
            %(outcome)s::smallint[], %(nominal)s::smallint[], %(lane)s::smallint[], %(detail)s::jsonb[],
            %(blind)s::boolean[], %(free_prompt)s::integer[], %(mark)s::smallint[])
    AS e (position, kind, source, serial, session, a, b, prompt, vote, nominal, lane, detail, blind, free_prompt, mark);

-- name: log_add_matchups
-- One row for each matchup served in a batch.
INSERT INTO matchups
    (arena, served_at, source, serial, matchup, position, session, a, b, prompt, response_a, response_b,
     nominal, lane, reason, propensity, given_up, expires_at, unseen, free_prompt)
SELECT %(arena)s, %(at)s, *
FROM unnest(%(source)s::smallint[], %(serial)s::bigint[], %(matchup)s::uuid[], %(position)s::bigint[],
            %(session)s::bigint[], %(a)s::integer[], %(b)s::integer[], %(prompt)s::integer[],
            %(response_a)s::bigint[], %(response_b)s::bigint[], %(nominal)s::smallint[],
            %(lane)s::smallint[], %(reason)s::text[], %(propensity)s::double precision[],
            %(given_up)s::smallint[], %(expires_at)s::timestamptz[], %(unseen)s::boolean[],
            %(free_prompt)s::integer[]);

-- name: log_show
-- Prefetched matchups were shown in a batch: from now on they can be voted on as long as others.
UPDATE matchups SET unseen = false, shown_at = %(at)s, expires_at = %(expires_at)s
WHERE arena = %(arena)s AND source = %(source)s AND serial = ANY(%(serials)s) AND unseen;

-- name: log_add_endings
-- One row for each matchup that ended in a batch for the first time; a second ending of a matchup fails.
INSERT INTO endings (arena, at, source, serial, position, kind, outcome, both_bad, blind, undone, mark)
SELECT %(arena)s, %(at)s, e.source, e.serial, e.position, e.kind, vote_outcome(e.vote), e.vote >= 7, e.blind, e.undone,
       e.mark
FROM unnest(%(source)s::smallint[], %(serial)s::bigint[], %(position)s::bigint[], %(kind)s::smallint[],
            %(outcome)s::smallint[], %(blind)s::boolean[], %(undone)s::bigint[], %(mark)s::smallint[])
    AS e (source, serial, position, kind, vote, blind, undone, mark);

-- name: log_replace_ending
-- A reopened matchup ended again. Only an ending that was undone is replaced.
UPDATE endings SET position = %(position)s, at = %(at)s, kind = %(kind)s,
    outcome = vote_outcome(%(outcome)s::smallint), both_bad = %(outcome)s::smallint >= 7,
    blind = %(blind)s, undone = %(undone)s, mark = %(mark)s, admitted = NULL
WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s AND undone IS NOT NULL;

-- name: log_admit
-- Votes that waited are admitted to the board. One that was undone, or admitted before, is not.
UPDATE endings e SET admitted = v.position
FROM unnest(%(serials)s::bigint[], %(positions)s::bigint[]) AS v (serial, position)
WHERE e.arena = %(arena)s AND e.source = %(source)s AND e.serial = v.serial AND e.kind = 1 AND e.mark = 3
    AND e.admitted IS NULL AND e.undone IS NULL;

-- name: log_known_voter
-- Whether a person has a vote that is rated, and no change of the crowd holds them.
SELECT NOT EXISTS (
    SELECT FROM crowd_changes c JOIN exclusions x USING (exclusion)
    WHERE c.arena = %(arena)s AND x.restored IS NULL AND c.detail -> 'sessions' @> to_jsonb(%(session)s::bigint)
) AND EXISTS (
    SELECT FROM matchups m JOIN endings e USING (arena, source, serial)
    WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = 0 AND e.kind = 1 AND e.undone IS NULL
        AND e.blind IS NOT FALSE AND (e.mark IS NULL OR e.admitted IS NOT NULL)
);

-- name: log_undo
-- A vote was undone. One whose names were shown is final.
UPDATE endings SET undone = %(position)s
WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s AND kind = 1
    AND position = %(vote)s AND undone IS NULL AND revealed_at IS NULL;

-- name: log_reopen
-- Reopen a matchup, and delete the voter's remark on the vote that was undone.
WITH forgotten AS (
    DELETE FROM remarks WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s
)
UPDATE matchups SET ballot = %(ballot)s, expires_at = %(expires_at)s
WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s;

-- name: log_reveal
-- The names were shown: the vote is final, and its voter knows whose responses these are. A live battle shows its
-- answers once: what its voter knows makes no later battle less blind.
WITH told AS (
    INSERT INTO told_responses (arena, session, response)
    SELECT arena, session, unnest(ARRAY[response_a, response_b]) FROM matchups
    WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s AND free_prompt IS NULL
    ON CONFLICT DO NOTHING
)
UPDATE endings SET revealed_at = coalesce(revealed_at, %(at)s)
WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s AND kind = 1 AND undone IS NULL;

-- name: log_clock
-- The time now, and up to where votes are final, whatever their age.
SELECT clock_timestamp(), coalesce((SELECT horizon FROM raters WHERE arena = %(arena)s), 0);

-- name: log_ending
-- How a matchup ended: read under the lock, it stays so.
SELECT kind, position, undone FROM endings
WHERE arena = %(arena)s AND source = %(source)s AND serial = %(serial)s;

-- name: log_told_responses
-- Responses whose names were revealed to a voter.
SELECT t.response, r.model, r.prompt FROM told_responses t JOIN responses r USING (response)
WHERE t.arena = %(arena)s AND t.session = %(session)s;

-- name: log_pending_names
-- A voter's votes whose names are not revealed yet, newest first.
SELECT m.serial, m.a, m.b, m.prompt, m.response_a, m.response_b, coalesce(m.free_prompt, 0)
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND e.kind = 1 AND e.undone IS NULL AND e.revealed_at IS NULL
ORDER BY e.position DESC LIMIT %(limit)s;

-- name: log_columns
-- A range of a log as fixed-width binary columns; absent values are -1.
COPY (
    SELECT position, (extract(epoch FROM at) * 1000000)::bigint, kind, coalesce(source, -1)::smallint,
           coalesce(serial, -1)::bigint, coalesce(session, -1)::bigint, coalesce(a, -1)::integer,
           coalesce(b, -1)::integer, coalesce(prompt, -1)::integer,
           coalesce(vote_kind(outcome, both_bad), -1)::smallint,
           coalesce(nominal, -1)::smallint, coalesce(lane, -1)::smallint,
           (CASE WHEN blind THEN 1 WHEN NOT blind THEN 0 ELSE -1 END)::smallint, coalesce(free_prompt, 0)::integer,
           coalesce(mark, 0)::smallint
    FROM events WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s
    ORDER BY position
) TO STDOUT (FORMAT binary);

-- name: log_details
-- Details of policies, exclusions and restorations.
SELECT position, detail FROM events
WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s AND kind IN (10, 11, 12)
ORDER BY position;

-- name: log_find_matchup
-- One matchup of an arena by its id, with how it ended.
SELECT m.arena, m.source, m.serial, m.session, m.a, m.b, m.prompt, m.response_a, m.response_b, m.nominal,
       m.lane, m.reason, m.served_at, m.expires_at, e.kind, vote_kind(e.outcome, e.both_bad),
       e.position, e.at, e.revealed_at, e.undone, m.ballot, coalesce(e.blind, true), coalesce(m.free_prompt, 0),
       coalesce(e.mark, 0), e.admitted IS NOT NULL
FROM matchups m LEFT JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s;

-- name: log_serials
-- How many matchups of each source were served or prefetched up to a position: the next serial.
SELECT coalesce((SELECT serial + 1 FROM matchups WHERE arena = %(arena)s AND source = s AND position <= %(upto)s
                 ORDER BY serial DESC LIMIT 1), 0)
FROM generate_series(0, 1) AS s ORDER BY s;

-- name: log_open_matchups
-- Matchups that had not ended at a position, oldest first. One whose vote was undone is open from its serving on.
SELECT m.matchup, m.source, m.serial, m.session, m.a, m.b, m.prompt, m.response_a, m.response_b, m.nominal,
       m.lane, m.served_at, m.expires_at, m.ballot, m.unseen, coalesce(m.free_prompt, 0),
       CASE WHEN NOT m.unseen THEN coalesce(m.shown_at, m.served_at) END
FROM matchups m
WHERE m.arena = %(arena)s AND m.position <= %(upto)s
    AND m.expires_at > (
        SELECT coalesce(max(at), '-infinity') - %(longest)s::interval
        FROM events WHERE arena = %(arena)s AND position = %(upto)s
    )
    AND NOT EXISTS (
        SELECT FROM endings e
        WHERE e.arena = m.arena AND e.source = m.source AND e.serial = m.serial AND e.position <= %(upto)s
            AND e.undone IS NULL
    )
ORDER BY m.position;
