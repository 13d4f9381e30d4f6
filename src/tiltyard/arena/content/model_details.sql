-- name: model_details_all
-- What is said about the models of an arena, by name; those of which nothing is said are left out.
SELECT m.name, d.maker, d.family, d.licence, d.link, d.open_weights, d.input_usd, d.output_usd
FROM model_details d JOIN models m USING (arena, model)
WHERE d.arena = %(arena)s ORDER BY m.model;

-- name: model_details_lock
-- A model that is going to be described. Nobody else describes it meanwhile.
SELECT model FROM models WHERE arena = %(arena)s AND name = %(name)s FOR UPDATE;

-- name: model_details_one
-- What is said about one model.
SELECT maker, family, licence, link, open_weights, input_usd, output_usd FROM model_details
WHERE arena = %(arena)s AND model = %(model)s;

-- name: model_details_set
-- Say something else about a model.
INSERT INTO model_details (arena, model, maker, family, licence, link, open_weights, input_usd, output_usd)
VALUES (%(arena)s, %(model)s, %(maker)s, %(family)s, %(licence)s, %(link)s, %(open_weights)s, %(input_usd)s,
        %(output_usd)s)
ON CONFLICT (arena, model) DO UPDATE SET
    maker = excluded.maker, family = excluded.family, licence = excluded.licence, link = excluded.link,
    open_weights = excluded.open_weights, input_usd = excluded.input_usd, output_usd = excluded.output_usd;
