package sqlclient

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// slot is a physical replication slot.
type slot struct {
	name string
	// active is true while a standby uses the slot, lost if required segments were removed: then the slot is useless.
	active, lost bool
}

// EnsureSlots creates the physical slots that are missing or lost, reserving WAL immediately, and drops Fettle's other
// slots (config.SlotName) unless they are active. It returns what it changed. It works on standbys too, where no connection
// uses the slots: without AdvanceSlots they retain WAL forever.
func (c *Client) EnsureSlots(ctx context.Context, wanted []string) ([]string, error) {
	for _, name := range wanted {
		if !config.IsSlotName(name) {
			return nil, fmt.Errorf("create replication slots: %q is not a slot name of Fettle", name)
		}
	}
	var changes []string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		changes = nil
		rows, err := conn.Query(ctx, `SELECT slot_name::text, active, coalesce(wal_status, '') = 'lost'
FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary`)
		if err != nil {
			return err
		}
		slots, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s slot, err error) {
			return s, row.Scan(&s.name, &s.active, &s.lost)
		})
		if err != nil {
			return err
		}
		drop, create := planSlots(wanted, slots)
		for _, name := range drop {
			if _, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name); err != nil {
				return err
			}
			changes = append(changes, "dropped slot "+name)
		}
		for _, name := range create {
			if _, err := conn.Exec(ctx, "SELECT pg_create_physical_replication_slot($1, true)", name); err != nil {
				return err
			}
			changes = append(changes, "created slot "+name)
		}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("create replication slots: %w", err)
	}
	return changes, nil
}

// AdvanceSlots advances a standby's slots to positions, by slot, but not beyond what the standby has replayed.
func (c *Client) AdvanceSlots(ctx context.Context, positions map[string]wal.LSN) error {
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		for name, at := range positions {
			if _, err := conn.Exec(ctx, `SELECT pg_replication_slot_advance(slot_name, least($2::text::pg_lsn, pg_last_wal_replay_lsn()))
FROM pg_replication_slots WHERE slot_name = $1 AND NOT active AND restart_lsn < least($2::text::pg_lsn, pg_last_wal_replay_lsn())`,
				name, at.String()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("advance replication slots: %w", err)
	}
	return nil
}

// planSlots returns which slots to drop, and then which to create.
func planSlots(wanted []string, slots []slot) (drop, create []string) {
	missing := map[string]bool{}
	for _, name := range wanted {
		missing[name] = true
	}
	for _, s := range slots {
		switch {
		case !config.IsSlotName(s.name) || s.active:
			delete(missing, s.name)
		case !missing[s.name] || s.lost:
			drop = append(drop, s.name)
		default:
			delete(missing, s.name)
		}
	}
	slices.Sort(drop)
	return drop, slices.Sorted(maps.Keys(missing))
}
