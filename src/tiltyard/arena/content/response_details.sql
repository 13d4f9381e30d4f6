-- name: response_details_add
-- What is known about new responses.
INSERT INTO response_details
    (response, arena, input_tokens, output_tokens, cost_usd, latency_seconds, length, headers, lists, bold)
SELECT response, %(arena)s, input_tokens, output_tokens, cost_usd, latency_seconds, length, headers, lists, bold
FROM unnest(%(response)s::bigint[], %(input_tokens)s::bigint[], %(output_tokens)s::bigint[],
            %(cost_usd)s::double precision[], %(latency_seconds)s::double precision[], %(length)s::integer[],
            %(headers)s::integer[], %(lists)s::integer[], %(bold)s::integer[])
    AS n (response, input_tokens, output_tokens, cost_usd, latency_seconds, length, headers, lists, bold);

-- name: response_details_usage
-- What the current responses of each model took. Sums are over those that say it, and counts say how many do.
SELECT m.name, count(*), count(d.cost_usd), avg(d.cost_usd),
       count(*) FILTER (WHERE d.input_tokens IS NOT NULL AND d.output_tokens IS NOT NULL),
       avg(d.input_tokens) FILTER (WHERE d.output_tokens IS NOT NULL)::double precision,
       avg(d.output_tokens) FILTER (WHERE d.input_tokens IS NOT NULL)::double precision,
       count(d.latency_seconds), percentile_cont(0.5) WITHIN GROUP (ORDER BY d.latency_seconds),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY d.latency_seconds),
       count(d.length), avg(d.length)::double precision, avg(d.headers)::double precision,
       avg(d.lists)::double precision, avg(d.bold)::double precision
FROM responses r
JOIN models m USING (arena, model)
LEFT JOIN response_details d USING (response)
WHERE r.arena = %(arena)s AND r.withdrawn_at IS NULL
GROUP BY m.model, m.name ORDER BY m.model;

-- name: response_details_styles
-- How each text was written that is the only one its model ever gave to its prompt.
SELECT r.model, r.prompt, min(d.length), min(d.headers), min(d.lists), min(d.bold)
FROM responses r LEFT JOIN response_details d USING (response)
WHERE r.arena = %(arena)s
GROUP BY r.model, r.prompt HAVING count(*) = 1 AND count(d.length) = 1
ORDER BY r.model, r.prompt;

-- name: response_details_known
-- Whether any current response says what it took, and whether any is a text of which the style is known.
SELECT EXISTS (
           SELECT FROM response_details WHERE arena = %(arena)s
               AND (cost_usd IS NOT NULL OR latency_seconds IS NOT NULL OR output_tokens IS NOT NULL)
       ),
       EXISTS (SELECT FROM response_details WHERE arena = %(arena)s AND length IS NOT NULL);
