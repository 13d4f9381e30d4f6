-- Logs are append-only by the database itself. Rows of events and matchups can be changed or deleted, and endings
-- deleted, only in a transaction that has written an audit entry and named it (see arena/log/rewrite_permits.sql).
-- The owner of the tables and a superuser can still disable these triggers.

CREATE FUNCTION refuse_rewriting() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    named text := coalesce(current_setting('tiltyard.audit_entry', true), '');
BEGIN
    -- Columns that may change are the arguments of the trigger.
    IF TG_OP = 'UPDATE' AND TG_NARGS > 0 AND to_jsonb(NEW) - TG_ARGV = to_jsonb(OLD) - TG_ARGV THEN
        RETURN NEW;
    END IF;
    IF named <> '' AND EXISTS (SELECT FROM audit WHERE entry = named::bigint AND at = now()) THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% on % is refused: logs are append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

-- They are inherited by all partitions, and cost nothing where rows are inserted.
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON matchups
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting('ballot', 'expires_at', 'unseen');
CREATE TRIGGER append_only BEFORE DELETE ON endings
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();

-- Triggers on TRUNCATE are not inherited: whoever creates a partition creates its trigger (arena/log/partitions.py).
DO $$
DECLARE
    kept regclass;
BEGIN
    FOR kept IN
        SELECT relid FROM unnest(ARRAY['events', 'matchups', 'endings']) AS root,
            LATERAL pg_partition_tree(root::regclass)
    LOOP
        EXECUTE format(
            'CREATE TRIGGER never_truncated BEFORE TRUNCATE ON %s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting()', kept
        );
    END LOOP;
END
$$;
