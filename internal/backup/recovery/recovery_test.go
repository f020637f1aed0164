package recovery

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const size = 0x1000000 // 16 MiB

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func segments(from, to uint64) (out []uint64) {
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

func base(run string, minutes int, timeline wal.Timeline, start, end wal.LSN) Base {
	return Base{Run: run, SystemID: "7", Completed: at(minutes), Timeline: timeline, Start: start, End: end, SegmentSize: size}
}

// two failovers: timeline 1 ends inside segment 5, timeline 2 inside segment 9. Timeline 4 is a dead end: it left timeline 1 inside
// segment 3.
var (
	bases = []Base{base("b", 40, 2, 0x6000028, 0x6000100), base("a", 10, 1, 0x2000028, 0x2000100), base("c", 70, 3, 0xA000028, 0xA000100)}
	full  = Archive{Timelines: []Timeline{
		{ID: 1, Segments: segments(1, 4)},
		{ID: 2, History: wal.History{{Timeline: 1, SwitchPoint: 0x5800000}}, Segments: segments(5, 8)},
		{ID: 3, History: wal.History{{Timeline: 1, SwitchPoint: 0x5800000}, {Timeline: 2, SwitchPoint: 0x9800000}}, Segments: segments(9, 12)},
	}}
)

func without(a Archive, timeline wal.Timeline, segment uint64) Archive {
	a.Timelines = slices.Clone(a.Timelines)
	for i := range a.Timelines {
		if a.Timelines[i].ID == timeline {
			a.Timelines[i].Segments = slices.DeleteFunc(slices.Clone(a.Timelines[i].Segments), func(n uint64) bool { return n == segment })
		}
	}
	return a
}

func TestChoose(t *testing.T) {
	other := Archive{Timelines: append(slices.Clone(full.Timelines), Timeline{
		ID: 4, History: wal.History{{Timeline: 1, SwitchPoint: 0x3800000}}, Segments: segments(3, 20),
	})}
	for name, c := range map[string]struct {
		bases   []Base
		archive Archive
		target  Target
		run     string
		want    wal.Timeline
		reason  string
	}{
		"latest":                         {bases, full, Target{}, "c", 3, ""},
		"latest of a named run":          {bases, full, Target{Run: "a"}, "a", 3, ""},
		"time between the failovers":     {bases, full, Target{Time: at(45)}, "b", 3, ""},
		"time at the end of a backup":    {bases, full, Target{Time: at(40)}, "b", 3, ""},
		"time before the second backup":  {bases, full, Target{Time: at(39)}, "a", 3, ""},
		"time before the first backup":   {bases, full, Target{Time: at(9)}, "", 0, databasev1alpha1.ReasonTargetTooEarly},
		"time in the future":             {bases, full, Target{Time: at(10000)}, "", 0, databasev1alpha1.ReasonTargetNotReached},
		"time before the named run":      {bases, full, Target{Time: at(39), Run: "b"}, "", 0, databasev1alpha1.ReasonTargetTooEarly},
		"LSN on timeline 1":              {bases, full, Target{LSN: 0x4000000}, "a", 3, ""},
		"LSN on timeline 2":              {bases, full, Target{LSN: 0x9000000}, "b", 3, ""},
		"LSN inside the first backup":    {bases, full, Target{LSN: 0x2000080}, "", 0, databasev1alpha1.ReasonTargetTooEarly},
		"LSN after the last segment":     {bases, full, Target{LSN: 0xD000001}, "", 0, databasev1alpha1.ReasonTargetNotReached},
		"LSN at the end of the archive":  {bases, full, Target{LSN: 0xD000000}, "c", 3, ""},
		"LSN behind a gap":               {bases[:2], without(full, 2, 7), Target{LSN: 0x9000000}, "", 0, databasev1alpha1.ReasonWALMissing},
		"LSN before a gap":               {bases[:2], without(full, 2, 7), Target{LSN: 0x6800000}, "b", 3, ""},
		"backup after a gap":             {bases, without(full, 2, 7), Target{}, "c", 3, ""},
		"latest behind a gap":            {bases[:2], without(full, 2, 7), Target{}, "", 0, databasev1alpha1.ReasonWALMissing},
		"gap inside the backup":          {bases[:1], without(full, 2, 6), Target{Immediate: true}, "", 0, databasev1alpha1.ReasonWALMissing},
		"gap at the end of the backup":   {[]Base{base("wide", 40, 2, 0x6000028, 0x7000100)}, without(full, 2, 7), Target{Immediate: true}, "", 0, databasev1alpha1.ReasonWALMissing},
		"immediate":                      {bases, full, Target{Immediate: true}, "c", 3, ""},
		"immediate of a named run":       {bases, full, Target{Immediate: true, Run: "b"}, "b", 3, ""},
		"transaction":                    {bases, full, Target{XID: "700"}, "a", 3, ""},
		"restore point of a named run":   {bases, full, Target{Name: "x", Run: "b"}, "b", 3, ""},
		"no backup":                      {nil, full, Target{}, "", 0, backupv1alpha1.ReasonNoBackup},
		"no such run":                    {bases, full, Target{Run: "z"}, "", 0, backupv1alpha1.ReasonNoBackup},
		"no archive":                     {bases, Archive{}, Target{}, "", 0, databasev1alpha1.ReasonWALMissing},
		"backup beyond the switch":       {append(bases[1:2:2], base("late", 50, 1, 0x5900028, 0x5900100)), full, Target{Run: "late"}, "", 0, databasev1alpha1.ReasonWALMissing},
		"latest beside such a backup":    {append(bases[1:2:2], base("late", 50, 1, 0x5900028, 0x5900100)), full, Target{}, "a", 3, ""},
		"highest timeline":               {bases, other, Target{}, "a", 4, ""},
		"backup beside the highest":      {bases, other, Target{Run: "c"}, "c", 3, ""},
		"LSN of a lower timeline only":   {bases[:1], other, Target{LSN: 0x7000000}, "b", 3, ""},
		"segment of the older timeline":  {bases[1:2], Archive{Timelines: []Timeline{{ID: 1, Segments: segments(2, 5)}, {ID: 2, History: full.Timelines[1].History}}}, Target{}, "a", 2, ""},
		"only a history of the timeline": {bases[1:2], Archive{Timelines: []Timeline{full.Timelines[0], {ID: 2, History: full.Timelines[1].History}}}, Target{LSN: 0x4900000}, "a", 2, ""},
	} {
		plan, err := Choose(c.bases, c.archive, c.target, at(200))
		reason := ""
		if problem, ok := errors.AsType[*Error](err); ok {
			reason = problem.Reason
		}
		if reason != c.reason || plan.Base.Run != c.run || plan.Timeline != c.want {
			t.Errorf("%s: run %q on timeline %d, %v; want %q, %d, %q", name, plan.Base.Run, plan.Timeline, err, c.run, c.want, c.reason)
		}
	}
}

// Timeline 3 ran from 60 on. At 120, a restore in place to the state of 90 began timeline 4, and a failover timeline 5. A time that the restore
// undid is on timeline 3 only.
func TestChoose_timeOfAnAbandonedTimeline(t *testing.T) {
	history := wal.History{{Timeline: 1, SwitchPoint: 0x5800000}, {Timeline: 2, SwitchPoint: 0x9800000}}
	restored := append(slices.Clone(history), wal.HistoryEntry{Timeline: 3, SwitchPoint: 0xB800000})
	archive := Archive{Timelines: []Timeline{
		full.Timelines[0],
		{ID: 2, History: full.Timelines[1].History, Segments: full.Timelines[1].Segments, Created: at(30)},
		{ID: 3, History: history, Segments: segments(9, 12), Created: at(60)},
		{ID: 4, History: restored, Segments: segments(11, 14), Created: at(120)},
		{ID: 5, History: append(slices.Clone(restored), wal.HistoryEntry{Timeline: 4, SwitchPoint: 0xF000000}), Segments: segments(15, 16), Created: at(150)},
	}}
	for name, c := range map[string]struct {
		target Target
		want   wal.Timeline
	}{
		"before the restore":            {Target{Time: at(92)}, 3},
		"in the same segment":           {Target{Time: at(91)}, 3},
		"after the restore":             {Target{Time: at(130)}, 5},
		"after the failover":            {Target{Time: at(160)}, 5},
		"of timeline 2":                 {Target{Time: at(45)}, 3},
		"the end":                       {Target{}, 5},
		"the end of a named timeline":   {Target{Timeline: 3}, 3},
		"position on a named timeline":  {Target{LSN: 0xB900000, Timeline: 3}, 3},
		"position":                      {Target{LSN: 0xB900000}, 5},
		"transaction of a named line":   {Target{XID: "7", Timeline: 4}, 4},
		"time on the timeline restored": {Target{Time: at(92), Timeline: 3}, 3},
	} {
		if plan, err := Choose(bases, archive, c.target, at(200)); err != nil || plan.Timeline != c.want {
			t.Errorf("%s: timeline %d, %v; want %d", name, plan.Timeline, err, c.want)
		}
	}
	if _, err := Choose(bases, archive, Target{Timeline: 9}, at(200)); err == nil || !strings.Contains(err.Error(), "timeline 9") {
		t.Errorf("a timeline that does not exist: %v", err)
	}
}

func TestPlan_checkTime(t *testing.T) {
	plan, err := Choose(bases, full, Target{Time: at(100)}, at(200))
	if err != nil || plan.Last != "00000003000000000000000C" || plan.Reach != 0xD000000 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if err := plan.CheckTime(Target{Time: at(100)}, at(100)); err != nil {
		t.Error(err)
	}
	var problem *Error
	if err := plan.CheckTime(Target{Time: at(100)}, at(98)); !errors.As(err, &problem) || problem.Reason != databasev1alpha1.ReasonTargetNotReached {
		t.Error(err)
	}
	plan.Gap = true
	if err := plan.CheckTime(Target{Time: at(100)}, at(98)); !errors.As(err, &problem) || problem.Reason != databasev1alpha1.ReasonWALMissing {
		t.Error(err)
	}
}

// TestChoose_plansAreComplete: with any segments missing, an accepted plan has all WAL up to its target.
func TestChoose_plansAreComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		archive := full
		lost := map[uint64]bool{}
		for range r.IntN(4) {
			n := 1 + r.Uint64N(12)
			lost[n] = true
			for id := range 3 {
				archive = without(archive, wal.Timeline(id+1), n)
			}
		}
		target := Target{LSN: wal.LSN(0x2000000 + r.Uint64N(0xC000000))}
		plan, err := Choose(bases, archive, target, at(200))
		if err != nil {
			continue
		}
		for n := uint64(plan.Base.Start) / size; n <= uint64(target.LSN-1)/size; n++ {
			if lost[n] || target.LSN < plan.Base.End {
				t.Fatalf("to %s from %s: segment %d is missing", target.LSN, plan.Base.Run, n)
			}
		}
	}
}

func TestSystemID(t *testing.T) {
	again := base("again", 90, 1, 0x2000028, 0x2000100)
	again.SystemID = "8"
	for want, target := range map[string]Target{"8": {}, "7": {Time: at(80)}} {
		if id, err := SystemID(append(slices.Clone(bases), again), target); err != nil || id != want {
			t.Errorf("%s: system identifier %s, %v", target, id, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for want, spec := range map[string]databasev1alpha1.PostgreSQLRecovery{
		"recovery_target_time = '2026-03-01 11:00:00.5+00'\n": {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: "2026-03-01T12:00:00.5+01:00"}},
		"recovery_target_lsn = '0/5000060'\n":                 {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: "0/5000060"}},
		"recovery_target_xid = '1234'\n":                      {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetXID: "1234"}},
		"recovery_target_name = 'a ''b\\\\'\n":                {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetName: `a 'b\`}},
		"recovery_target = 'immediate'\n":                     {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetImmediate: true}},
		"recovery_target_timeline = '3'\n":                    {},
	} {
		target, err := ParseTarget(&spec)
		if err != nil {
			t.Error(err)
		}
		text := Plan{Timeline: 3}.Settings(target, "fettle-wal /run/fettle fetch %f %p")
		if !strings.Contains(text, want) || strings.Count(text, "recovery_target") > 4 || target.String() == "" {
			t.Errorf("%+v: %s", spec, text)
		}
	}
	for _, spec := range []databasev1alpha1.PostgreSQLRecovery{{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: "yesterday"}}, {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: "5"}}} {
		if _, err := ParseTarget(&spec); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
}

func TestSegmentNames(t *testing.T) {
	for name, want := range map[string]uint64{"000000010000000000000002": 2, "0000000100000001000000FF": 0x1FF, "000000010000000A00000000": 0xA00} {
		timeline, n, ok := SegmentNumber(name, size)
		if !ok || n != want || timeline != 1 || segmentName(1, n, size) != name {
			t.Errorf("%s: timeline %d, segment %d, %v", name, timeline, n, ok)
		}
	}
	for _, name := range []string{"", "00000001000000000000000G", "000000010000000000000100", "000000010000000000000002.partial", "00000002.history"} {
		if _, _, ok := SegmentNumber(name, size); ok {
			t.Errorf("%q counts as a segment", name)
		}
	}
	if at := SegmentAt(1, 0x3000000, size); at != "000000010000000000000002" {
		t.Error(at)
	}
}
