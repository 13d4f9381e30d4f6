-- name: live_lock
-- The lock of an arena's budgets and of its numbers of prompts, held until the transaction ends. Plans are kept: making
-- them took longer than what they do.
SELECT set_config('lock_timeout', '5s', true), set_config('plan_cache_mode', 'auto', true),
       pg_advisory_xact_lock(7209, %(arena)s);

-- name: live_spending
-- What is counted against the budgets: of all in total and today, of one voter today, on whichever account it is most;
-- and which day it is. The third account, a wider network, may spend twice as much, and the fourth twice as much again.
SELECT coalesce(sum(s.counted) FILTER (WHERE s.session = 0), 0)::bigint,
       coalesce(sum(s.counted) FILTER (WHERE s.session = 0 AND s.day = d.today), 0)::bigint,
       coalesce(max(s.counted >> greatest(array_position(%(payers)s::bigint[], s.session) - 2, 0))
                FILTER (WHERE s.session <> 0 AND s.day = d.today), 0)::bigint,
       d.today
FROM (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) d
LEFT JOIN live_spending s ON s.arena = %(arena)s
    AND (s.session = 0 OR (s.session = ANY(%(payers)s::bigint[]) AND s.day = d.today))
GROUP BY d.today;

-- name: live_count
-- Count an amount, which may be below 0, for all and on the accounts of one voter on a day.
INSERT INTO live_spending (arena, session, day, counted)
SELECT %(arena)s, s, %(day)s, %(amount)s FROM unnest(array_prepend(0::bigint, %(payers)s::bigint[])) AS s
ON CONFLICT (arena, session, day) DO UPDATE SET counted = live_spending.counted + excluded.counted;

-- name: live_add_prompt
-- The number of a prompt by the hash of its normalised text: the next one if it is new. The lock keeps numbers dense.
INSERT INTO live_prompts (arena, number, sha256)
SELECT %(arena)s, coalesce(max(number), 0) + 1, %(sha256)s FROM live_prompts WHERE arena = %(arena)s
ON CONFLICT (arena, sha256) DO UPDATE SET sha256 = excluded.sha256
RETURNING number;

-- name: live_add_battle
-- A battle that was served. Returns when it began, and the models on the left and on the right.
INSERT INTO live_battles (arena, matchup, session, category, free_prompt, payers)
VALUES (%(arena)s, %(matchup)s, %(session)s, %(category)s, %(free_prompt)s, %(payers)s::bigint[])
ON CONFLICT (arena, matchup) DO UPDATE SET session = excluded.session
RETURNING began_at, (SELECT ARRAY[m.a, m.b] FROM matchups m WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s);

-- name: live_begin
-- A turn of a battle that is not void begins: it cannot be voted on meanwhile. Returns its voter and the accounts.
UPDATE live_battles SET votable = false
WHERE arena = %(arena)s AND matchup = %(matchup)s AND void IS NULL
RETURNING session, payers;

-- name: live_has_ended
-- Whether a matchup was voted on, skipped or has expired.
SELECT EXISTS (
    SELECT FROM matchups m JOIN endings e USING (arena, source, serial)
    WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s AND e.undone IS NULL
);

-- name: live_add_turn
-- A turn begins, unless the one before it has not ended.
INSERT INTO live_turns (arena, matchup, turn, prompt, state, process)
SELECT %(arena)s, %(matchup)s, %(turn)s::smallint, %(prompt)s, 'waiting', %(process)s
WHERE %(turn)s::smallint = 1 + (
    SELECT count(*) FROM live_turns WHERE arena = %(arena)s AND matchup = %(matchup)s AND ended_at IS NOT NULL
)
ON CONFLICT (arena, matchup, turn) DO NOTHING;

-- name: live_add_calls
-- Calls that are about to be made, by side.
INSERT INTO live_calls (arena, matchup, turn, side, model, session, day, max_tokens, reserve)
SELECT %(arena)s, %(matchup)s, %(turn)s, c.side, c.model, %(session)s, %(day)s, c.max_tokens, c.reserve
FROM unnest(%(side)s::smallint[], %(model)s::integer[], %(max_tokens)s::integer[], %(reserve)s::bigint[])
    WITH ORDINALITY AS c (side, model, max_tokens, reserve, place)
ORDER BY place
RETURNING call;

-- name: live_find_call
-- The turn and the side of a call that has ended, its voter and the accounts.
SELECT c.matchup, c.turn, c.side, c.session, b.payers FROM live_calls c
JOIN live_turns t USING (arena, matchup, turn)
JOIN live_battles b USING (arena, matchup)
WHERE c.arena = %(arena)s AND c.call = %(call)s AND c.state <> 'running' AND t.ended_at IS NULL;

-- name: live_end_call
-- A call ended. Returns what is counted from now on besides its reserve, its voter, the accounts and its day; no row if
-- it had ended.
UPDATE live_calls c
SET state = %(state)s, cost = %(cost)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
    first_token_seconds = %(first_token_seconds)s, seconds = %(seconds)s, problem = %(problem)s,
    ended_at = clock_timestamp()
FROM live_battles b
WHERE c.arena = %(arena)s AND c.call = %(call)s AND c.state = 'running' AND b.arena = c.arena AND b.matchup = c.matchup
RETURNING coalesce(c.cost, c.reserve, 0) - coalesce(c.reserve, 0), c.session, b.payers, c.day;

-- name: live_end_turn
-- A turn ended; no row comes back if it had ended. Of answers to a prompt that was erased meanwhile only the lengths are
-- stored.
UPDATE live_turns
SET state = %(state)s, answer_a = CASE WHEN prompt IS NOT NULL THEN %(answer_a)s END,
    answer_b = CASE WHEN prompt IS NOT NULL THEN %(answer_b)s END,
    thinking_a = CASE WHEN prompt IS NOT NULL THEN %(thinking_a)s END,
    thinking_b = CASE WHEN prompt IS NOT NULL THEN %(thinking_b)s END, flags = %(flags)s, process = NULL, ended_at = clock_timestamp(),
    characters_a = char_length(%(answer_a)s::text), characters_b = char_length(%(answer_b)s::text)
WHERE arena = %(arena)s AND matchup = %(matchup)s AND turn = %(turn)s AND ended_at IS NULL
RETURNING turn;

-- name: live_running_arenas
-- Arenas in which turns have not ended.
SELECT DISTINCT arena FROM live_turns WHERE ended_at IS NULL ORDER BY arena;

-- name: live_free_slot
-- The place of a turn that has ended is free.
DELETE FROM live_slots WHERE arena = %(arena)s AND matchup = %(matchup)s;

-- name: live_end_battle_turn
-- After a turn a battle can be voted on, or is void. A turn that was stopped before anything came leaves those before it.
-- Its language is that of its first prompt.
UPDATE live_battles b SET void = coalesce(void, %(void)s), votable = %(votable)s OR (
    %(void)s::text IS NULL AND EXISTS (
        SELECT FROM live_turns t
        WHERE t.arena = b.arena AND t.matchup = b.matchup AND t.answer_a <> '' AND t.answer_b <> ''
    )
), language = coalesce(language, %(language)s), identity_talk = identity_talk OR %(identity_talk)s
WHERE arena = %(arena)s AND matchup = %(matchup)s;

-- name: live_void_lost
-- Turns whose process is gone are void, and so are their battles; what their calls cost is unknown.
WITH lost AS (
    UPDATE live_turns SET state = 'void', process = NULL, ended_at = clock_timestamp()
    WHERE arena = %(arena)s AND ended_at IS NULL AND process <> %(process)s AND NOT EXISTS (
        SELECT FROM processes p WHERE p.process = live_turns.process AND p.expires_at > clock_timestamp()
    )
    RETURNING matchup, turn
), slots AS (
    DELETE FROM live_slots s USING lost WHERE s.arena = %(arena)s AND s.matchup = lost.matchup
), calls AS (
    UPDATE live_calls c SET state = 'unknown', problem = %(problem)s, ended_at = clock_timestamp()
    FROM lost WHERE c.arena = %(arena)s AND c.matchup = lost.matchup AND c.turn = lost.turn AND c.state = 'running'
)
UPDATE live_battles b SET votable = false, void = coalesce(b.void, %(problem)s)
FROM lost WHERE b.arena = %(arena)s AND b.matchup = lost.matchup
RETURNING b.matchup;

-- name: live_void_without_ending
-- Battles that are void and whose matchups are still open.
SELECT b.matchup, b.void FROM live_battles b
JOIN matchups m ON m.arena = b.arena AND m.matchup = b.matchup
LEFT JOIN endings e ON e.arena = m.arena AND e.source = m.source AND e.serial = m.serial
WHERE b.arena = %(arena)s AND b.void IS NOT NULL AND m.expires_at > clock_timestamp()
    AND (e.serial IS NULL OR e.undone IS NOT NULL);

-- name: live_battles
-- Battles with their endings: one, or a voter's last ones.
SELECT b.matchup, a.name, p.name, b.began_at, b.void IS NOT NULL, m.ballot, m.expires_at <= clock_timestamp(),
       CASE WHEN e.undone IS NULL THEN e.kind END,
       coalesce((a.settings ->> 'live_turns')::integer, %(turn_limit)s)
FROM live_battles b
JOIN arenas a USING (arena)
JOIN prompts p ON p.arena = b.arena AND p.prompt = b.category
JOIN matchups m ON m.arena = b.arena AND m.matchup = b.matchup
LEFT JOIN endings e ON e.arena = m.arena AND e.source = m.source AND e.serial = m.serial
WHERE b.arena = %(arena)s AND (%(matchup)s::uuid IS NULL OR b.matchup = %(matchup)s)
    AND (%(session)s::bigint IS NULL OR b.session = %(session)s)
ORDER BY b.began_at DESC, b.matchup LIMIT %(limit)s;

-- name: live_open_battle
-- A voter's battle that is neither void nor voted on, skipped or expired.
SELECT b.matchup
FROM live_battles b
JOIN matchups m ON m.arena = b.arena AND m.matchup = b.matchup
LEFT JOIN endings e ON e.arena = m.arena AND e.source = m.source AND e.serial = m.serial
WHERE b.arena = %(arena)s AND b.session = %(session)s AND b.void IS NULL AND m.expires_at > clock_timestamp()
    AND (e.serial IS NULL OR e.undone IS NOT NULL)
ORDER BY b.began_at DESC LIMIT 1;

-- name: live_turns
-- The turns of these battles; texts that were erased are empty. Of a turn that runs, what it shows.
SELECT t.matchup, t.turn, coalesce(t.prompt, ''), coalesce(t.answer_a, s.a, ''), coalesce(t.answer_b, s.b, ''),
       coalesce(s.state, t.state), t.outcome
FROM live_turns t
LEFT JOIN live_slots s ON s.arena = t.arena AND s.matchup = t.matchup AND s.turn = t.turn AND t.ended_at IS NULL
WHERE t.arena = %(arena)s AND t.matchup = ANY(%(matchups)s) ORDER BY t.matchup, t.turn;

-- name: live_sides
-- The models on the left and on the right of a battle.
SELECT a, b FROM matchups WHERE arena = %(arena)s AND matchup = %(matchup)s;

-- name: live_turn_vote
-- The verdict on one turn that is complete, in a battle that is not void.
UPDATE live_turns t SET outcome = %(outcome)s
FROM live_battles b
WHERE t.arena = %(arena)s AND t.matchup = %(matchup)s AND t.turn = %(turn)s AND t.state IN ('done', 'stopped')
    AND b.arena = t.arena AND b.matchup = t.matchup AND b.void IS NULL;

-- name: live_entrants
-- The entrants of an arena by model, newest last.
SELECT model, name, version, config, enabled FROM live_entrants WHERE arena = %(arena)s ORDER BY model;

-- name: live_add_entrants
-- New versions of entrants, each a model of its own.
INSERT INTO live_entrants (arena, model, name, version, config)
SELECT %(arena)s, * FROM unnest(%(model)s::integer[], %(name)s::text[], %(version)s::text[], %(config)s::jsonb[]);

-- name: live_describe_entrant
-- What the models file says now of an entrant that answers as before: its price, where its key is.
-- Whether it is paused stays.
UPDATE live_entrants SET config = %(config)s || jsonb_strip_nulls(jsonb_build_object('paused', config -> 'paused'))
WHERE arena = %(arena)s AND model = %(model)s;

-- name: live_pause_entrant
-- Pause an entrant, or let it be asked again; no row if nothing changed.
UPDATE live_entrants SET config = CASE WHEN %(paused)s THEN config || '{"paused": true}' ELSE config - 'paused' END
WHERE arena = %(arena)s AND model = %(model)s AND (config ? 'paused') <> %(paused)s
RETURNING model;

-- name: live_switch_entrants
-- Entrants that are served from now on, or no more.
UPDATE live_entrants SET enabled = %(enabled)s, retired_at = CASE WHEN %(enabled)s THEN NULL ELSE now() END
WHERE arena = %(arena)s AND model = ANY(%(models)s);

-- name: live_categories
-- What a prompt can be about: the prompts of a live arena's roster.
SELECT name FROM prompts WHERE arena = %(arena)s AND withdrawn_at IS NULL ORDER BY prompt;

-- name: live_answer_figures
-- By side: the mean time to the first token, the time of all answers, and what they cost, if that is known of all calls.
SELECT side, avg(first_token_seconds), sum(seconds), CASE WHEN count(*) = count(cost) THEN sum(cost)::bigint END
FROM live_calls WHERE arena = %(arena)s AND matchup = %(matchup)s
GROUP BY side;

-- name: live_entrant_use
-- The calls of each model in some days: how many, how many failed, what they cost, and what has failed since the last
-- answer.
SELECT m.name, e.version, e.enabled, e.config ? 'paused', count(c.call), count(c.call) FILTER (WHERE c.state IN ('failed', 'unknown')),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY c.first_token_seconds),
       coalesce(sum(coalesce(c.cost, c.reserve)) FILTER (WHERE c.day = (clock_timestamp() AT TIME ZONE 'UTC')::date), 0)::bigint,
       coalesce(sum(coalesce(c.cost, c.reserve)), 0)::bigint, a.answered_at,
       count(c.call) FILTER (WHERE c.state = 'failed' AND c.ended_at > coalesce(a.answered_at, '-infinity')),
       (SELECT f.problem FROM live_calls f
        WHERE f.arena = e.arena AND f.model = e.model AND f.state = 'failed'
            AND f.ended_at > coalesce(a.answered_at, '-infinity')
        ORDER BY f.began_at DESC LIMIT 1)
FROM live_entrants e
JOIN models m USING (arena, model)
LEFT JOIN live_calls c ON c.arena = e.arena AND c.model = e.model
    AND c.began_at > clock_timestamp() - make_interval(days => %(days)s)
LEFT JOIN LATERAL (
    SELECT d.ended_at AS answered_at FROM live_calls d
    WHERE d.arena = e.arena AND d.model = e.model AND d.state = 'done'
    ORDER BY d.began_at DESC LIMIT 1
) a ON true
WHERE e.arena = %(arena)s
GROUP BY e.arena, e.model, m.name, e.version, e.enabled, e.config, a.answered_at
ORDER BY e.enabled DESC, e.model;

-- name: live_failures
-- Why calls failed, by model; the most frequent first.
SELECT m.name, coalesce(c.problem, c.state), count(*)
FROM live_calls c JOIN models m USING (arena, model)
WHERE c.arena = %(arena)s AND c.state IN ('failed', 'refused', 'unknown')
    AND c.began_at > clock_timestamp() - make_interval(days => %(days)s)
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT %(limit)s;

-- name: live_battle_counts
-- How many battles began in some days, and how many of them are void.
SELECT count(*), count(void) FROM live_battles
WHERE arena = %(arena)s AND began_at > clock_timestamp() - make_interval(days => %(days)s);
