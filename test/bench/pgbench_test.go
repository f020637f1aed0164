package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const answer = `pgbench (15.18 (Debian 15.18-0+deb12u1))
starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 2
maximum number of tries: 1
duration: 60 s
number of transactions actually processed: 71234
number of failed transactions: 2 (0.003%)
latency average = 6.738 ms
initial connection time = 45.321 ms
tps = 1187.301234 (without initial connection time)
`

func TestParsePgbench(t *testing.T) {
	run, err := parsePgbench(answer)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pgRun{TPS: 1187.301234, Latency: 6.738, Failed: 2}, run); diff != "" {
		t.Error(diff)
	}
	if _, err := parsePgbench("pgbench: error: connection refused"); err == nil {
		t.Error("an output without figures is accepted")
	}
}

func TestDifferences(t *testing.T) {
	got := differences(map[string]string{"same": "1", "other": "1", "less": "1"}, map[string]string{"same": "1", "other": "2", "more": "1"})
	want := []string{`less is "1" and ""`, `more is "" and "1"`, `other is "1" and "2"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryComparesWithinRounds(t *testing.T) {
	runs := func(tps ...float64) (out []pgRun) {
		for _, one := range tps {
			out = append(out, pgRun{TPS: one})
		}
		return out
	}
	r := pgbenchResults{Runs: map[string][]pgRun{targetService: runs(90, 180, 100), targetBareTLS: runs(100, 200, 80)}}
	r.summarize()
	if got := r.Quotient["service/bare-tls"]; got != 1 {
		t.Errorf("ratio of the medians: %v, want 1", got)
	}
	if len(r.Ratios) != 1 || r.Ratios[0].Median != 0.9 {
		t.Errorf("median of the rounds' ratios: %v, want one of 0.9", r.Ratios)
	}
}

func TestCPUGroup(t *testing.T) {
	for name, test := range map[string]struct{ groups, folder, weight string }{
		"version 1":  {"3:cpuset:/x\n2:cpu,cpuacct:/kubepods/pod1/c\n0::/\n", "/sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/c", "cpu.shares"},
		"both":       {"0::/u\n1:cpu:/kubepods/pod1/c\n", "/sys/fs/cgroup/cpu/kubepods/pod1/c", "cpu.shares"},
		"version 2":  {"0::/kubepods.slice/pod1/c\n", "/sys/fs/cgroup/kubepods.slice/pod1/c", "cpu.weight"},
		"no cpu":     {"3:cpuacct:/x\n", "", ""},
		"not a line": {"nonsense\n", "", ""},
	} {
		folder, weight := cpuGroup(test.groups)
		if folder != test.folder || weight != test.weight {
			t.Errorf("%s: %q and %q, want %q and %q", name, folder, weight, test.folder, test.weight)
		}
	}
}
