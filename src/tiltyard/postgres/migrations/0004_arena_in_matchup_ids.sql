-- Ids of matchups carry the number of their arena, so that a matchup is looked for in one arena only. Those
-- that version 0.1 handed out do not: its arenas, also those it makes while processes of both versions run,
-- keep the default.
ALTER TABLE arenas ADD COLUMN ids_carry_arena boolean NOT NULL DEFAULT false;
