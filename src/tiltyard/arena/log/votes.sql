-- name: battles_bounds
-- Up to where votes are final, and the log's last position.
SELECT r.horizon, coalesce((SELECT max(position) FROM events WHERE arena = %(arena)s), 0)
FROM raters r WHERE r.arena = %(arena)s;

-- name: battles_votes
-- Votes in a range of the log that were neither undone nor, as of a position, excluded; and why each is not rated then.
SELECT e.position, e.at, e.source, vote_kind(e.outcome, e.both_bad), e.detail, m.a, m.b, m.prompt, m.session, m.nominal, m.lane,
       nullif(m.propensity, 'NaN'), coalesce(e.blind, true), coalesce(m.free_prompt, 0),
       vote_unrated(e.blind, e.mark, d.admitted, %(as_of)s), coalesce(e.mark, 0) = 4
FROM events e
JOIN matchups m USING (arena, source, serial)
JOIN endings d USING (arena, source, serial)
WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.position <= %(upto)s AND e.kind = 1
    AND (%(source)s::smallint IS NULL OR e.source = %(source)s)
    AND d.position = e.position AND d.undone IS NULL
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial
            AND x.excluded <= %(as_of)s AND (x.restored IS NULL OR x.restored > %(as_of)s)
    )
ORDER BY e.position;

-- name: battles_tally
-- How often each pair ended how, on each of these prompts and on each prompt that a voter wrote, in the rated ones of the votes that the other statement
-- names; where excluded votes are counted, in those as well.
SELECT m.a, m.b, m.prompt, vote_kind(d.outcome, d.both_bad) AS vote, count(*), coalesce(m.free_prompt, 0) AS written
FROM endings d
JOIN matchups m USING (arena, source, serial)
WHERE d.arena = %(arena)s AND d.source = %(source)s AND d.kind = 1 AND d.undone IS NULL
    AND vote_unrated(d.blind, d.mark, d.admitted, %(upto)s) IS NULL AND d.position <= %(upto)s
    AND (%(prompts)s::integer[] IS NULL OR m.prompt = ANY(%(prompts)s))
    AND (%(model)s::integer IS NULL OR m.a = %(model)s OR m.b = %(model)s)
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE NOT %(counted)s AND v.arena = d.arena AND v.source = d.source AND v.serial = d.serial
            AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
    )
GROUP BY m.a, m.b, m.prompt, written, vote
ORDER BY m.a, m.b, m.prompt, written, vote;

-- name: battles_ballots
-- The same votes one by one in the order in which they count, as fixed-width binary columns, perhaps with those that
-- are not rated, or those of one lane; of a live arena perhaps only those of a language, or without identity talk.
COPY (
    SELECT coalesce(d.admitted, d.position) AS counted_at, m.session, m.a, m.b, m.prompt, vote_kind(d.outcome, d.both_bad)::smallint,
           coalesce(m.free_prompt, 0)::integer, extract(epoch FROM d.at)::bigint
    FROM endings d
    JOIN matchups m USING (arena, source, serial)
    WHERE d.arena = %(arena)s AND d.source = %(source)s AND d.kind = 1 AND d.undone IS NULL
        AND (%(unrated)s OR vote_unrated(d.blind, d.mark, d.admitted, %(upto)s) IS NULL) AND d.position <= %(upto)s
        AND (%(prompts)s::integer[] IS NULL OR m.prompt = ANY(%(prompts)s))
        AND (%(lane)s::smallint IS NULL OR m.lane = %(lane)s)
        AND (%(spoken)s::text IS NULL OR EXISTS (
            SELECT FROM live_battles l WHERE l.arena = m.arena AND l.matchup = m.matchup AND l.language = %(spoken)s
        ))
        AND NOT EXISTS (
            SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
            WHERE NOT %(counted)s AND v.arena = d.arena AND v.source = d.source AND v.serial = d.serial
                AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
        )
    ORDER BY counted_at
) TO STDOUT (FORMAT binary);

-- name: battles_arrivals
-- When each model was first enabled.
SELECT a, min(position) FROM events
WHERE arena = %(arena)s AND kind = 4 AND position <= %(upto)s
GROUP BY a ORDER BY min(position);

-- name: battles_pairs
-- The same between these models only, all prompts of the list together.
SELECT m.a, m.b, 0, vote_kind(d.outcome, d.both_bad) AS vote, count(*)
FROM endings d
JOIN matchups m USING (arena, source, serial)
WHERE d.arena = %(arena)s AND d.source = %(source)s AND d.kind = 1 AND d.undone IS NULL
    AND (%(unrated)s OR vote_unrated(d.blind, d.mark, d.admitted, %(upto)s) IS NULL) AND d.position <= %(upto)s
    AND (%(prompts)s::integer[] IS NULL OR m.prompt = ANY(%(prompts)s))
    AND m.a = ANY(%(models)s::integer[]) AND m.b = ANY(%(models)s::integer[])
    AND (%(lane)s::smallint IS NULL OR m.lane = %(lane)s)
    AND (%(spoken)s::text IS NULL OR EXISTS (
        SELECT FROM live_battles l WHERE l.arena = m.arena AND l.matchup = m.matchup AND l.language = %(spoken)s
    ))
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE NOT %(counted)s AND v.arena = d.arena AND v.source = d.source AND v.serial = d.serial
            AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
    )
GROUP BY m.a, m.b, vote
ORDER BY m.a, m.b, vote;

-- name: battles_excluded
-- How many votes up to a position are left out as of that position.
SELECT count(DISTINCT v.serial)
FROM exclusions x
JOIN excluded_votes v USING (exclusion)
JOIN endings d ON d.arena = %(arena)s AND d.source = v.source AND d.serial = v.serial
WHERE x.arena = %(arena)s AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
    AND v.source = %(source)s AND d.position <= %(upto)s AND d.undone IS NULL;

-- name: battles_imported
-- The number of imported votes of a source up to a position that are not excluded there; all are of people. The events of a batch are pairs: a matchup, its vote.
SELECT coalesce(sum(least(greatest((%(upto)s - i.position + 1) / 2, 0), i.votes)), 0)::bigint - CASE count(*) WHEN 0 THEN 0 ELSE (
    SELECT count(DISTINCT v.serial)
    FROM exclusions x
    JOIN excluded_votes v USING (exclusion)
    JOIN endings d ON d.arena = %(arena)s AND d.source = v.source AND d.serial = v.serial
    JOIN vote_imports b ON b.arena = %(arena)s AND d.position BETWEEN b.position AND b.position + 2 * b.votes
    WHERE x.arena = %(arena)s AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
        AND v.source = 0 AND d.position <= %(upto)s
) END
FROM vote_imports i WHERE i.arena = %(arena)s AND %(source)s = 0;

-- name: battles_unrated
-- The number of votes up to a position that are not rated there, by reason, and when the first of them was cast.
-- Each kind has an index of its own.
SELECT vote_unrated(blind, mark, admitted, %(upto)s) AS reason, count(*), min(at)
FROM (
    SELECT blind, mark, admitted, at FROM endings
    WHERE arena = %(arena)s AND source = %(source)s AND position <= %(upto)s AND kind = 1 AND undone IS NULL
        AND NOT blind
    UNION ALL
    SELECT blind, mark, admitted, at FROM endings
    WHERE arena = %(arena)s AND source = %(source)s AND position <= %(upto)s AND kind = 1 AND undone IS NULL
        AND blind IS NOT FALSE AND mark < 3
    UNION ALL
    SELECT blind, mark, admitted, at FROM endings
    WHERE arena = %(arena)s AND source = %(source)s AND position <= %(upto)s AND kind = 1 AND undone IS NULL
        AND blind IS NOT FALSE AND mark = 3 AND admitted IS NULL
    UNION ALL
    SELECT blind, mark, admitted, at FROM endings
    WHERE arena = %(arena)s AND source = %(source)s AND position <= %(upto)s AND undone IS NULL
        AND admitted > %(upto)s
) AS votes
GROUP BY reason;

-- name: battles_patience
-- How long a statement may take: of this transaction, or of all that follow on this connection.
SELECT set_config('statement_timeout', %(patience)s, %(here)s);

-- name: battles_by_hash
-- Votes are joined by hash for the rest of this transaction. A table that was filled a moment ago has no statistics
-- yet, and the planner takes it for one of a few rows.
SELECT set_config('enable_nestloop', 'off', true);

-- name: battles_prompts
-- The prompts, with category and language.
SELECT name, category, language FROM prompts WHERE arena = %(arena)s ORDER BY prompt;
