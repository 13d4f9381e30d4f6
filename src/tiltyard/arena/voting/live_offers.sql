-- name: live_votable
-- Whether a battle can be voted on. It stays so until the transaction ends.
SELECT votable, void IS NOT NULL FROM live_battles
WHERE arena = %(arena)s AND matchup = %(matchup)s FOR SHARE;
