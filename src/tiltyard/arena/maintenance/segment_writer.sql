-- name: archive_vote_details
-- Numbers that were stored with the votes of a range: seconds on screen of each response, and a judge's preference.
SELECT position, (detail -> 'shown' ->> 'a')::double precision, (detail -> 'shown' ->> 'b')::double precision,
       (detail ->> 'pref')::double precision
FROM events
WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s AND kind = 1 AND detail IS NOT NULL
ORDER BY position;

-- name: archive_matchups
-- How the matchups of a range of serials were chosen. Their reason is a text, and stays here.
SELECT source, serial, position, response_a, response_b, propensity, given_up FROM matchups
WHERE arena = %(arena)s AND source = %(source)s AND serial >= %(first)s AND serial < %(stop)s
ORDER BY serial;

-- name: archive_excluded_votes
-- Votes of these exclusions. The reason of an exclusion is a text, and stays here.
SELECT exclusion, source, serial FROM excluded_votes
WHERE arena = %(arena)s AND exclusion = ANY(%(exclusions)s)
ORDER BY exclusion, source, serial;
